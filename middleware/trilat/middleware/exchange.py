"""One HTTP exchange inside the service: what is seen of it, from the call to the last body message.

This is the hottest code of the service's side, run for every request of somebody else's service. So
what is kept of a request lives in the cells of two closures, each clock is read once an instant,
and what only a marked or a streamed answer needs is made for those alone. The measure is
``benchmarks/middleware.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.agent.lag import NEVER_NS, SLACK_NS
from trilat.agent.layout import ServedFlag
from trilat.agent.records import UNKNOWN

from .marks import read_marks
from .threads import current_scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .asgi import Message, Receive, Scope, Send
    from .ledger import Ledger

__all__ = ["Stream", "begin"]

_DISCONNECTED = int(ServedFlag.DISCONNECTED)
_RAISED = int(ServedFlag.RAISED)
_UNFINISHED = int(ServedFlag.UNFINISHED)
_CLIENT_LEFT = 499  # what nginx logs where the client closed the connection first
_FAILED = 500
_CLIENT_ERRORS = ("ClientDisconnect", "ClientDisconnected")  # Starlette's, uvicorn's
_AFTER_MIN_NS = 100_000  # less is the way back through the frameworks
_BODY_KINDS = ("http.response.body", "http.response.zerocopysend", "http.response.pathsend")


class Stream:
    """What is kept of a body that comes in pieces; durations in nanoseconds."""

    __slots__ = ("body_bytes", "gap_ns", "last_ns", "messages")

    def __init__(self, since_ns: int) -> None:
        self.last_ns = since_ns
        self.gap_ns = self.body_bytes = self.messages = 0

    def add(self, now_ns: int, size: int) -> None:
        """One more message."""
        self.gap_ns = max(self.gap_ns, now_ns - self.last_ns)
        self.last_ns = now_ns
        self.messages += 1
        self.body_bytes += size


def begin(  # noqa: PLR0915 - flat, as each call in here is paid for by each request
    ledger: Ledger, scope: Scope, receive: Receive, send: Send
) -> tuple[Send, Callable[[BaseException | None], None]]:
    """Begin to observe a request.

    Args:
        ledger: where it is counted, once its answer has ended.
        scope: of the request.
        receive: the server's.
        send: the server's.

    Returns:
        The ``send`` to call the application with, and what to call with the exception that left
        the application, or None, when it is done. Neither raises anything of its own.
    """
    station, health, monotonic_ns = ledger.station, ledger.health, ledger.monotonic_ns
    called_ns = monotonic_ns()
    lag = station.lag
    if lag.slow:
        lag.wake()
    lag.idle_ticks = 0
    late = called_ns - lag.due_ns > SLACK_NS
    blocked_before_ns = lag.blocked_at(called_ns) if late else lag.blocked_ns
    server = getattr(receive, "__self__", None)  # uvicorn's, of the connection
    marks = read_marks(ledger, scope, server)
    current_scope.set(scope)
    station.begun += 1
    start_ns = end_ns = blocked_ns = series = UNKNOWN
    status = 0
    stream: Stream | None = None

    # Not a coroutine function: what the server's own send returns is handed on as it is.
    def send_observed(message: Message) -> Awaitable[None]:
        nonlocal start_ns, end_ns, blocked_ns, series, status, stream
        try:
            kind = message["type"]
            if kind == "http.response.start":
                # 1xx answers come before the one that counts.
                if start_ns < 0 and message["status"] >= 200:
                    status = message["status"]
                    now_ns = monotonic_ns()
                    start_ns = now_ns - called_ns
                    due_ns = lag.due_ns
                    if due_ns != NEVER_NS:
                        late = now_ns - due_ns > SLACK_NS
                        blocked_to_ns = lag.blocked_at(now_ns) if late else lag.blocked_ns
                        blocked_ns = blocked_to_ns - blocked_before_ns
                    if marks.stamped:
                        message = marks.stamp(message, start_ns, blocked_ns)
            elif kind in _BODY_KINDS and end_ns < 0:
                size = len(message.get("body", b""))
                if stream is not None or message.get("more_body"):
                    now_ns = monotonic_ns()
                    stream = stream or Stream(called_ns + max(start_ns, 0))
                    stream.add(now_ns, size)
                if not message.get("more_body"):
                    end_ns = monotonic_ns() - called_ns
                    flags = 0
                    if getattr(server, "disconnected", False) is True:
                        flags, status = _DISCONNECTED, _CLIENT_LEFT
                    # Before it is handed over: who has the answer finds it counted.
                    series = ledger.add(
                        scope, marks, status, flags, called_ns, start_ns, end_ns, end_ns,
                        blocked_ns, size, stream,
                    )  # fmt: skip
        except Exception:  # noqa: BLE001 - instrumentation fails open
            health.failed()
        return send(message)

    def done(error: BaseException | None) -> None:
        nonlocal series, status
        station.ended += 1
        try:
            now_ns = monotonic_ns() - called_ns
            if end_ns < 0:
                flags = _UNFINISHED if error is None else _UNFINISHED | _RAISED
                if _client_left(error, status, server):
                    flags, status = flags | _DISCONNECTED, _CLIENT_LEFT
                series = ledger.add(
                    scope, marks, status or _FAILED, flags, called_ns, start_ns, end_ns, now_ns,
                    blocked_ns, 0, stream,
                )  # fmt: skip
            elif now_ns - end_ns > _AFTER_MIN_NS:
                ledger.add_after(series, now_ns - end_ns)
            # A cancelled application was stopped by its server.
            if isinstance(error, Exception) and type(error).__name__ not in _CLIENT_ERRORS:
                ledger.add_exception(series)
        except Exception:  # noqa: BLE001 - instrumentation fails open
            health.failed()

    return send_observed, done


def _client_left(error: BaseException | None, status: int, server: object) -> bool:
    """Whether an answer that did not come to its end had nobody to go to."""
    if getattr(server, "disconnected", False) is True:
        return True
    # Starlette ends a stream without an error where it hears that the client has left.
    return (error is None and status > 0) or type(error).__name__ in _CLIENT_ERRORS
