"""What each side tells of one request: the nine components, their grades and the raw marks.

The leaf of the project: nothing here imports beyond the standard library, nothing reads a clock.
All durations are integer nanoseconds from a monotonic clock; all instants whose name ends in
``wall_ns`` are integer nanoseconds since the epoch and serve only to line two hosts up.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag, StrEnum

__all__ = [
    "COMPONENTS",
    "UNKNOWN",
    "Attribution",
    "Component",
    "Grade",
    "ServiceMarks",
    "Side",
    "StampFlag",
]

UNKNOWN = -1
"""Value of an integer mark for which there is no evidence."""


class Side(StrEnum):
    """Who a part of the response time belongs to."""

    SERVICE = "service"
    NETWORK = "network"
    GENERATOR = "generator"
    UNATTRIBUTED = "unattributed"


class Component(IntEnum):
    """The nine parts of a response time, in the order in which a request lives through them.

    The value is the column of the component wherever components stand in a matrix.
    """

    GENERATOR_SEND = 0
    NETWORK_CONNECT = 1
    NETWORK_OUT = 2
    SERVICE_QUEUE = 3
    SERVICE_APP = 4
    SERVICE_BODY = 5
    NETWORK_BACK = 6
    GENERATOR_READ = 7
    GENERATOR_FINISH = 8

    @property
    def label(self) -> str:
        """Name in reports and files: ``side.part``."""
        return self.name.lower().replace("_", ".", 1)

    @property
    def side(self) -> Side:
        """Who the component belongs to."""
        return Side(self.label.partition(".")[0])


COMPONENTS: tuple[Component, ...] = tuple(Component)


class Grade(IntEnum):
    """How good the evidence for a figure is; a larger value is weaker evidence."""

    MEASURED = 0
    """Read off one clock, or off two that are the same."""
    BOUNDED = 1
    """Inside an interval that holds; the figure is the estimate in it."""
    ESTIMATED = 2
    """Inferred from something near it; no interval is claimed."""

    @property
    def label(self) -> str:
        """Name in reports and files."""
        return self.name.lower()


class StampFlag(IntFlag):
    """What a service's stamp tells of the body of its answer; none: there is none, or not known."""

    WHOLE = 1
    """It was handed over in one message."""
    STREAMED = 2
    """More was to come after the first message, or its size was not known when it began."""


@dataclass(frozen=True, slots=True)
class ServiceMarks:
    """What the service tells of one request in its answer's header.

    Attributes:
        span: the request's W3C span id as an integer, echoed so that a cached or foreign answer
            is not taken for this request's own; 0 where the request carried none.
        called_wall_ns: wall clock when the ASGI app was called.
        app_ns: from that call to ``http.response.start``.
        blocked_ns: how long the event loop was blocked in that time, or UNKNOWN.
        queue_ms: how long ago the kernel had received the request's last data when the app was
            called (``tcpi_last_data_recv``), or UNKNOWN where the server hides its socket.
        tick_us: resolution of ``queue_ms``: the kernel's tick, in microseconds.
        host: 32-bit identity of the service's kernel (see `trilat.agent.host`).
        instance: 32-bit identity of the serving process on that host.
        flags: `StampFlag`.
    """

    span: int
    called_wall_ns: int
    app_ns: int
    blocked_ns: int
    queue_ms: int
    tick_us: int
    host: int
    instance: int
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Attribution:
    """One response time, cut into the nine components and what nothing is known about.

    Attributes:
        response_ns: the response time R as Locust reported it.
        components_ns: the nine components, indexed by `Component`.
        unattributed_ns: the part of R for which no evidence exists.
        grades: the nine grades, indexed by `Component`.

    Raises:
        ValueError: the parts do not add up to R, or one of them is negative.
    """

    response_ns: int
    components_ns: tuple[int, ...]
    unattributed_ns: int
    grades: tuple[Grade, ...]

    def __post_init__(self) -> None:
        if len(self.components_ns) != len(COMPONENTS) or len(self.grades) != len(COMPONENTS):
            raise ValueError("an attribution has nine components and nine grades")
        if min(self.components_ns) < 0 or self.unattributed_ns < 0:
            raise ValueError("a component of a response time cannot be negative")
        if sum(self.components_ns) + self.unattributed_ns != self.response_ns:
            raise ValueError("the components do not add up to the response time")
