"""The marks of a request: what a load test, or a tracer, has written into its head."""

from __future__ import annotations

from binascii import a2b_hex
from typing import TYPE_CHECKING, Any, TypeAlias

from trilat.agent.host import host_identity, kernel_tick_us
from trilat.agent.layout import ServedFlag
from trilat.agent.marking import (
    RUN_HEADER,
    RUN_ID_LENGTH,
    TRACEPARENT_HEADER,
    run_is_allowed,
    trace_context,
)
from trilat.agent.records import UNKNOWN
from trilat.agent.stamp import STAMP, server_timing

from .queueing import queued_ms

if TYPE_CHECKING:
    from .asgi import Message, Scope
    from .ledger import Ledger

__all__ = ["Marks", "read_marks", "run_number", "stamped"]

# ASGI servers hand header names in lower case.
_RUN = RUN_HEADER.lower().encode()
_TRACEPARENT = TRACEPARENT_HEADER.lower().encode()
_OURS = frozenset((_RUN, _TRACEPARENT))
_MARKED = int(ServedFlag.MARKED)
_NO_IDS = (0, 0, 0)
_TICK_10US = kernel_tick_us() // 10
_HOST = host_identity()


Marks: TypeAlias = tuple[int, int, int, int, int, int, int]
"""Those of one request: its trace id in two halves, its span id, the run as a number, the wall
clock when the application was called, milliseconds that the request lay in the kernel, and
`ServedFlag`. Zeros and UNKNOWN stand for what it has not. A plain tuple, since each request of a
load test has one made."""


def read_marks(ledger: Ledger, scope: Scope, server: Any) -> Marks | None:
    """The marks of a request that is being called, or None.

    Args:
        ledger: whose token is asked for.
        scope: of the request.
        server: see `queued_ms`.
    """
    headers = scope["headers"]
    if type(headers) is not list:  # any iterable will do: reading may use it up
        headers = scope["headers"] = list(headers)
    run = trace = None
    for name, value in headers:
        if name in _OURS:
            if name == _TRACEPARENT:
                trace = value if trace is None else b""  # two of them are as good as none
            elif run is None:
                run = value
    if run is None and trace is None:
        return None
    return _read(ledger, scope, server, run, trace)


def _read(
    ledger: Ledger, scope: Scope, server: Any, run: bytes | None, trace: bytes | None
) -> Marks:
    called_wall_ns = ledger.wall_ns()
    ids = _NO_IDS
    if trace is not None:
        context = trace_context(trace)
        if context is None:
            ledger.health.malformed_traceparents += 1
        else:
            ids = context
    trace_high, trace_low, span = ids
    if run is not None:
        token = ledger.token
        number = ledger.runs.get(run)
        # Where a token is asked for it is compared each time, in constant time.
        if run_is_allowed(run, token) if token is not None or number is None else True:
            if number is None:
                number = ledger.know_run(run)
            queue_ms = queued_ms(scope, server)
            return trace_high, trace_low, span, number, called_wall_ns, queue_ms, _MARKED
        ledger.health.refused += 1
    return trace_high, trace_low, span, 0, called_wall_ns, UNKNOWN, 0


def run_number(run: bytes) -> int:
    """A run id of our own form as a number; 0 for one that was made by hand.

    Args:
        run: the value of a ``Trilat-Run`` header.
    """
    text = run.partition(b";")[0]
    if len(text) != RUN_ID_LENGTH:
        return 0
    try:
        return int.from_bytes(a2b_hex(text), "big")
    except ValueError:
        return 0


def stamped(
    start: Message, marks: Marks, times_ns: tuple[int, int, int], flags: int, instance: int
) -> Message:
    """The start of an answer with the stamp.

    An application may send one message, or one list, many times: both are copied.

    Args:
        start: the message.
        marks: of the request.
        times_ns: how much later than marked the call counts, and `ServiceMarks.app_ns` and
            `ServiceMarks.blocked_ns` from there.
        flags: `trilat.agent.records.StampFlag`.
        instance: see `trilat.agent.host.process_identity`.
    """
    _, _, span, _, called_wall_ns, queue_ms, _ = marks
    later_ns, app_ns, blocked_ns = times_ns
    packed = STAMP.pack(
        span,
        called_wall_ns + later_ns,
        app_ns,
        blocked_ns,
        queue_ms,
        _TICK_10US,
        flags,
        _HOST,
        instance,
    )
    header = (b"server-timing", server_timing(app_ns, queue_ms, blocked_ns, packed))
    return {**start, "headers": [*start.get("headers", ()), header]}
