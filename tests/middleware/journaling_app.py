"""A service that journals to the directory in ``JOURNAL``; small files, so that many are made."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from trilat.middleware import TrilatMiddleware, store

store._SEGMENT_BYTES = 64 * 2**10


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    body = str(os.getpid()).encode()
    forever = scope["path"] == "/forever"
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": forever})
    while forever:
        await asyncio.sleep(60)


async def _live(receive: Any, send: Any) -> None:
    for step in ("startup", "shutdown"):
        assert (await receive())["type"] == f"lifespan.{step}"
        await send({"type": f"lifespan.{step}.complete"})


app = TrilatMiddleware(_answer, journal=os.environ["JOURNAL"])
