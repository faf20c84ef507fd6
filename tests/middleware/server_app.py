"""The service that the tests put behind each server: FastAPI with what real services have."""

from __future__ import annotations

import os
from pathlib import Path

from fastapi import APIRouter, FastAPI, WebSocket
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from trilat.middleware import MetricsApp, TrilatMiddleware

router = APIRouter()


@router.get("/items/{item}")
async def read_item(item: str) -> dict[str, str]:
    """Say which item it is."""
    return {"item": item}


@router.post("/items/{item}")
async def write_item(item: str) -> dict[str, str]:
    """Say which item it is."""
    return {"item": item}


tenant = FastAPI()
tenant.include_router(router)

app = FastAPI()
app.add_middleware(TrilatMiddleware)
app.include_router(router, prefix="/v1")
app.mount("/tenants/{tenant}", tenant)
app.mount("/static", StaticFiles(directory=Path(__file__).parent))
app.router.routes.append(Route("/metrics", MetricsApp()))


@app.get("/ready", response_class=PlainTextResponse)
async def ready() -> Response:
    """Answer with the process that does."""
    return PlainTextResponse(str(os.getpid()))


@app.get("/fail")
async def fail() -> None:
    """Raise what nobody handles."""
    raise LookupError("on purpose")


@app.websocket("/echo/{room}")
async def echo(websocket: WebSocket, room: str) -> None:
    """Send each message back until one says to stop or to fail."""
    await websocket.accept()
    async for text in websocket.iter_text():
        if text == "fail":
            raise LookupError("on purpose")
        await websocket.send_text(text)
        if text == "stop":
            break
    await websocket.close()
