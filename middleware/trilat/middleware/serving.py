"""What the applications of this package answer with: short texts, and work done beside the loop."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .asgi import Receive, Send

__all__ = ["TEXT", "Beside", "answer", "live", "start"]

TEXT = "text/plain; charset=utf-8"
"""The content type of messages for people."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Beside:
    """Runs functions on threads of their own, so that requests go on meanwhile.

    The threads are not those of the event loop's default pool, which the application may have
    filled. Under trio, functions run where they are called: what is asked of them is short.

    Args:
        threads: how many run at a time.
        name: how the threads' names begin.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._executor: ThreadPoolExecutor | None = None
        self._pid = 0

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """What the function returns; what it raises is raised here."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # trio
            return function(*args, **kwargs)
        return await loop.run_in_executor(self._pool(), lambda: function(*args, **kwargs))

    def _pool(self) -> ThreadPoolExecutor:
        if self._executor is None or self._pid != os.getpid():  # a fork leaves threads behind
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
            self._pid = os.getpid()
        return self._executor


async def start(send: Send, status: int, headers: Mapping[str, str]) -> None:
    """Begin an answer whose length the headers tell."""
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def answer(
    send: Send, status: int, headers: Mapping[str, str], body: bytes, *, with_body: bool = True
) -> None:
    """Send a whole answer, with its length; without the body where HEAD asked."""
    await start(send, status, {**headers, "content-length": str(len(body))})
    await send({"type": "http.response.body", "body": body if with_body else b""})


async def live(receive: Receive, send: Send) -> None:
    """Take part in the lifespan, with nothing to do at its start and end."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
