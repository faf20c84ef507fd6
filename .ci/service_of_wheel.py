"""A service with the middleware from the installed wheel answers one marked request."""

from __future__ import annotations

import asyncio
import importlib.util
import urllib.request
from threading import Thread

import uvicorn
from fastapi import FastAPI

from trilat.agent.records import UNKNOWN
from trilat.agent.stamp import EMPTY, decode, find
from trilat.middleware import TrilatMiddleware

SPAN = 0x0123456789ABCDEF
HEAVY = ("locust", "gevent", "duckdb", "numpy", "rich")

for name in HEAVY:
    assert importlib.util.find_spec(name) is None, f"a service must not install {name}"

app = FastAPI()
app.add_middleware(TrilatMiddleware)


@app.get("/")
async def root() -> dict[str, str]:
    """Wait a little, so that there is something to tell."""
    await asyncio.sleep(0.02)
    return {"hello": "world"}


server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
thread = Thread(target=server.run)
thread.start()
while not server.started:
    assert thread.is_alive(), "uvicorn did not start"
port = server.servers[0].sockets[0].getsockname()[1]
headers = {"Trilat-Run": "0" * 12, "traceparent": f"00-{'1' * 32}-{SPAN:016x}-01"}
request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers=headers)
try:
    with urllib.request.urlopen(request, timeout=10) as response:
        timing = response.headers["Server-Timing"]
finally:
    server.should_exit = True
    thread.join()
packed = find(timing.encode(), SPAN)
assert packed != EMPTY, f"no stamp in {timing!r}"
marks = decode(packed)
assert marks.app_ns >= 20_000_000, marks
assert marks.queue_ms != UNKNOWN, marks
print(f"wheel: a FastAPI service with it answers: {timing.partition(', trilat')[0]}")
