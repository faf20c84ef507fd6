"""The wait for a thread of the pool in which Starlette and FastAPI run synchronous endpoints.

They hand such work to anyio, whose limiter lets 40 calls run at a time; the next ones wait their
turn, which no access log and no trace shows. The limiter of the running event loop is given a class
of the same layout that times exactly those waits: it stays the object that everybody holds, with
the calls that are in it and the limit that the application has set.

What an application runs in a pool of its own, in ``asyncio.to_thread`` or in asgiref's thread is
not seen.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Protocol

from trilat.agent.clock import SYSTEM_CLOCK, Clock

from .asgi import Scope
from .health import HEALTH, Health

__all__ = ["Observed", "PoolFigures", "ThreadPoolWatch", "current_exchange"]


class Observed(Protocol):
    """An exchange that a middleware observes, as those see it who run inside of it.

    Attributes:
        thread_wait_ns: the sum of its waits for a thread, in nanoseconds.
    """

    thread_wait_ns: int

    def covers(self, scope: Scope) -> bool:
        """Whether a call that is made in its context belongs to it."""
        ...


current_exchange: ContextVar[Observed | None] = ContextVar("trilat.current_exchange", default=None)
"""The latest exchange that a middleware began to observe in the running task's context."""


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """The pool at one moment.

    Attributes:
        busy: calls that have a thread.
        limit: how many may have one; 0 where there is no limit.
        waiting: calls that wait for one.
    """

    busy: int
    limit: int
    waiting: int


class ThreadPoolWatch:
    """Watches the default limiter of one event loop at a time.

    Where anyio is not used, or its limiter is not made as expected, nothing is watched and nothing
    breaks.

    Args:
        on_wait: called on the loop with each wait in nanoseconds, when it has ended.
        clock: only its monotonic side is read.
        health: what to count errors into.
    """

    def __init__(
        self,
        on_wait: Callable[[int], None] | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        health: Health = HEALTH,
    ) -> None:
        self._on_wait = on_wait
        self._now = clock.monotonic_ns
        self._health = health
        self._limiter: Any = None

    @property
    def attached(self) -> bool:
        """Whether a limiter is watched."""
        return self._limiter is not None

    def attach(self) -> bool:
        """Watch the limiter of the running event loop, instead of an earlier one.

        Returns:
            Whether one is watched: anyio is imported by now, and runs on asyncio.
        """
        # Not imported here: an application that does not use anyio need not have it.
        to_thread = sys.modules.get("anyio.to_thread")
        if to_thread is None:
            return False
        try:
            limiter = to_thread.current_default_thread_limiter()
            if limiter is self._limiter:
                return True
            self.detach()
            plain: Any = type(limiter)
            if not hasattr(plain, "watches"):  # it has them where another watch was here before
                limiter.__class__ = _watched_class(plain)
            type(limiter).watches[id(limiter)] = self
            self._limiter = limiter
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self._health.failed()
            return False
        return True

    def detach(self) -> None:
        """Watch no longer; calls that wait at this moment are still told of."""
        limiter, self._limiter = self._limiter, None
        if limiter is None:
            return
        try:
            watched = type(limiter)
            if watched.watches.get(id(limiter)) is self:
                del watched.watches[id(limiter)]
                limiter.__class__ = watched.__base__
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self._health.failed()

    def figures(self) -> PoolFigures | None:
        """The pool at this moment, from any thread; None where no limiter is watched."""
        limiter = self._limiter
        if limiter is None:
            return None
        try:
            told = limiter.statistics()
            limit = 0 if math.isinf(told.total_tokens) else int(told.total_tokens)
            return PoolFigures(int(told.borrowed_tokens), limit, int(told.tasks_waiting))
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self._health.failed()
            return None

    async def timed(self, acquiring: Coroutine[Any, Any, None]) -> None:
        """Await what acquires a place in the pool, and tell how long it took."""
        since_ns = self._now()
        try:
            await acquiring
        finally:
            self._ended(self._now() - since_ns)

    def _ended(self, wait_ns: int) -> None:
        try:
            exchange = current_exchange.get()
            if exchange is not None:
                exchange.thread_wait_ns += wait_ns
            if self._on_wait is not None:
                self._on_wait(wait_ns)
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self._health.failed()


@cache
def _watched_class(limiter_class: Any) -> Any:
    """The class of a limiter that is watched, made from the class that it had.

    Without attributes of its own it has the same layout, so that a limiter in use can get it.
    """

    class WatchedLimiter(limiter_class):  # type: ignore[misc]
        __slots__ = ()

        watches: ClassVar[dict[int, ThreadPoolWatch]] = {}

        def acquire_on_behalf_of(self, borrower: object) -> Coroutine[Any, Any, None]:
            acquiring: Coroutine[Any, Any, None] = super().acquire_on_behalf_of(borrower)
            if self.available_tokens > 0:
                return acquiring
            watch = self.watches.get(id(self))
            return acquiring if watch is None else watch.timed(acquiring)

    return WatchedLimiter
