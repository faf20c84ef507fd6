"""A service that does what well-behaved ones do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from trilat.middleware import TrilatMiddleware

if TYPE_CHECKING:
    from starlette.requests import Request


async def item(_: Request) -> Response:
    """A plain answer."""
    return PlainTextResponse("item")


async def moved(_: Request) -> Response:
    """Elsewhere."""
    return RedirectResponse("/item")


async def drip(_: Request) -> Response:
    """An answer in three pieces, 15 ms apart."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"drop"
            await asyncio.sleep(0.015)

    return StreamingResponse(pieces())


async def hostile(_: Request) -> Response:
    """Stamps that are garbage, or another request's."""
    foreign = 'trilat;desc="1.' + "AAAA" * 16 + '"'
    return PlainTextResponse("x", headers={"server-timing": f'trilat;desc="1.%%%", {foreign}'})


stamped = Starlette(routes=[Route("/item", item), Route("/moved", moved), Route("/drip", drip)])
app = Starlette(
    routes=[
        Route("/bare", item),
        Route("/hostile", hostile),
        Mount("/", TrilatMiddleware(stamped)),
    ]
)
