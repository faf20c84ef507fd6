"""Where exchanges are counted and journaled: their series of numbers, found by one look-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.agent.clock import SYSTEM_CLOCK, Clock
from trilat.agent.families import HTTP, LATENCY_BOUNDS, LATENCY_BUCKETS, LATENCY_STEP_NS
from trilat.agent.layout import SERVED, ServedFlag
from trilat.agent.records import UNKNOWN

from .marks import Marks, run_number
from .routes import METHODS, OTHER_LABEL

if TYPE_CHECKING:
    from .exchange import Exchange
    from .routes import RouteLabels
    from .station import Station

__all__ = ["Ledger"]

_START_AT = HTTP.places["trilat_http_response_start_seconds"]
_END_AT = HTTP.places["trilat_http_request_duration_seconds"]
_LAST = len(LATENCY_BOUNDS)
_SUM_AT = _LAST + 1
_STEPS = len(LATENCY_BUCKETS)
_BYTES_AT = HTTP.places["trilat_http_response_body_bytes_total"]
_AFTER_AT = HTTP.places["trilat_http_after_response_seconds_total"]
_EXCEPTIONS_AT = HTTP.places["trilat_http_exceptions_total"]
_NEXT_EXEMPLAR_AT = HTTP.places["next_exemplar_ns"]
_BODY_MIN_NS = 1_000_000  # a body that takes less ends as it starts
_EXEMPLAR_EVERY_NS = 1_000_000_000
_SERVED = int(SERVED.kind)
_STREAMED = int(ServedFlag.STREAMED)
_CACHE_MAX = 10_000
_NO_MARKS: Marks = (0, 0, 0, 0, 0, UNKNOWN, 0)


class Ledger:
    """Counts the exchanges of one application.

    Args:
        station: what the process keeps.
        labels: names routes and methods.
        token: where given, only requests that carry it count as marked.
        clock: the clocks to stamp with.

    Attributes:
        runs: the numbers of runs by the headers that were let in.
    """

    def __init__(
        self,
        station: Station,
        labels: RouteLabels,
        token: bytes | None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.station = station
        self.health = station.health
        self.token = token
        self.monotonic_ns = clock.monotonic_ns
        self.wall_ns = clock.wall_ns
        self._labels = labels
        self._series: dict[tuple[str, str, int], tuple[int, int]] = station.new_cache()
        self.runs: dict[bytes, int] = {}

    def add(self, exchange: Exchange, flags: int, took_ns: int) -> None:
        """Count an exchange that has ended, or was given up; it learns its series.

        Args:
            exchange: with the status that it is counted under.
            flags: see `trilat.agent.layout.ServedFlag`; those of the marks are added.
            took_ns: from the call to the end of the answer's body, or to where it was given up.
        """
        station = self.station
        scope, status = exchange.scope, exchange.status
        key = (scope["method"], self._labels.label(scope), status)
        series, name_id = self._series.get(key) or self._find(key)
        exchange.series = series
        view = station.view
        start_ns, size, stream = exchange.start_ns, exchange.size, exchange.stream
        if start_ns >= 0 and (stream is not None or took_ns - start_ns > _BODY_MIN_NS):
            at = series + _START_AT
            step = (start_ns - 1) // LATENCY_STEP_NS
            view[at + (LATENCY_BUCKETS[step] if 0 <= step < _STEPS else _far(step))] += 1
            view[at + _SUM_AT] += start_ns
        at = series + _END_AT
        step = (took_ns - 1) // LATENCY_STEP_NS
        bucket = LATENCY_BUCKETS[step] if 0 <= step < _STEPS else _far(step)
        view[at + bucket] += 1
        view[at + _SUM_AT] += took_ns
        gap_ns, messages = 0, 1
        if stream is not None:
            flags |= _STREAMED
            size, gap_ns, messages = stream.body_bytes, stream.gap_ns, stream.messages
        if size:
            view[series + _BYTES_AT] += size
        trace_high, trace_low, span, run, called_wall_ns, queue_ms, marked = (
            exchange.marks or _NO_MARKS
        )
        called_ns = exchange.called_ns
        if span and called_ns >= view[series + _NEXT_EXEMPLAR_AT]:
            self._exemplify(series, trace_high, trace_low, called_ns, bucket, took_ns)
        journal = station.journal
        if journal is not None:
            at = journal.ready()
            journal.pack_into(
                journal.buffer,
                at,
                _SERVED,
                flags | marked,
                name_id,
                trace_high,
                trace_low,
                span,
                run,
                called_wall_ns or self.wall_ns() - took_ns,
                called_ns,
                start_ns,
                exchange.end_ns,
                exchange.blocked_ns,
                exchange.thread_wait_ns,
                UNKNOWN if exchange.upload is None else exchange.upload.wait_ns,
                gap_ns,
                size,
                queue_ms,
                messages,
                status,
                0,
                journal.commit,
            )
            journal.wrote()

    def know_run(self, run: bytes) -> int:
        """The number of a run whose header has been let in; see `run_number`."""
        number = run_number(run)
        if len(self.runs) < _CACHE_MAX:
            self.runs[run] = number
        return number

    def add_after(self, series: int, after_ns: int) -> None:
        """Count the time that the application ran on after the end of its answer."""
        if series >= 0:
            self.station.view[series + _AFTER_AT] += after_ns

    def add_exception(self, series: int) -> None:
        """Count an exception that left the application."""
        if series >= 0:
            self.station.view[series + _EXCEPTIONS_AT] += 1

    def _find(self, key: tuple[str, str, int]) -> tuple[int, int]:
        """The series of a method, a route and a status that have not come together before."""
        method, label, status = key
        method = method if method in METHODS else OTHER_LABEL
        station = self.station
        series = station.counters.block(HTTP, (method, label, str(status)))
        name_id = station.journal.name_id(f"{method}\t{label}") if station.journal else 0
        if len(self._series) < _CACHE_MAX:
            self._series[key] = series, name_id
        return series, name_id

    def _exemplify(  # noqa: PLR0913, PLR0917 - once a second for a series
        self,
        series: int,
        trace_high: int,
        trace_low: int,
        called_ns: int,
        bucket: int,
        took_ns: int,
    ) -> None:
        """Point from a bucket to this request; at most once a second for a series."""
        station = self.station
        station.view[series + _NEXT_EXEMPLAR_AT] = called_ns + _EXEMPLAR_EVERY_NS
        trace = b"%016x%016x" % (trace_high, trace_low)
        station.counters.exemplify(series, _END_AT, bucket, took_ns, self.wall_ns(), trace)


def _far(step: int) -> int:
    """The bucket of a step that the table does not have."""
    return 0 if step < 0 else _LAST
