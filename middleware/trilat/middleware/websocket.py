"""WebSocket connections: how many are open, how long, how many messages, how they end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trilat.agent.clock import SYSTEM_CLOCK
from trilat.agent.families import WEBSOCKET, Histogram

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from .asgi import ASGIApp, Message, Receive, Scope, Send
    from .routes import RouteLabels
    from .station import Station

__all__ = ["observe_websocket"]

_OPEN_AT = WEBSOCKET.places["trilat_websocket_connections"]
_DURATION_AT = WEBSOCKET.places["trilat_websocket_duration_seconds"]
_RECEIVED_AT = WEBSOCKET.places["trilat_websocket_received_messages_total"]
_SENT_AT = WEBSOCKET.places["trilat_websocket_sent_messages_total"]
_EXCEPTIONS_AT = WEBSOCKET.places["trilat_websocket_exceptions_total"]
_REFUSED_AT = WEBSOCKET.places["trilat_websocket_refused_total"]
_DURATION = next(metric for metric in WEBSOCKET.metrics if isinstance(metric, Histogram))
_SEEN = "trilat.websocket"
# How frameworks and servers tell an application that the client has left.
_DISCONNECTS = ("WebSocketDisconnect", "ClientDisconnect", "ClientDisconnected", "Disconnected")


async def observe_websocket(  # noqa: PLR0913, PLR0917 - what ASGI calls with, and two more
    app: ASGIApp,
    scope: Scope,
    receive: Receive,
    send: Send,
    station: Station,
    labels: RouteLabels,
    *,
    monotonic_ns: Callable[[], int] = SYSTEM_CLOCK.monotonic_ns,
) -> None:
    """Call the application for a connection, and count what goes by.

    A connection is open from the application's accept to the first of its close, the client's
    disconnect and the application's end. One that is not accepted counts as refused.

    Args:
        app: the application.
        scope: of the connection.
        receive: the server's.
        send: the server's.
        station: what the process counts in.
        labels: names the route.
        monotonic_ns: the clock of durations.

    Raises:
        BaseException: whatever the application raises.
    """
    if _SEEN in scope:  # a mounted application with a middleware of its own
        await app(scope, receive, send)
        return
    scope[_SEEN] = True
    connection = _Connection(scope, receive, send, station, labels, monotonic_ns)
    try:
        await app(scope, connection.receive, connection.send)
    except BaseException as error:
        connection.returned(error)
        raise
    connection.returned(None)


class _Connection:
    """One connection; `receive` and `send` stand in for the server's."""

    __slots__ = (
        "_accepted_ns",
        "_at",
        "_ended",
        "_labels",
        "_monotonic_ns",
        "_receive",
        "_scope",
        "_send",
        "_station",
        "_view",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - as above
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        station: Station,
        labels: RouteLabels,
        monotonic_ns: Callable[[], int],
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._station = station
        self._view = station.view
        self._labels = labels
        self._monotonic_ns = monotonic_ns
        self._at = -1  # the route is known when the application is reached
        self._accepted_ns = -1
        self._ended = False

    async def receive(self) -> Message:
        """Look at an event that the server hands in."""
        message = await self._receive()
        try:
            kind = message["type"]
            if kind == "websocket.receive":
                if self._accepted_ns >= 0:
                    self._view[self._at + _RECEIVED_AT] += 1
            elif kind == "websocket.disconnect":
                self._end()
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self._station.health.failed()
        return message

    def send(self, message: Message) -> Awaitable[None]:
        """Look at an event that the application sends, and hand it on."""
        try:
            kind = message["type"]
            if kind == "websocket.send":
                if self._accepted_ns >= 0:
                    self._view[self._at + _SENT_AT] += 1
            elif kind == "websocket.accept":
                self._accept()
            elif kind in {"websocket.close", "websocket.http.response.start"}:
                self._end()
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self._station.health.failed()
        return self._send(message)

    def returned(self, error: BaseException | None) -> None:
        """The application is done."""
        try:
            self._end()
            # A cancelled application was stopped by its server.
            if isinstance(error, Exception) and type(error).__name__ not in _DISCONNECTS:
                self._view[self._at + _EXCEPTIONS_AT] += 1
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self._station.health.failed()

    def _accept(self) -> None:
        if self._accepted_ns >= 0 or self._ended:
            return  # the server refuses a second one
        at = self._find()
        self._accepted_ns = self._monotonic_ns()
        self._view[at + _OPEN_AT] += 1

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        at = self._find()
        if self._accepted_ns < 0:
            self._view[at + _REFUSED_AT] += 1
            return
        took_ns = self._monotonic_ns() - self._accepted_ns
        self._view[at + _OPEN_AT] -= 1
        _DURATION.observe(self._view, at + _DURATION_AT, took_ns)

    def _find(self) -> int:
        if self._at < 0:
            self._at = self._station.counters.block(WEBSOCKET, (self._labels.label(self._scope),))
        return self._at
