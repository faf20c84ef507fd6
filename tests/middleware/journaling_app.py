"""A service that journals to the directory in ``JOURNAL``; small files, so that many are made."""

from __future__ import annotations

import os
from typing import Any

from trilat.middleware import TrilatMiddleware, store

store._SEGMENT_BYTES = 64 * 2**10


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    body = str(os.getpid()).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


app = TrilatMiddleware(_answer, journal=os.environ["JOURNAL"])
