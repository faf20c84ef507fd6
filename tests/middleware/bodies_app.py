"""Answers whose start and body come in every way, and one that tells of its request's body."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route

from trilat.middleware import TrilatMiddleware

SIZED = [(b"content-length", b"10")]
gates: dict[str, asyncio.Event] = {}


async def opened(name: bytes) -> None:
    """Wait until somebody asks for ``/open?name``."""
    await gates.setdefault(name.decode(), asyncio.Event()).wait()


async def start(send: Any, headers: list[tuple[bytes, bytes]], status: int = 200) -> None:
    """Send the start of an answer."""
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def body(send: Any, piece: bytes, *, more: bool = False) -> None:
    """Send a piece of its body."""
    await send({"type": "http.response.body", "body": piece, "more_body": more})


async def plain(scope: Any, receive: Any, send: Any) -> None:  # noqa: PLR0912 - one way each
    """Answer as the path says; a gate is named by the query."""
    kind, gate = scope["path"].rpartition("/")[2], scope["query_string"]
    match kind:
        case "open":
            gates.setdefault(gate.decode(), asyncio.Event()).set()
            await start(send, SIZED)
            await body(send, b"x" * 10)
        case "whole":
            await start(send, SIZED)
            await body(send, b"x" * 10)
        case "pieces":
            await start(send, SIZED)
            await body(send, b"x" * 4, more=True)
            await body(send, b"x" * 6)
        case "task":
            head = {"type": "http.response.start", "status": 200, "headers": SIZED}
            await asyncio.create_task(send(head))
            await body(send, b"x" * 10)
        case "sized-later":
            await start(send, SIZED)
            await opened(gate)
            await body(send, b"x" * 10)
        case "stream-later":
            await start(send, [])
            await opened(gate)
            await body(send, b"x" * 10)
        case "nothing":
            await start(send, SIZED)
        case "fails":
            await start(send, SIZED)
            raise LookupError("on purpose")
        case "two-starts":
            await start(send, SIZED)
            await start(send, SIZED)
        case "empty":
            await start(send, [], 204)
            await body(send, b"")
        case "upload":
            size = 0
            while True:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    break
            text = str(size).encode()
            await start(send, [(b"content-length", str(len(text)).encode())])
            await body(send, text)


async def hands_on(request: Any, call_next: Any) -> Any:
    """A middleware that does nothing, by Starlette's base class, which has a task of its own."""
    return await call_next(request)


def text(_request: Any) -> PlainTextResponse:
    """A text."""
    return PlainTextResponse("x" * 2000)


def streamed(_request: Any) -> StreamingResponse:
    """A text in pieces."""
    return StreamingResponse(iter(["x" * 1000, "x" * 1000]))


def file(_request: Any) -> FileResponse:
    """A file that is read in pieces."""
    return FileResponse(Path(__file__))


routes = [Route("/text", text), Route("/streamed", streamed), Route("/file", file)]
within = Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=hands_on)])
packed = Starlette(routes=routes, middleware=[Middleware(GZipMiddleware)])
bare = Starlette(routes=[Mount("/plain", plain), *routes])
observed = TrilatMiddleware(
    Starlette(
        routes=[
            Mount("/plain", plain),
            Mount("/within", within),
            Mount("/packed", packed),
            Mount("/again", TrilatMiddleware(Starlette(routes=routes))),
            *routes,
        ]
    )
)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """The same with trilat and, below ``/bare``, without."""
    if scope["type"] == "http" and scope["path"].startswith("/bare"):
        scope = scope | {"path": scope["path"].removeprefix("/bare"), "root_path": ""}
        await bare(scope, receive, send)
        return
    await observed(scope, receive, send)
