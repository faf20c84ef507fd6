"""`TrilatMiddleware`: observes all requests, and stamps the answers to a load test's."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trilat.agent.clock import SYSTEM_CLOCK, Clock
from trilat.agent.marking import token_bytes

from .exchange import Exchange
from .ledger import Ledger
from .lifespan import observe_lifespan
from .routes import RouteLabels
from .station import STATION, Station
from .threads import current_exchange
from .websocket import observe_websocket

if TYPE_CHECKING:
    from collections.abc import Callable

    from .asgi import Receive, Scope, Send

__all__ = ["TrilatMiddleware"]


class TrilatMiddleware:
    """Observes all requests and stamps the answers to those that a load test marked.

    ::

        app = FastAPI()
        app.add_middleware(TrilatMiddleware)  # the last one added is the outermost

    Each request is counted, with the time to the start of its answer and to the end of its body,
    for `trilat.middleware.MetricsApp` to show; with ``journal`` it also becomes a record on disk.
    The answer to a request with an allowed ``Trilat-Run`` header gets one ``Server-Timing`` header
    more: ``app;dur``, ``queue;dur`` and ``lag;dur`` in milliseconds, as browsers show them, and an
    entry ``trilat`` with the exact stamps (see `trilat.agent.stamp`). An error in here is counted
    in the station's ``health`` and logged once; the request goes on untouched.

    Be the outermost: what runs outside is not timed (its time becomes queue), and what an outer
    middleware answers by itself (a 429, a redirect to HTTPS) is not seen. To check:
    ``app.user_middleware[0].cls`` is this class. Starlette and FastAPI answer unhandled exceptions
    with a 500 outside of every added middleware; for stamps on those too, wrap the whole
    application, and serve what comes out: ``service = TrilatMiddleware(app)``.

    Args:
        app: the application to wrap.
        token: where given, only requests that carry it are answered with stamps.
        journal: a directory for journals and samples (made where it is missing); None keeps none.
        route: names a request's route from its scope, as ``/items/{id}``; None finds it as
            Starlette, FastAPI and Litestar leave it there. See `trilat.middleware.routes`.
        station: what the process keeps; the same for all middleware of a process.
        clock: the clocks to stamp with.

    Raises:
        UsageError: the token is empty or cannot be sent in a header, or another middleware of this
            process journals to another directory.
    """

    def __init__(  # noqa: PLR0913 - options by keyword
        self,
        app: Any,  # frameworks type ASGI each in their own way
        *,
        token: str | None = None,
        journal: str | Path | None = None,
        route: Callable[[Scope], str | None] | None = None,
        station: Station = STATION,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.app = app
        if journal is not None:
            station.journal_to(Path(journal))
        self._station = station
        self._labels = RouteLabels(route, health=station.health)
        allowed = None if token is None else token_bytes(token)
        self._ledger = Ledger(station, self._labels, allowed, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application; HTTP requests and WebSockets are observed."""
        station = self._station
        if not station.entered:
            station.enter()
        if scope["type"] != "http":
            await self._call_other(scope, receive, send)
            return
        outer = current_exchange.get()
        if outer is not None and outer.covers(scope):  # a middleware further out observes it
            await self.app(scope, receive, send)
            return
        try:
            exchange = Exchange(self._ledger, scope, receive, send)
        except Exception:  # noqa: BLE001 - instrumentation fails open
            station.health.failed()
            await self.app(scope, receive, send)
            return
        try:
            await self.app(scope, exchange.receive, exchange.send)
        except BaseException as error:
            exchange.done(error)
            if exchange.held is not None:
                with suppress(Exception):  # the application's own error counts
                    await exchange.release()
            raise
        exchange.done(None)
        if exchange.held is not None:
            await exchange.release()

    async def _call_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with what is no HTTP request."""
        if scope["type"] == "websocket":
            labels = self._labels
            await observe_websocket(self.app, scope, receive, send, self._station, labels)
        elif scope["type"] == "lifespan":
            await observe_lifespan(self.app, scope, receive, send, self._station)
        else:
            await self.app(scope, receive, send)
