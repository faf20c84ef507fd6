"""A service that keeps samples of its process and gives them away."""

from __future__ import annotations

import asyncio
import os

from fastapi import FastAPI

from trilat.middleware import CollectApp, TrilatMiddleware

app = FastAPI()


@app.get("/item/{item}")
async def item(item: int) -> int:
    """Answer after 20 ms."""
    await asyncio.sleep(0.02)
    return item


app.mount("/trilat", CollectApp(token=os.environ["TRILAT_COLLECT_TOKEN"]))
app.add_middleware(TrilatMiddleware, journal=os.environ["A_JOURNAL"])
