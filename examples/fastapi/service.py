"""A service whose endpoints are slow for four different reasons.

Run it with ``uvicorn service:app`` in this folder, then put load on it with one of the locustfiles
beside it.
"""

from __future__ import annotations

import asyncio
import time

from fastapi import FastAPI

from trilat.middleware import TrilatMiddleware

__all__ = ["app"]

DOWNSTREAM_S = 0.020
"""How long the imagined database or other service takes."""

app = FastAPI(title="trilat example")
# Added last is outermost: nothing else may answer, or wait, outside of it.
app.add_middleware(TrilatMiddleware)


@app.get("/health")
async def health() -> dict[str, str]:
    """Answer at once: what is left is the framework's own time."""
    return {"status": "ok"}


@app.get("/item/{item_id}")
async def item(item_id: int) -> dict[str, int]:
    """Await a downstream call of 20 ms, as a service that does it right: others go on meanwhile."""
    await asyncio.sleep(DOWNSTREAM_S)
    return {"id": item_id, "stock": item_id % 7}


@app.get("/blocking")
async def blocking() -> dict[str, str]:
    """Wait for 20 ms without giving the event loop back: one request at a time, all others queue.

    This request's time shows as ``service.app``, and that of the requests behind it as
    ``service.queue``.
    """
    time.sleep(DOWNSTREAM_S)
    return {"waited": "with the loop"}


@app.get("/sync")
def sync() -> dict[str, str]:
    """Wait for 20 ms in the thread pool: the 41st concurrent request waits for a free thread."""
    time.sleep(DOWNSTREAM_S)
    return {"waited": "in a thread"}


@app.get("/cpu")
async def cpu(rounds: int = 50_000) -> dict[str, int]:
    """Compute on the event loop: some 5 ms of processor time that nobody else gets."""
    total = 0
    for number in range(min(rounds, 1_000_000)):
        total = (total + number * number) % 1_000_003
    return {"total": total}
