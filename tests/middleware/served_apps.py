"""The applications that the tests put behind a real server; the first path segment chooses one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, WebSocket
from starlette.applications import Starlette
from starlette.requests import Request  # noqa: TC002 - FastAPI reads the annotation
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from trilat.middleware import HEALTH, TrilatMiddleware
from trilat.middleware.asgi import ASGIApp, Message, Receive, Scope, Send

TOKEN = "a-token-of-the-tests"
BLOCKED_S = 0.15
SHARED_START: Message = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-length", b"0")],
}


def start(*headers: tuple[bytes, bytes]) -> Message:
    """The start of a 200 answer."""
    return {"type": "http.response.start", "status": 200, "headers": list(headers)}


def body(text: str, *, more: bool = False) -> Message:
    """A piece of an answer's body."""
    return {"type": "http.response.body", "body": text.encode(), "more_body": more}


async def plain(scope: Scope, receive: Receive, send: Send) -> None:
    """An application without a framework; the second path segment says what it does."""
    if scope["type"] == "websocket":
        await echo_once(receive, send)
        return
    action = ACTIONS[scope["path"].rpartition("/")[2]]
    await action(scope, send)


async def echo_once(receive: Receive, send: Send) -> None:
    """Accept a WebSocket, send one message back, close."""
    await receive()
    await send({"type": "websocket.accept"})
    message = await receive()
    await send({"type": "websocket.send", "text": message["text"]})
    await send({"type": "websocket.close"})


async def wait(scope: Scope, send: Send) -> None:
    """Wait for ``ms``, then tell how long that took and when it began."""
    entered_wall_ns, entered_ns = time.time_ns(), time.perf_counter_ns()
    query = parse_qs(scope["query_string"].decode())
    await asyncio.sleep(int(query.get("ms", ["0"])[0]) / 1000)
    took_ns = time.perf_counter_ns() - entered_ns
    await send(start((b"content-type", b"application/json"), (b"server-timing", b"db;dur=1.5")))
    await send(body(json.dumps({"entered_wall_ns": entered_wall_ns, "took_ns": took_ns})))


async def stream(_scope: Scope, send: Send) -> None:
    """Send three pieces with a pause between them."""
    await send(start())
    for piece in ("one ", "two ", "three"):
        await send(body(piece, more=True))
        await asyncio.sleep(0.01)
    await send(body(""))


async def block(_scope: Scope, send: Send) -> None:
    """Send a first piece, hold the event loop, then tell when it was let go."""
    await send(start())
    await send(body(" ", more=True))
    time.sleep(BLOCKED_S)
    await send(body(json.dumps({"released_wall_ns": time.time_ns()})))


async def shared(_scope: Scope, send: Send) -> None:
    """Send one message object again and again, as an application with a constant answer may."""
    await send(SHARED_START)
    await send(body(""))


async def fail(_scope: Scope, _send: Send) -> None:
    """Raise before the answer starts."""
    raise LookupError("on purpose")


async def never(_scope: Scope, _send: Send) -> None:
    """Return without an answer."""


async def twice(_scope: Scope, send: Send) -> None:
    """Start the answer a second time, which servers refuse."""
    await send(start((b"content-length", b"2")))
    await send(start((b"content-length", b"2")))
    await send(body("ok"))


ACTIONS: dict[str, Any] = {
    action.__name__: action for action in (wait, stream, block, shared, fail, never, twice)
}


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[dict[str, str]]:
    """Leave a trace in the state that requests see."""
    yield {"began": "yes"}


fastapi_app = FastAPI(lifespan=lifespan)
fastapi_app.add_middleware(TrilatMiddleware)


@fastapi_app.get("/fastapi/state")
async def state(request: Request) -> dict[str, str]:
    """What the lifespan left, which came through the middleware."""
    return {"began": request.state.began}


@fastapi_app.get("/fastapi/fail")
async def fastapi_fail() -> None:
    """Raise what nobody handles."""
    raise LookupError("on purpose")


@fastapi_app.websocket("/fastapi/echo")
async def fastapi_echo(websocket: WebSocket) -> None:
    """Send one message back."""
    await websocket.accept()
    await websocket.send_text(await websocket.receive_text())
    await websocket.close()


async def hello(_request: Request) -> Response:
    """A small answer; Starlette serves HEAD as well."""
    return JSONResponse({"hello": "world"})


async def broken(_request: Request) -> Response:
    """Raise what nobody handles."""
    raise LookupError("on purpose")


starlette_routes = [Route("/starlette/hello", hello), Route("/wrapped/fail", broken)]
starlette_app = Starlette(routes=starlette_routes)
starlette_app.add_middleware(TrilatMiddleware)


async def health(_scope: Scope, _receive: Receive, send: Send) -> None:
    """The counters of this process."""
    counters = {name: getattr(HEALTH, name) for name in HEALTH.__slots__}
    await send(start((b"content-type", b"application/json")))
    await send(body(json.dumps(counters)))


APPS: dict[str, ASGIApp] = {
    "plain": TrilatMiddleware(plain),
    "token": TrilatMiddleware(plain, token=TOKEN),
    "fastapi": fastapi_app,
    "starlette": starlette_app,
    "wrapped": TrilatMiddleware(Starlette(routes=starlette_routes)),
    "health": health,
}


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Hand each request to its application, and the lifespan to the one that has one."""
    name = "fastapi" if scope["type"] == "lifespan" else scope["path"].split("/")[1]
    await APPS[name](scope, receive, send)
