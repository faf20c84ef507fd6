"""The lab's service: an ASGI application that is slow in the way that its environment says.

Served by a real uvicorn. Outside of trilat's middleware stands the lab's own observer, which notes
when the application was called and when its answer began and ended: the truth of ``service.app``
and ``service.body``, on the clocks of this process and with none of trilat's code.

    LAB_SERVICE   the options, as JSON
    LAB_LOGS      the folder for the observer's rows
    LAB_HOST      an identity for this host; 0: its own
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
from pathlib import Path
from typing import Any

import anyio.to_thread

import trilat.middleware.marks
from trilat.agent.clock import Clock
from trilat.middleware import TrilatMiddleware

from .logs import CALLS, LogWriter
from .scenario import ServiceOptions, options_from
from .troubles import burn, pauses_s

__all__ = ["NUMBER_HEADER", "app"]

NUMBER_HEADER = b"lab-request"
_SPAN_AT = slice(36, 52)  # of a traceparent
_REDIRECT = "/redirect/"

options = options_from(ServiceOptions, os.environ["LAB_SERVICE"])
choice = random.Random(1)
garbage: list[Any] = []
background: set[asyncio.Task[None]] = set()


class ShiftedClock:
    """A wall clock that is wrong in a known way."""

    def __init__(self, shift: ServiceOptions) -> None:
        self._offset_ns = round(shift.clock_offset_ms * 1e6)
        self._step_ns = round(shift.clock_step_ms * 1e6)
        self._step_after_ns = round(shift.clock_step_after_s * 1e9)
        self._drift = shift.clock_drift_ppm / 1e6
        self._began = time.perf_counter_ns()
        self.first_request_ns = 0

    def wall_ns(self) -> int:
        """The clock's reading."""
        now = time.perf_counter_ns()
        shift = self._offset_ns + round((now - self._began) * self._drift)
        if self.first_request_ns and now - self.first_request_ns > self._step_after_ns:
            shift += self._step_ns
        return time.time_ns() + shift


clock = ShiftedClock(options)


async def handler(scope: Any, receive: Any, send: Any) -> None:
    """Answer one request, slowly."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    while (await receive()).get("more_body", False):
        pass
    path = scope["path"]
    if path.startswith(_REDIRECT) and (left := int(path.removeprefix(_REDIRECT))) > 0:
        target = f"{_REDIRECT}{left - 1}".encode()
        await answer(send, 302, [b""], [(b"location", target)])
        return
    await work()
    await answer(send, 200, [b"x" * options.chunk_bytes] * options.chunks, [])


async def work() -> None:
    """What the handler does before it answers."""
    if options.delay_ms:
        mean_s = options.delay_ms / 1000
        await asyncio.sleep(choice.expovariate(1 / mean_s) if options.delay_varies else mean_s)
    if options.thread_ms:
        await anyio.to_thread.run_sync(time.sleep, options.thread_ms / 1000)
    if options.cpu_ms:
        burn(options.cpu_ms)


async def answer(
    send: Any, status: int, pieces: list[bytes], headers: list[tuple[bytes, bytes]]
) -> None:
    """Send an answer whose body is in pieces."""
    length = str(sum(map(len, pieces))).encode()
    headers = [(b"content-length", length), (b"content-type", b"text/plain"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for number, piece in enumerate(pieces, 1):
        if number > 1 and options.chunk_gap_ms:
            await asyncio.sleep(options.chunk_gap_ms / 1000)
        more = number < len(pieces)
        await send({"type": "http.response.body", "body": piece, "more_body": more})


async def lifespan(receive: Any, send: Any) -> None:
    """Begin what is wrong with the process, and end it."""
    await receive()
    await anyio.to_thread.run_sync(int)  # the pool belongs to this loop from here on
    anyio.to_thread.current_default_thread_limiter().total_tokens = options.threads
    background.add(asyncio.create_task(block_the_loop()))
    if options.garbage:
        garbage.extend([[]] for _ in range(options.garbage))
        background.add(asyncio.create_task(collect_garbage()))
    await send({"type": "lifespan.startup.complete"})
    await receive()
    for task in background:
        task.cancel()
    observed.log.flush()
    await send({"type": "lifespan.shutdown.complete"})


async def block_the_loop() -> None:
    """Block the event loop again and again, once requests come."""
    while not clock.first_request_ns and options.block == "once":
        await asyncio.sleep(0.01)
    for pause_s in pauses_s(options.block, options.block_every_ms, seed=2):
        await asyncio.sleep(pause_s)
        burn(options.block_ms)


async def collect_garbage() -> None:
    """Make the collector look at all objects, as it does by itself when enough have been made."""
    while True:
        await asyncio.sleep(options.garbage_every_ms / 1000)
        gc.collect()


class Observed:
    """Notes of each numbered request when it was called and when its answer was handed over."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.log = LogWriter(Path(os.environ["LAB_LOGS"]), "calls", CALLS)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Call the application."""
        called_wall_ns, called_ns = time.time_ns(), time.perf_counter_ns()
        number, span = (0, 0) if scope["type"] != "http" else _ids(scope["headers"])
        if not number:
            await self._inner(scope, receive, send)
            return
        clock.first_request_ns = clock.first_request_ns or called_ns
        status, app_ns, end_ns = 0, -1, -1

        async def watch(message: Any) -> None:
            nonlocal status, app_ns, end_ns
            now_ns = time.perf_counter_ns()
            if message["type"] == "http.response.start":
                status, app_ns = message["status"], now_ns - called_ns
            elif not message.get("more_body", False):
                end_ns = now_ns - called_ns
            await send(message)

        try:
            await self._inner(scope, receive, watch)
        finally:
            port = scope["client"][1]
            self.log.append(number, span, port, called_wall_ns, app_ns, end_ns, status)


def _ids(headers: Any) -> tuple[int, int]:
    """The number and the span id that a request carries; 0 where it carries none."""
    number = span = 0
    for name, value in headers:
        if name == NUMBER_HEADER:
            number = int(value)
        elif name == b"traceparent":
            span = int(value[_SPAN_AT], 16)
    return number, span


if identity := int(os.environ["LAB_HOST"]):
    # Two namespaces share a kernel, and so an identity. With another one their clocks have to be
    # lined up, as those of two hosts have.
    trilat.middleware.marks._HOST = identity
observed = Observed(TrilatMiddleware(handler, clock=Clock(time.perf_counter_ns, clock.wall_ns)))
app = observed
