"""The metrics that a service's process keeps: their names, units and places in its counters.

Counts are kept as 64-bit integers in base units (nanoseconds, bytes) in blocks of numbers that
belong to one set of label values, so a request finds all its numbers with one look-up and adds to
them without a lock. ``scale`` turns a number into what is exposed. Names follow
https://prometheus.io/docs/practices/naming/.
"""

from __future__ import annotations

from bisect import bisect_left
from ctypes import Array, c_int64
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

__all__ = [
    "BLOCKED",
    "BLOCKS",
    "CORE",
    "HTTP",
    "LATENCY_BOUNDS",
    "LATENCY_BUCKETS",
    "LATENCY_STEP_NS",
    "LISTENER",
    "PROCESS",
    "WEBSOCKET",
    "Block",
    "Counter",
    "Gauge",
    "Hidden",
    "Histogram",
    "Metric",
    "Over",
]

_NS = 1e-9
_MS = 1_000_000


class Over(StrEnum):
    """What becomes of a number that several workers of one service hold."""

    SUM = "sum"
    """Each worker counts its own."""
    MAX = "max"
    """All see the same thing (a host's, a control group's), or the worst one tells."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A number that only grows; one slot."""

    name: str
    help: str
    scale: float = 1.0
    over: Over = Over.SUM

    @property
    def slots(self) -> int:
        """How many numbers it takes."""
        return 1


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number that goes up and down; one slot. A dead worker's is forgotten."""

    name: str
    help: str
    scale: float = 1.0
    over: Over = Over.SUM

    @property
    def slots(self) -> int:
        """How many numbers it takes."""
        return 1


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts by bucket, then the sum of what was observed.

    Attributes:
        bounds: upper bounds of the buckets, inclusive, ascending, in the slots' unit; values above
            the last fall into one bucket more. The bucket of a value is
            ``bisect.bisect_left(bounds, value)``.
        exemplars: whether requests can be pointed to (see `trilat.agent.counters`).
    """

    name: str
    help: str
    bounds: tuple[int, ...]
    scale: float = _NS
    exemplars: bool = False

    @property
    def slots(self) -> int:
        """How many numbers it takes: the buckets and the sum."""
        return len(self.bounds) + 2

    @property
    def sum_at(self) -> int:
        """Where the sum stands, counted from the first bucket."""
        return len(self.bounds) + 1

    def observe(self, numbers: Array[c_int64], at: int, value: int) -> None:
        """Count a value, in the slots' unit, in the histogram whose first bucket is at ``at``."""
        numbers[at + bisect_left(self.bounds, value)] += 1
        numbers[at + self.sum_at] += value


@dataclass(frozen=True, slots=True)
class Hidden:
    """A number of the process' own that is not exposed; one slot."""

    name: str

    @property
    def slots(self) -> int:
        """How many numbers it takes."""
        return 1


Metric: TypeAlias = Counter | Gauge | Histogram | Hidden


@dataclass(frozen=True)
class Block:
    """Metrics that share their labels and lie one after the other.

    Attributes:
        name: of the block in a counters file.
        labels: names of the labels, the same for all its metrics.
        metrics: in the order in which their slots lie.
    """

    name: str
    labels: tuple[str, ...]
    metrics: tuple[Metric, ...] = field(repr=False)

    @cached_property
    def slots(self) -> int:
        """How many numbers the block takes."""
        return sum(metric.slots for metric in self.metrics)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each metric's first slot lies, counted from the block's first number."""
        places, place = {}, 0
        for metric in self.metrics:
            places[metric.name] = place
            place += metric.slots
        return places


LATENCY_BOUNDS: tuple[int, ...] = tuple(
    round(ms * _MS)
    for ms in (
        *(1, 2, 3, 5, 7.5, 10, 15, 20, 30, 50, 75),
        *(100, 150, 200, 300, 500, 750, 1000, 2000, 5000, 10_000),
    )
)
"""Buckets of response times, in nanoseconds: at most a factor of two apart up to a second."""

LATENCY_STEP_NS = 500_000
"""All of `LATENCY_BOUNDS` are multiples of it."""

LATENCY_BUCKETS = bytes(
    bisect_left(LATENCY_BOUNDS, step * LATENCY_STEP_NS)
    for step in range(1, LATENCY_BOUNDS[-1] // LATENCY_STEP_NS + 1)
)
"""The bucket of a response time of ``ns`` > 0 is ``LATENCY_BUCKETS[(ns - 1) // LATENCY_STEP_NS]``,
behind the end of this table the last one: a quarter of what `bisect.bisect_left` takes."""

_LAG_BOUNDS = tuple(round(ms * _MS) for ms in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000))
_LONG_BOUNDS = tuple(s * 1000 * _MS for s in (1, 10, 60, 300, 1800, 3600, 14_400))

HTTP = Block(
    "http",
    ("method", "route", "status"),
    (
        Histogram(
            "trilat_http_response_start_seconds",
            "Time to the start of answers whose body took a while; others end as they start.",
            LATENCY_BOUNDS,
        ),
        Histogram(
            "trilat_http_request_duration_seconds",
            "Time from the call of the application to the end of its answer's body.",
            LATENCY_BOUNDS,
            exemplars=True,
        ),
        Counter("trilat_http_response_body_bytes_total", "Bytes of answers' bodies."),
        Counter(
            "trilat_http_after_response_seconds_total",
            "Time that the application ran on after the end of an answer: background tasks.",
            _NS,
        ),
        Counter("trilat_http_exceptions_total", "Exceptions that left the application."),
        Hidden("next_exemplar_ns"),
    ),
)
"""Answers; ``status`` is 499 where the client left first, 500 where an exception came first."""

WEBSOCKET = Block(
    "websocket",
    ("route",),
    (
        Gauge("trilat_websocket_connections", "Open WebSocket connections."),
        Histogram(
            "trilat_websocket_duration_seconds", "Duration of WebSocket connections.", _LONG_BOUNDS
        ),
        Counter("trilat_websocket_received_messages_total", "Messages from clients."),
        Counter("trilat_websocket_sent_messages_total", "Messages to clients."),
        Counter("trilat_websocket_exceptions_total", "Connections that ended in an exception."),
        Counter("trilat_websocket_refused_total", "Connections that were not accepted."),
    ),
)

BLOCKED = Block(
    "blocked",
    ("file", "line", "function"),
    (
        Counter(
            "trilat_loop_blocked_by_total",
            "How often this line blocked the event loop; (no callback): no line did, the loop"
            " waited for a processor or for another thread; (not seen): the line is not known.",
        ),
        Counter(
            "trilat_loop_blocked_by_seconds_total",
            "How long this line blocked the event loop; (no callback): no line did, the loop"
            " waited for a processor or for another thread; (not seen): the line is not known.",
            _NS,
        ),
    ),
)

CORE = Block(
    "core",
    ("core",),
    (Gauge("trilat_host_cpu_busy_ratio", "Busy share of a processor.", 1e-6, Over.MAX),),
)

LISTENER = Block(
    "listener",
    ("address",),
    (
        Gauge(
            "trilat_listen_queue_connections",
            "Connections that wait to be accepted.",
            over=Over.MAX,
        ),
        Gauge(
            "trilat_listen_queue_limit_connections",
            "Connections that may wait to be accepted.",
            over=Over.MAX,
        ),
    ),
)

PROCESS = Block(
    "process",
    (),
    (
        Gauge("trilat_http_requests_in_flight", "Requests that are not answered yet."),
        Counter(
            "trilat_instrumentation_errors_total",
            "Errors inside trilat; requests went on untouched.",
        ),
        Counter(
            "trilat_marks_refused_total", "Requests whose Trilat-Run was malformed or had no token."
        ),
        Counter("trilat_marks_malformed_total", "Requests with a malformed traceparent."),
        Counter("trilat_journal_dropped_segments_total", "Journal files that made room for newer."),
        Counter("trilat_journal_lost_records_total", "Records that no disk took."),
        Histogram(
            "trilat_loop_lag_seconds", "How late a timer of the event loop came.", _LAG_BOUNDS
        ),
        Counter(
            "trilat_loop_blocked_seconds_total",
            "How long a timer of the event loop was overdue.",
            _NS,
        ),
        Counter(
            "trilat_process_paused_seconds_total",
            "How long the whole process stood still: suspended, stopped or in a debugger.",
            _NS,
        ),
        Histogram(
            "trilat_thread_wait_seconds",
            "How long synchronous work waited for a thread of the pool, where it waited.",
            LATENCY_BOUNDS,
        ),
        Gauge("trilat_thread_pool_busy", "Threads of the pool at work."),
        Gauge("trilat_thread_pool_limit", "Threads that the pool may have."),
        Gauge("trilat_thread_pool_waiting", "Calls that wait for a thread of the pool."),
        Counter("trilat_process_cpu_seconds_total", "CPU time.", _NS),
        Gauge("trilat_process_resident_memory_bytes", "Resident memory."),
        Gauge(
            "trilat_process_peak_memory_bytes",
            "Largest resident memory of a worker.",
            over=Over.MAX,
        ),
        Gauge("trilat_process_unique_memory_bytes", "Memory that no other process shares."),
        Gauge("trilat_process_threads", "Threads."),
        Gauge("trilat_process_open_fds", "Open file descriptors."),
        Gauge("trilat_process_max_fds", "File descriptors that a worker may open.", over=Over.MAX),
        Counter("trilat_process_voluntary_switches_total", "Times a worker gave its core up."),
        Counter("trilat_process_involuntary_switches_total", "Times a worker's core was taken."),
        Counter("trilat_gc_pauses_total", "Garbage collections."),
        Counter("trilat_gc_pause_seconds_total", "Time in garbage collections.", _NS),
        Counter(
            "trilat_cgroup_throttled_seconds_total",
            "Time that the control group's CPU limit held it back.",
            _NS,
            Over.MAX,
        ),
        Gauge(
            "trilat_cgroup_memory_limit_bytes",
            "The control group's memory limit; 0 without one.",
            over=Over.MAX,
        ),
        Counter(
            "trilat_host_steal_seconds_total",
            "Time that the hypervisor gave to others, over all processors.",
            _NS,
            Over.MAX,
        ),
    ),
)

BLOCKS: dict[str, Block] = {
    block.name: block for block in (HTTP, WEBSOCKET, BLOCKED, CORE, LISTENER, PROCESS)
}
"""All blocks by name."""
