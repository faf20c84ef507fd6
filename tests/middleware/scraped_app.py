"""A service with something to show in each metric, for a Prometheus to scrape."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Response, WebSocket
from fastapi.responses import StreamingResponse
from starlette.routing import Route

from trilat.middleware import MetricsApp, TrilatMiddleware

_BLOCKED_S = 0.3


@asynccontextmanager
async def _one_thread(_app: FastAPI) -> AsyncIterator[None]:
    """Two synchronous calls at once are enough for one to wait."""
    current_default_thread_limiter().total_tokens = 1
    yield


app = FastAPI(lifespan=_one_thread)
app.add_middleware(TrilatMiddleware)
app.router.routes.append(Route("/metrics", MetricsApp()))


@app.get("/ready")
async def ready() -> str:
    """Answer at once."""
    return "ready"


@app.get("/items/{item}")
async def read_item(item: int) -> int:
    """Take a little while."""
    await asyncio.sleep(0.005)
    return item


@app.get("/failing")
async def fail() -> Response:
    """Answer that nobody is there."""
    return Response(status_code=503)


@app.get("/raising")
async def raise_error() -> None:
    """Let an exception out."""
    raise RuntimeError("as it was asked for")


@app.get("/sync")
def wait_in_thread() -> str:
    """Hold a thread of the pool."""
    time.sleep(0.05)
    return "done"


@app.get("/blocking")
async def block() -> str:
    """Hold the event loop, and collect garbage."""
    time.sleep(_BLOCKED_S)
    gc.collect()
    return "done"


@app.get("/stream")
async def stream() -> StreamingResponse:
    """Send a body in pieces."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"piece"
            await asyncio.sleep(0.005)

    return StreamingResponse(pieces())


@app.websocket("/talk")
async def talk(websocket: WebSocket) -> None:
    """Send back what comes."""
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text)
