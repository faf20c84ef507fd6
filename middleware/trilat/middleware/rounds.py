"""Once a second, in the observer's thread: the process' own figures become metrics and samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilat.agent.families import BLOCKED, CORE, LISTENER, PROCESS
from trilat.agent.vitals import Vitals

if TYPE_CHECKING:
    from trilat.agent.blocks import BlockEvent
    from trilat.agent.samples import SampleWriter

    from .station import Station
    from .threads import ThreadPoolWatch

__all__ = ["Rounds"]

_AT = PROCESS.places
_BUSY_AT = CORE.places["trilat_host_cpu_busy_ratio"]
_QUEUE_AT = LISTENER.places["trilat_listen_queue_connections"]
_LIMIT_AT = LISTENER.places["trilat_listen_queue_limit_connections"]
_BLOCKS_AT = BLOCKED.places["trilat_loop_blocked_by_total"]
_BLOCKED_NS_AT = BLOCKED.places["trilat_loop_blocked_by_seconds_total"]
_S = 1_000_000_000
_FROM_VITALS = (
    ("trilat_process_resident_memory_bytes", "rss_bytes", 1),
    ("trilat_process_peak_memory_bytes", "rss_peak_bytes", 1),
    ("trilat_process_unique_memory_bytes", "uss_bytes", 1),
    ("trilat_process_threads", "threads", 1),
    ("trilat_process_open_fds", "fds", 1),
    ("trilat_process_max_fds", "fds_limit", 1),
    ("trilat_process_voluntary_switches_total", "switches_voluntary", 1),
    ("trilat_process_involuntary_switches_total", "switches_involuntary", 1),
    ("trilat_gc_pauses_total", "gc_pauses_total", 1),
    ("trilat_gc_pause_seconds_total", "gc_pause_total_ns", 1),
    ("trilat_cgroup_throttled_seconds_total", "throttled_s", _S),
    ("trilat_cgroup_memory_limit_bytes", "memory_limit_bytes", 1),
    ("trilat_host_steal_seconds_total", "steal_s", _S),
)
"""Metric of the process, key of the vitals, and what one of the key's units is in the metric's."""


class Rounds:
    """Reads what changes by itself, and writes it where others can see it.

    All numbers written here are written by this thread alone.

    Args:
        station: whose process this is.

    Attributes:
        samples: where samples go, or None.
    """

    def __init__(self, station: Station) -> None:
        self.samples: SampleWriter | None = None
        self._station = station
        self._vitals: Vitals | None = None
        self._pool: ThreadPoolWatch | None = None
        self._blocked_ns = 0
        self._drawn: set[int] = set()

    def open(self, pool: ThreadPoolWatch) -> None:
        """Begin to read, with this watch of the thread pool."""
        self._pool = pool
        self._vitals = Vitals()

    def close(self) -> None:
        """Make a last round, and read no more."""
        if self._vitals is not None:
            self.go()
            self.forget()

    def forget(self) -> None:
        """Read no more; in a fork, that is all that may be done."""
        if self._vitals is not None:
            self._vitals.close()
            self._vitals = None

    def go(self) -> None:
        """Make one round. Never raises."""
        if self._vitals is None:
            return
        try:
            self._round(self._vitals.read())
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self._station.health.failed()

    def _round(self, vitals: dict[str, Any]) -> None:
        self._show_process(vitals)
        self._show_places(vitals)
        events = self._station.blocks.take_new()
        self._show_blocks(events)
        self._write(vitals, events)

    def _show_process(self, vitals: dict[str, Any]) -> None:
        station = self._station
        view, at = station.view, station.counters.block(PROCESS, ())
        for metric, key, factor in _FROM_VITALS:
            if (value := vitals[key]) is not None:
                view[at + _AT[metric]] = round(value * factor)
        if vitals["cpu_user_s"] is not None and vitals["cpu_system_s"] is not None:
            cpu_s = vitals["cpu_user_s"] + vitals["cpu_system_s"]
            view[at + _AT["trilat_process_cpu_seconds_total"]] = round(cpu_s * _S)
        health, journal, lag = station.health, station.journal, station.lag
        view[at + _AT["trilat_http_requests_in_flight"]] = station.in_flight
        view[at + _AT["trilat_instrumentation_errors_total"]] = health.errors
        view[at + _AT["trilat_marks_refused_total"]] = health.refused
        view[at + _AT["trilat_marks_malformed_total"]] = health.malformed_traceparents
        view[at + _AT["trilat_loop_blocked_seconds_total"]] = lag.blocked_ns
        view[at + _AT["trilat_process_paused_seconds_total"]] = lag.paused_ns
        if journal is not None:
            view[at + _AT["trilat_journal_dropped_segments_total"]] = journal.dropped_segments
            view[at + _AT["trilat_journal_lost_records_total"]] = journal.lost_to_disk
        pool = self._pool.figures() if self._pool is not None else None
        if pool is not None:
            view[at + _AT["trilat_thread_pool_busy"]] = pool.busy
            view[at + _AT["trilat_thread_pool_limit"]] = pool.limit
            view[at + _AT["trilat_thread_pool_waiting"]] = pool.waiting

    def _show_places(self, vitals: dict[str, Any]) -> None:
        """What the host's processors and the process' listening sockets do."""
        counters = self._station.counters
        view = counters.view
        for core, percent in enumerate(vitals["host_cpu_percent"] or ()):
            if percent is not None:
                view[counters.block(CORE, (str(core),)) + _BUSY_AT] = round(percent * 10_000)
        drawn = set()
        for listener in vitals["listeners"] or ():
            at = counters.block(LISTENER, (listener["address"],))
            drawn.add(at)
            view[at + _QUEUE_AT] = listener["queue"] or 0
            view[at + _LIMIT_AT] = listener["limit"] or 0
        for at in self._drawn - drawn:  # closed since
            view[at + _QUEUE_AT] = view[at + _LIMIT_AT] = 0
        self._drawn = drawn

    def _show_blocks(self, events: list[BlockEvent]) -> None:
        counters = self._station.counters
        for event in events:
            at = counters.block(BLOCKED, (event.file, str(event.line), event.function))
            counters.view[at + _BLOCKS_AT] += 1
            counters.view[at + _BLOCKED_NS_AT] += event.took_ns

    def _write(self, vitals: dict[str, Any], events: list[BlockEvent]) -> None:
        station, samples = self._station, self.samples
        blocked_ns, lag_max_ns = station.lag.blocked_ns, station.lag_max_ns
        since_ns, self._blocked_ns = blocked_ns - self._blocked_ns, blocked_ns
        station.lag_max_ns = 0
        if samples is None:
            return
        pool = self._pool.figures() if self._pool is not None else None
        samples.write(
            "vitals",
            {
                **vitals,
                "loop_lag_max_ms": round(lag_max_ns / 1e6, 3),
                "loop_blocked_ms": round(since_ns / 1e6, 3),
                "in_flight": station.in_flight,
                "requests": station.ended,
                "pool_busy": pool.busy if pool is not None else None,
                "pool_limit": pool.limit if pool is not None else None,
                "pool_waiting": pool.waiting if pool is not None else None,
            },
        )
        for event in events:
            samples.write(
                "blocked",
                {
                    "wall_s": round(event.wall_ns / 1e9, 6),
                    "took_ms": round(event.took_ns / 1e6, 3),
                    "file": event.file,
                    "line": event.line,
                    "function": event.function,
                    "stack": list(event.stack),
                },
            )
