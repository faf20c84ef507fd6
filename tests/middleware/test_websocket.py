"""WebSocket connections as they are counted, event by event."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from trilat.agent.counters import Counters
from trilat.agent.families import WEBSOCKET, Histogram
from trilat.middleware.asgi import ASGIApp, Message, Receive, Scope, Send
from trilat.middleware.health import Health
from trilat.middleware.routes import RouteLabels
from trilat.middleware.websocket import observe_websocket

SECOND = 1_000_000_000
ACCEPT: Message = {"type": "websocket.accept"}
TEXT: Message = {"type": "websocket.send", "text": "x"}
CLOSE: Message = {"type": "websocket.close"}
CONNECT: Message = {"type": "websocket.connect"}
RECEIVED: Message = {"type": "websocket.receive", "text": "x"}
DISCONNECT: Message = {"type": "websocket.disconnect", "code": 1001}


class WebSocketDisconnect(Exception):
    """What frameworks raise when a client leaves; they are known by this name."""


class Connection:
    """One connection: what the client sends, what comes out, and what is counted."""

    def __init__(self, *events: Message) -> None:
        self.health = Health()
        self.counters = Counters(None)
        self.station: Any = SimpleNamespace(
            view=self.counters.view, counters=self.counters, health=self.health
        )
        self.events = iter([CONNECT, *events])
        self.sent: list[Message] = []
        self.now_ns = 0
        self.scope: Scope = {"type": "websocket", "path": "/room"}

    async def receive(self) -> Message:
        """The next event, a second later."""
        self.now_ns += SECOND
        return next(self.events)

    async def send(self, message: Message) -> None:
        """Keep what the application sends."""
        self.sent.append(message)

    def run(self, app: ASGIApp) -> Connection:
        """Let the application have the connection."""
        labels = RouteLabels(lambda scope: scope["path"], health=self.health)
        asyncio.run(
            observe_websocket(
                app,
                self.scope,
                self.receive,
                self.send,
                self.station,
                labels,
                monotonic_ns=lambda: self.now_ns,
            )
        )
        return self

    def counted(self) -> dict[str, int]:
        """The numbers of the connection's route that are not zero, by a short name."""
        at = self.counters.block(WEBSOCKET, (self.scope["path"],))
        counted = {}
        for metric in WEBSOCKET.metrics:
            place = at + WEBSOCKET.places[metric.name]
            name = metric.name.removeprefix("trilat_websocket_").removesuffix("_total")
            if isinstance(metric, Histogram):
                counted["ended"] = sum(self.counters.view[place : place + len(metric.bounds) + 1])
                counted["seconds"] = self.counters.view[place + metric.sum_at] // SECOND
            else:
                counted[name] = self.counters.view[place]
        return {name: number for name, number in counted.items() if number}


def doing(*steps: Message | str | BaseException) -> ASGIApp:
    """An application that sends messages, receives (``"receive"``) and raises, in this order."""

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        for step in steps:
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, str):
                await receive()
            else:
                await send(step)

    return app


@pytest.fixture
def connection() -> Iterator[Connection]:
    """A connection whose client sends two messages and leaves."""
    connection = Connection(RECEIVED, RECEIVED, DISCONNECT)
    yield connection
    assert connection.health.errors == 0


def test_connection_is_counted_from_accept_to_close(connection: Connection) -> None:
    """What comes after the close, as a slow application's end, is no part of the duration."""
    app = doing("receive", ACCEPT, "receive", TEXT, "receive", CLOSE, "receive")
    assert connection.run(app).counted() == {
        "ended": 1,
        "seconds": 2,
        "received_messages": 2,
        "sent_messages": 1,
    }
    assert connection.sent == [ACCEPT, TEXT, CLOSE]


def test_connection_is_open_until_the_client_leaves(connection: Connection) -> None:
    """The disconnect ends it, and that the framework raises then is no exception of its own."""
    app = doing("receive", ACCEPT, *["receive"] * 3, WebSocketDisconnect())
    with pytest.raises(WebSocketDisconnect):
        connection.run(app)
    assert connection.counted() == {"ended": 1, "seconds": 3, "received_messages": 2}


def test_open_connection_shows(connection: Connection) -> None:
    """While it is open, the gauge says so."""
    open_now = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        open_now.append(connection.counted())
        await send(ACCEPT)
        open_now.append(connection.counted())

    connection.run(app)
    assert open_now == [{}, {"connections": 1}]
    assert connection.counted() == {"ended": 1}


@pytest.mark.parametrize("refusal", [CLOSE, {"type": "websocket.http.response.start"}])
def test_connection_that_is_not_accepted_is_refused(
    connection: Connection, refusal: Message
) -> None:
    """It has no duration."""
    assert connection.run(doing("receive", refusal)).counted() == {"refused": 1}


def test_exception_of_the_application_is_counted(connection: Connection) -> None:
    """It passes through, and the connection has ended."""
    with pytest.raises(LookupError):
        connection.run(doing("receive", ACCEPT, LookupError("on purpose")))
    assert connection.counted() == {"ended": 1, "exceptions": 1}


def test_cancelled_application_has_no_exception(connection: Connection) -> None:
    """A server that stops cancels what is open."""
    with pytest.raises(asyncio.CancelledError):
        connection.run(doing("receive", ACCEPT, asyncio.CancelledError()))
    assert connection.counted() == {"ended": 1}


def test_second_accept_counts_once(connection: Connection) -> None:
    """The server refuses it; the gauge stays even."""
    assert connection.run(doing("receive", ACCEPT, ACCEPT, CLOSE)).counted() == {"ended": 1}


def test_middleware_within_middleware_counts_once(connection: Connection) -> None:
    """A mounted application may have one of its own."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        labels = RouteLabels(lambda scope: scope["path"])
        inner = doing("receive", ACCEPT, TEXT, CLOSE)
        await observe_websocket(inner, scope, receive, send, connection.station, labels)

    assert connection.run(app).counted() == {"ended": 1, "sent_messages": 1}


def test_error_inside_leaves_the_connection_alone() -> None:
    """With counters that fail at every look, all events pass, and the errors are counted."""
    connection = Connection(RECEIVED, DISCONNECT)
    connection.station.view = None
    app = doing("receive", ACCEPT, "receive", TEXT, "receive", CLOSE)
    connection.run(app)
    assert connection.sent == [ACCEPT, TEXT, CLOSE]
    assert connection.health.errors > 0
