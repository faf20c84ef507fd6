"""One HTTP exchange inside the service: what is seen of it, from the call to the last body message.

This is the hottest code of the service's side, run for every request of somebody else's service. So
an exchange is one object with slots, which costs less than the cells of closures and gives Python's
garbage collector a single thing to look at; each clock is read once an instant; and what only a
marked or a streamed answer needs is made for those alone. The measure is
``benchmarks/middleware.py``.

The stamp of an answer goes out with its start, and tells whether the body comes in one message. So
where a marked answer's start names the size of its body, it is held back until the body's first
message is there. The specification wants that of servers ("must not start sending the response to
the client until it has received at least one Response Body event", ``http.response.start``), and
hypercorn and daphne do so; uvicorn does not. An answer of unknown size, as a stream of events, is
not held back, nor is one to a request without marks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.agent.lag import NEVER_NS, SLACK_NS
from trilat.agent.layout import ServedFlag
from trilat.agent.records import UNKNOWN, StampFlag

from .marks import read_marks, stamped
from .threads import current_exchange
from .uploads import Upload

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from .asgi import Message, Receive, Scope, Send
    from .ledger import Ledger

__all__ = ["Exchange", "Stream"]

_MARKED = int(ServedFlag.MARKED)
_DISCONNECTED = int(ServedFlag.DISCONNECTED)
_RAISED = int(ServedFlag.RAISED)
_UNFINISHED = int(ServedFlag.UNFINISHED)
_WHOLE = int(StampFlag.WHOLE)
_STREAMED = int(StampFlag.STREAMED)
_WITHOUT_BODY = (204, 304)
_NO_UPLOADS = ("GET", "HEAD")
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


class Exchange:
    """A request and its answer. Making one begins to observe it; nothing else raises.

    Args:
        ledger: where it is counted, once its answer has ended.
        scope: of the request.
        receive: the server's.
        send: the server's.

    Attributes:
        scope: of the request.
        marks: see `trilat.middleware.marks.read_marks`.
        called_ns: the monotonic clock when the application was called.
        start_ns: from there to the answer's start, or UNKNOWN.
        end_ns: to the end of its body, or UNKNOWN.
        blocked_ns: how long the event loop was blocked up to the start, or UNKNOWN.
        status: that it is counted under; 0 before an answer has started.
        size: bytes of a body that came in one piece.
        stream: what is known of one that came in several.
        thread_wait_ns: how long it waited for threads of the pool.
        series: the place of its series among the numbers of the process, or UNKNOWN.
        open: whether the application is at it.
        held: the start of its answer, where that waits for the body's first message.
        receive: what the application is to call for the messages of its request.
        upload: what is known of a marked request's body on its way; None for one without.
    """

    __slots__ = (
        "_blocked_before_ns",
        "_ledger",
        "_send",
        "_server",
        "blocked_ns",
        "called_ns",
        "end_ns",
        "held",
        "marks",
        "open",
        "receive",
        "scope",
        "series",
        "size",
        "start_ns",
        "status",
        "stream",
        "thread_wait_ns",
        "upload",
    )

    def __init__(self, ledger: Ledger, scope: Scope, receive: Receive, send: Send) -> None:
        self._ledger = ledger
        self.called_ns = called_ns = ledger.monotonic_ns()
        station = ledger.station
        lag = station.lag
        if lag.slow:
            lag.wake()
        lag.idle_ticks = 0
        late = called_ns - lag.due_ns > SLACK_NS
        self._blocked_before_ns = lag.blocked_at(called_ns) if late else lag.blocked_ns
        self.scope = scope
        self._send = send
        self._server = getattr(receive, "__self__", None)  # uvicorn's, of the connection
        self.marks = marks = read_marks(ledger, scope, self._server)
        self.receive = receive
        self.upload: Upload | None = None
        if marks is not None and marks[-1] & _MARKED and scope["method"] not in _NO_UPLOADS:
            self.upload = upload = Upload(receive, ledger.monotonic_ns)
            self.receive = upload.receive
        self.held: Message | None = None
        self.start_ns = self.end_ns = self.blocked_ns = self.series = UNKNOWN
        self.status = self.size = self.thread_wait_ns = 0
        self.open = True
        self.stream: Stream | None = None
        current_exchange.set(self)
        station.begun += 1

    # Not a coroutine function: what the server's own send returns is handed on as it is.
    def send(self, message: Message) -> Awaitable[None]:
        """What the application is to call with the messages of its answer."""
        try:
            kind = message["type"]
            if kind == "http.response.start":
                status = message["status"]
                # 1xx answers come before the one that counts.
                if self.start_ns < 0 and status >= 200:
                    self.status = status
                    station = self._ledger.station
                    now_ns = self._ledger.monotonic_ns()
                    self.start_ns = now_ns - self.called_ns
                    lag = station.lag
                    due_ns = lag.due_ns
                    if due_ns != NEVER_NS:
                        late = now_ns - due_ns > SLACK_NS
                        blocked_to_ns = lag.blocked_at(now_ns) if late else lag.blocked_ns
                        self.blocked_ns = blocked_to_ns - self._blocked_before_ns
                    marks = self.marks
                    if marks is not None and marks[-1] & _MARKED:
                        if _is_sized(message):
                            self.held = message
                            return _nothing()
                        bare = status in _WITHOUT_BODY or self.scope["method"] == "HEAD"
                        message = self._stamped(message, 0 if bare else _STREAMED)
            elif kind in _BODY_KINDS and self.end_ns < 0:
                now_ns = self._ledger.monotonic_ns()
                size = len(message.get("body", b""))
                more = message.get("more_body", False)
                if more or self.stream is not None:
                    self._piece(now_ns, size)
                if not more:
                    self.size = size
                    self.end_ns = took_ns = now_ns - self.called_ns
                    flags = 0
                    if getattr(self._server, "disconnected", False) is True:
                        flags, self.status = _DISCONNECTED, _CLIENT_LEFT
                    # Before it is handed over: who has the answer finds it counted.
                    self._ledger.add(self, flags, took_ns)
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self._ledger.health.failed()
        if self.held is not None:
            return self._release(message)
        return self._send(message)

    async def release(self) -> None:
        """Send the start of an answer that the application has begun and not gone on with."""
        start, self.held = self.held, None
        if start is not None:
            await self._send(self._stamped(start, 0))

    def done(self, error: BaseException | None) -> None:
        """The application is done: it returned, or the error left it."""
        ledger = self._ledger
        ledger.station.ended += 1
        self.open = False
        try:
            now_ns = ledger.monotonic_ns() - self.called_ns
            if self.end_ns < 0:
                self._give_up(error, now_ns)
            elif now_ns - self.end_ns > _AFTER_MIN_NS:
                ledger.add_after(self.series, now_ns - self.end_ns)
            # A cancelled application was stopped by its server.
            if error is not None and isinstance(error, Exception) and not _is_of_client(error):
                ledger.add_exception(self.series)
        except Exception:  # noqa: BLE001 - instrumentation fails open
            ledger.health.failed()

    def covers(self, scope: Scope) -> bool:
        """Whether a call that is made in this exchange's context belongs to it.

        A mounted application may have a middleware of its own. What stands between the two may hand
        a copy of the scope inwards; the headers are the same list then.
        """
        ours = self.scope
        return self.open and (scope is ours or scope.get("headers") is ours.get("headers"))

    async def _release(self, message: Message) -> None:
        """Send the start that was held back, and what came after it."""
        start, self.held = self.held, None
        if start is not None:
            flags = 0
            if message["type"] in _BODY_KINDS:
                flags = _STREAMED if message.get("more_body", False) else _WHOLE
            await self._send(self._stamped(start, flags))
        await self._send(message)

    def _stamped(self, start: Message, flags: int) -> Message:
        """The start of an answer with its stamp; without one where that cannot be made.

        Waiting for a body that was still on its way is no part of the application's time: the
        stamp's call is later by that.
        """
        try:
            marks, app_ns, blocked_ns = self.marks, self.start_ns, self.blocked_ns
            if marks is None:
                return start
            wait_ns = 0
            upload = self.upload
            if upload is not None:
                wait_ns = min(upload.wait_ns, app_ns)
                app_ns -= wait_ns
                blocked_ns = min(blocked_ns, app_ns)
            instance = self._ledger.station.instance
            return stamped(start, marks, (wait_ns, app_ns, blocked_ns), flags, instance)
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self._ledger.health.failed()
            return start

    def _piece(self, now_ns: int, size: int) -> None:
        """A message of a body that comes in several."""
        if self.stream is None:
            self.stream = Stream(self.called_ns + max(self.start_ns, 0))
        self.stream.add(now_ns, size)

    def _give_up(self, error: BaseException | None, now_ns: int) -> None:
        """The answer has not come to its end, and will not."""
        flags = _UNFINISHED if error is None else _UNFINISHED | _RAISED
        # Starlette ends a stream without an error where it hears that the client has left.
        left = self.status > 0 if error is None else _is_of_client(error)
        if left or getattr(self._server, "disconnected", False) is True:
            flags, self.status = flags | _DISCONNECTED, _CLIENT_LEFT
        self.status = self.status or _FAILED
        self._ledger.add(self, flags, now_ns)


async def _nothing() -> None:
    """What sending a message that is held back comes to: some await a coroutine, others a task."""


def _is_sized(start: Message) -> bool:
    """Whether the start of an answer names the size of its body."""
    headers = start.get("headers")
    if type(headers) is list or type(headers) is tuple:  # reading may use up anything else
        for name, _ in headers:
            if name == b"content-length":
                return True
    return False


def _is_of_client(error: BaseException) -> bool:
    """Whether an exception says that nobody is there to answer."""
    return type(error).__name__ in _CLIENT_ERRORS
