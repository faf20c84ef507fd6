"""The marks of a request: what a load test, or a tracer, has written into its head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilat.agent.host import host_identity, kernel_tick_us
from trilat.agent.layout import ServedFlag
from trilat.agent.marking import (
    RUN_HEADER,
    TRACEPARENT_HEADER,
    TraceContext,
    run_is_allowed,
    trace_context,
)
from trilat.agent.records import UNKNOWN
from trilat.agent.stamp import STAMP, server_timing

from .queueing import queued_ms

if TYPE_CHECKING:
    from .asgi import Message, Scope
    from .ledger import Ledger

__all__ = ["NO_MARKS", "Marks", "read_marks"]

# ASGI servers hand header names in lower case.
_RUN = RUN_HEADER.lower().encode()
_TRACEPARENT = TRACEPARENT_HEADER.lower().encode()
_OURS = frozenset((_RUN, _TRACEPARENT))
_MARKED = int(ServedFlag.MARKED)
_NO_IDS: TraceContext = (0, 0, 0)
_TICK_10US = kernel_tick_us() // 10
_HOST = host_identity()


class Marks:
    """The marks of one request.

    Attributes:
        ids: of its trace and span; zeros without them.
        stamped: whether its answer gets a stamp.
        flags: what its record says of it.
        run: the ``Trilat-Run`` header, where it is allowed.
    """

    __slots__ = ("called_wall_ns", "flags", "ids", "instance", "queue_ms", "run", "stamped")

    def __init__(self) -> None:
        self.ids = _NO_IDS
        self.stamped = False
        self.flags = self.called_wall_ns = self.instance = 0
        self.queue_ms = UNKNOWN
        self.run = b""

    def stamp(self, message: Message, app_ns: int, blocked_ns: int) -> Message:
        """The start of an answer with the stamp.

        An application may send one message, or one list, many times: both are copied.
        """
        queue_ms = self.queue_ms
        packed = STAMP.pack(
            self.ids[2],
            self.called_wall_ns,
            app_ns,
            blocked_ns,
            queue_ms,
            _TICK_10US,
            0,
            _HOST,
            self.instance,
        )
        header = (b"server-timing", server_timing(app_ns, queue_ms, blocked_ns, packed))
        return {**message, "headers": [*message.get("headers", ()), header]}


NO_MARKS = Marks()
"""Those of a request that has none."""


def read_marks(ledger: Ledger, scope: Scope, server: Any) -> Marks:
    """The marks of a request that is being called.

    Args:
        ledger: whose token is asked for.
        scope: of the request.
        server: see `queued_ms`.
    """
    headers = scope["headers"]
    if type(headers) is not list:  # any iterable will do: reading may use it up
        headers = scope["headers"] = list(headers)
    for name, _ in headers:
        if name in _OURS:
            return _read(ledger, scope, server, headers)
    return NO_MARKS


def _read(ledger: Ledger, scope: Scope, server: Any, headers: list[tuple[bytes, bytes]]) -> Marks:
    called_wall_ns = ledger.wall_ns()
    run = trace = None
    for name, value in headers:
        if name == _TRACEPARENT:
            trace = value if trace is None else b""  # two of them are as good as none
        elif name == _RUN and run is None:
            run = value
    marks = Marks()
    if trace is not None:
        ids = trace_context(trace)
        if ids is None:
            ledger.health.malformed_traceparents += 1
        else:
            marks.ids = ids
    if run is not None:
        if run_is_allowed(run, ledger.token):
            marks.run = run
            marks.stamped = True
            marks.flags = _MARKED
            marks.called_wall_ns = called_wall_ns
            marks.queue_ms = queued_ms(scope, server)
            marks.instance = ledger.station.instance
        else:
            ledger.health.refused += 1
    return marks
