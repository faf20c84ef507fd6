"""A service whose event loop stands still for one second, once."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from trilat.middleware import TrilatMiddleware

if TYPE_CHECKING:
    from starlette.requests import Request

STALL_S = 1.0
_begun: list[float] = []
_STALLS_AFTER_S = 1.5


async def item(_: Request) -> Response:
    """An answer at once, but for the one that comes at the wrong moment."""
    now = time.monotonic()
    if not _begun:
        _begun.append(now)
    elif len(_begun) == 1 and now - _begun[0] > _STALLS_AFTER_S:
        _begun.append(now)
        time.sleep(STALL_S)
    await asyncio.sleep(0)
    return PlainTextResponse("item")


app = TrilatMiddleware(Starlette(routes=[Route("/item", item)]))
