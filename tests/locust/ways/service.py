"""What the ways ask for: an endpoint for each thing that services and clients do to each other."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

APP_S = 0.01
"""How long each endpoint that is asked for takes in the application, at least."""
BODY_S = 0.04
"""How long a streamed body takes, at least."""
READS_AFTER_S = 0.15
"""How long the service lets an upload wait before it reads it."""
DOWNLOAD = 4_000_000
UPLOAD = 12_000_000
_tried: set[str] = set()


async def item(_: Request) -> Response:
    """A plain answer."""
    await asyncio.sleep(APP_S)
    return PlainTextResponse("item")


async def moved(request: Request) -> Response:
    """So many redirects to the item."""
    await asyncio.sleep(APP_S)
    left = int(request.path_params["hops"]) - 1
    code = int(request.query_params.get("code", 302))
    return RedirectResponse(f"/moved/{left}?code={code}" if left else "/item", code)


async def moved_to(request: Request) -> Response:
    """A redirect to wherever the query says."""
    await asyncio.sleep(APP_S)
    return RedirectResponse(request.query_params["url"])


async def drip(_: Request) -> Response:
    """An answer in pieces (chunked)."""
    await asyncio.sleep(APP_S)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"drop\n"
            await asyncio.sleep(BODY_S / 4)

    return StreamingResponse(pieces())


async def zipped(_: Request) -> Response:
    """A compressed body."""
    await asyncio.sleep(APP_S)
    headers = {"content-encoding": "gzip", "content-type": "text/plain"}
    return Response(gzip.compress(b"item " * 5000), headers=headers)


async def download(_: Request) -> Response:
    """More than the buffers of both ends hold."""
    await asyncio.sleep(APP_S)
    return Response(b"x" * DOWNLOAD)


async def upload(request: Request) -> Response:
    """Read a body, but let the sender wait first."""
    await asyncio.sleep(READS_AFTER_S)
    size = 0
    async for piece in request.stream():
        size += len(piece)
    return PlainTextResponse(str(size))


async def early(_: Request) -> Response:
    """Answer without a look at the body."""
    return PlainTextResponse("too large", 413)


async def hang(_: Request) -> Response:
    """Nobody waits for this."""
    await asyncio.sleep(5)
    return PlainTextResponse("late")


async def flaky(request: Request) -> Response:
    """Close the connection without an answer at the first try of each key."""
    await asyncio.sleep(APP_S)
    if (key := request.path_params["key"]) not in _tried:
        _tried.add(key)
        server: Any = request.receive.__self__  # type: ignore[attr-defined]
        server.transport.abort()
    return PlainTextResponse("at last")


async def busy(request: Request) -> Response:
    """503 at the first try of each key."""
    await asyncio.sleep(APP_S)
    if (key := request.path_params["key"]) not in _tried:
        _tried.add(key)
        return PlainTextResponse("busy", 503)
    return PlainTextResponse("at last")


async def stall(_: Request) -> Response:
    """Half a body, and then nothing for long."""
    await asyncio.sleep(APP_S)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"half"
        await asyncio.sleep(5)
        yield b"rest"

    return StreamingResponse(pieces(), headers={"content-length": "8"})


async def who(request: Request) -> Response:
    """403 unless the client has shown a certificate."""
    await asyncio.sleep(APP_S)
    server: Any = request.receive.__self__  # type: ignore[attr-defined]
    known = server.transport.get_extra_info("peercert")
    return PlainTextResponse("known" if known else "unknown", 200 if known else 403)


async def failing(_: Request) -> Response:
    """An error of the service's own."""
    await asyncio.sleep(APP_S)
    return PlainTextResponse("broken", 500)


app = Starlette(
    routes=[
        Route("/item", item, methods=["GET", "POST", "PUT", "DELETE", "OPTIONS"]),
        Route("/moved/{hops:int}", moved, methods=["GET", "POST"]),
        Route("/moved-to", moved_to),
        Route("/drip", drip),
        Route("/zipped", zipped),
        Route("/download", download),
        Route("/upload", upload, methods=["POST", "PUT"]),
        Route("/early", early, methods=["POST"]),
        Route("/hang", hang),
        Route("/flaky/{key}", flaky),
        Route("/busy/{key}", busy),
        Route("/stall", stall),
        Route("/who", who),
        Route("/failing", failing),
    ]
)
