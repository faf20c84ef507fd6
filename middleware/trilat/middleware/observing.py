"""`TrilatMiddleware`: the answer to a marked request tells what the service knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.agent.clock import SYSTEM_CLOCK, Clock
from trilat.agent.host import host_identity, kernel_tick_us, process_identity
from trilat.agent.marking import (
    RUN_HEADER,
    TRACEPARENT_HEADER,
    run_is_allowed,
    span_of,
    token_bytes,
)
from trilat.agent.records import UNKNOWN
from trilat.agent.stamp import STAMP, server_timing

from .health import HEALTH, Health
from .queueing import queued_ms

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from .asgi import ASGIApp, Message, Receive, Scope, Send

__all__ = ["TrilatMiddleware"]

# ASGI servers hand header names in lower case.
_RUN = RUN_HEADER.lower().encode()
_TRACEPARENT = TRACEPARENT_HEADER.lower().encode()


class TrilatMiddleware:
    """Stamps the answers to requests that carry an allowed ``Trilat-Run`` header.

    ::

        app = FastAPI()
        app.add_middleware(TrilatMiddleware)  # the last one added is the outermost

    The answer gets one ``Server-Timing`` header more: ``app;dur`` and ``queue;dur`` in
    milliseconds, as browsers show them, and an entry ``trilat`` with the exact stamps (see
    `trilat.agent.stamp`). Unmarked requests, WebSockets and lifespan events pass as they are.
    An error in here is counted in ``health`` and logged once; the request goes on untouched.

    Be the outermost: what runs outside is not timed (its time becomes queue), and what an outer
    middleware answers by itself (a 429, a redirect to HTTPS) carries no stamp. To check:
    ``app.user_middleware[0].cls`` is this class. Starlette and FastAPI answer unhandled exceptions
    with a 500 outside of every added middleware; for stamps on those too, wrap the whole
    application, and serve what comes out: ``service = TrilatMiddleware(app)``.

    Args:
        app: the application to wrap.
        token: where given, only requests that carry it are answered with stamps.
        clock: the clocks to stamp with.
        health: what to count into.

    Raises:
        UsageError: the token is empty, or cannot be sent in a header.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
        health: Health = HEALTH,
    ) -> None:
        self.app = app
        self._token = None if token is None else token_bytes(token)
        self._monotonic_ns = clock.monotonic_ns
        self._wall_ns = clock.wall_ns
        self._health = health
        self._tick_10us = kernel_tick_us() // 10
        self._host = host_identity()
        # Known at the first stamp only: a server may import the app, and fork its workers then.
        self._instance = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, with a ``send`` that stamps where the request is marked."""
        if scope["type"] == "http":
            try:
                headers = scope["headers"]
                if type(headers) is not list:  # any iterable will do: reading may use it up
                    headers = scope["headers"] = list(headers)
                for name, value in headers:
                    if name == _RUN:
                        send = self._stamping(scope, receive, send, value)
                        break
            except Exception:  # noqa: BLE001 - instrumentation fails open
                self._health.failed()
        await self.app(scope, receive, send)

    def _stamping(self, scope: Scope, receive: Receive, send: Send, run: bytes) -> Send:
        """The ``send`` for a request with this ``Trilat-Run`` value; its state lives in here."""
        called_wall_ns = self._wall_ns()
        called_ns = self._monotonic_ns()
        if not run_is_allowed(run, self._token):
            self._health.refused += 1
            return send
        queue_ms = queued_ms(scope, receive)
        span = self._span(scope["headers"])
        instance = self._instance or self._enter_process()

        # Not a coroutine function: what the server's own send returns is handed on as it is.
        def send_stamped(message: Message) -> Awaitable[None]:
            try:
                # 1xx answers come before the one that counts.
                if message["type"] == "http.response.start" and message["status"] >= 200:
                    app_ns = self._monotonic_ns() - called_ns
                    packed = STAMP.pack(
                        span,
                        called_wall_ns,
                        app_ns,
                        UNKNOWN,
                        queue_ms,
                        self._tick_10us,
                        0,
                        self._host,
                        instance,
                    )
                    # An application may send one message, or one list, many times: copy both.
                    header = (b"server-timing", server_timing(app_ns, queue_ms, packed))
                    message = {**message, "headers": [*message.get("headers", ()), header]}
            except Exception:  # noqa: BLE001 - instrumentation fails open
                self._health.failed()
            return send(message)

        return send_stamped

    def _span(self, headers: Iterable[tuple[bytes, bytes]]) -> int:
        """The request's span id, 0 where it has none or a malformed one."""
        found = None
        for name, value in headers:
            if name == _TRACEPARENT:
                found = value if found is None else b""  # two of them are as good as none
        if found is None:
            return 0
        span = span_of(found)
        if not span:
            self._health.malformed_traceparents += 1
        return span

    def _enter_process(self) -> int:
        self._instance = process_identity()
        return self._instance
