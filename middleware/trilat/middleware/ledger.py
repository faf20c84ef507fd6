"""Where exchanges are counted and journaled: their series of numbers, found by one look-up."""

from __future__ import annotations

from binascii import a2b_hex
from typing import TYPE_CHECKING

from trilat.agent.clock import SYSTEM_CLOCK, Clock
from trilat.agent.families import HTTP, LATENCY_BOUNDS, LATENCY_BUCKETS, LATENCY_STEP_NS
from trilat.agent.layout import SERVED, ServedFlag
from trilat.agent.marking import RUN_ID_LENGTH, TraceContext

from .routes import METHODS, OTHER_LABEL
from .threads import THREAD_WAIT

if TYPE_CHECKING:
    from .asgi import Scope
    from .exchange import Stream
    from .marks import Marks
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


class Ledger:
    """Counts the exchanges of one application.

    Args:
        station: what the process keeps.
        labels: names routes and methods.
        token: where given, only requests that carry it count as marked.
        clock: the clocks to stamp with.
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
        self._runs: dict[bytes, int] = {}

    def add(  # noqa: PLR0913, PLR0917 - an object for them would cost more than its use
        self,
        scope: Scope,
        marks: Marks,
        status: int,
        flags: int,
        called_ns: int,
        start_ns: int,
        end_ns: int,
        took_ns: int,
        blocked_ns: int,
        size: int,
        stream: Stream | None,
    ) -> int:
        """Count an exchange that has ended, or was given up.

        Args:
            scope: of the request.
            marks: of the request.
            status: that it is counted under.
            flags: see `trilat.agent.layout.ServedFlag`; those of the marks are added.
            called_ns: the monotonic clock when the application was called.
            start_ns: from there to the answer's start, or UNKNOWN.
            end_ns: to the end of its body, or UNKNOWN.
            took_ns: the same, or to where it was given up.
            blocked_ns: how long the event loop was blocked up to the start, or UNKNOWN.
            size: bytes of a body that came in one piece.
            stream: what is known of one that came in several.

        Returns:
            The place of its series among the numbers of the process.
        """
        station = self.station
        key = (scope["method"], self._labels.label(scope), status)
        series, name_id = self._series.get(key) or self._find(key)
        view = station.view
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
        if stream is not None:
            size = stream.body_bytes
        if size:
            view[series + _BYTES_AT] += size
        ids = marks.ids
        if ids[2] and called_ns >= view[series + _NEXT_EXEMPLAR_AT]:
            self._exemplify(series, ids, called_ns, bucket, took_ns)
        journal = station.journal
        if journal is not None:
            if stream is not None:
                flags |= _STREAMED
            journal.append(
                _SERVED,
                flags | marks.flags,
                name_id,
                *ids,
                (self._runs.get(marks.run) or self._run_number(marks.run)) if marks.run else 0,
                marks.called_wall_ns or self.wall_ns() - took_ns,
                called_ns,
                start_ns,
                end_ns,
                blocked_ns,
                scope.get(THREAD_WAIT, 0),
                0 if stream is None else stream.gap_ns,
                size,
                marks.queue_ms,
                1 if stream is None else stream.messages,
                status,
                0,
            )
        return series

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

    def _exemplify(
        self, series: int, ids: TraceContext, called_ns: int, bucket: int, took_ns: int
    ) -> None:
        """Point from a bucket to this request; at most once a second for a series."""
        station = self.station
        station.view[series + _NEXT_EXEMPLAR_AT] = called_ns + _EXEMPLAR_EVERY_NS
        trace = b"%016x%016x" % ids[:2]
        station.counters.exemplify(series, _END_AT, bucket, took_ns, self.wall_ns(), trace)

    def _run_number(self, run: bytes) -> int:
        """A run id of our own form as a number; 0 for one that was made by hand."""
        text = run.partition(b";")[0]
        if len(text) != RUN_ID_LENGTH:
            return 0
        try:
            number = int.from_bytes(a2b_hex(text), "big")
        except ValueError:
            return 0
        if len(self._runs) < _CACHE_MAX:
            self._runs[run] = number
        return number


def _far(step: int) -> int:
    """The bucket of a step that the table does not have."""
    return 0 if step < 0 else _LAST
