"""How long an event loop was blocked: a timer of its own, and how late that timer comes.

A timer is due every few milliseconds. While a callback holds the loop, the timer is overdue; for
how long it was overdue up to an instant is how long the loop was blocked up to then. That is a
lower bound: a block is counted from the moment at which the timer was due, so each is told short
by at most one period.

The timer is the loop's own (``call_later``), so asyncio and uvloop serve alike. It is fast while
requests come, and slow at rest, where a wake-up costs more than it tells.
"""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import Callable, Mapping
from contextvars import Context
from types import FrameType

from . import native
from .clock import SYSTEM_CLOCK, Clock
from .stacks import Stack, take_stack
from .timer_lag import NEVER_NS, SLACK_NS, TimerLag

__all__ = [
    "FAST_NS",
    "LATE_NS",
    "NEVER_NS",
    "SLACK_NS",
    "SLOW_NS",
    "WAITING_NS",
    "LoopLag",
]

FAST_NS = 5_000_000
"""Period of the timer while requests come."""

SLOW_NS = 250_000_000
"""Period of the timer at rest: there a wake-up, and the sleep that it ends, costs a processor far
more than the tick itself (0.2 ms of CPU time in a virtual machine), and only what an application
does by itself, without a request, can block the loop."""

WAITING_NS = 25_000_000
"""Period of the timer while requests are in flight, and none has come for two seconds: they wait
for events, or stream to a client that listens for hours."""

LATE_NS = 100_000_000
"""From here on, unless told otherwise, a block is worth a name."""

_REST_AFTER_TICKS = 20
_WAITING_AFTER_TICKS = 400


class LoopLag(TimerLag):
    """The blocked time of one event loop, for the code that runs on it.

    ::

        lag = LoopLag()
        if lag.slow:          # at each request; starts the timer too
            lag.wake()
        lag.idle_ticks = 0
        overdue = now - lag.due_ns
        blocked = lag.blocked_at(now) if overdue > SLACK_NS else lag.blocked_ns

    The difference of two such figures is how long the loop was blocked between them.

    It follows the first loop that calls `wake`, and the next one once that has ended; a second loop
    that runs beside it, in another thread, is not followed. Everything but `rest` and reading is
    for the loop's own thread. Nothing here raises into the loop, and nothing keeps it alive.

    Args:
        clock: only its monotonic side is read.
        on_lag: called at each tick with its lateness in nanoseconds, 0 or more, pauses left out.
        in_flight: the number of requests that are not answered yet; while there is one, the timer
            does not rest.
        late_ns: from here on, lateness is looked at closely: it may be a pause of the whole
            process, and it is a block that is worth a name.

    Attributes:
        idle_ticks: ticks since the last request; the middleware sets it to 0.
        slow: whether `wake` is to be called at the next request.
        base_depth: number of Python frames below a callback of the loop; 0 before the first tick.
        on_wake: called when the timer has become fast; None: nothing.
    """

    def __init__(
        self,
        clock: Clock = SYSTEM_CLOCK,
        on_lag: Callable[[int], None] | None = None,
        *,
        in_flight: Callable[[], int] | None = None,
        late_ns: int = LATE_NS,
    ) -> None:
        super().__init__(clock, late_ns=late_ns)
        self.idle_ticks = 0
        self.slow = True
        self.base_depth = 0
        self._on_lag = on_lag
        self._in_flight = in_flight
        # Weak, and no timer handle is kept, for that holds its loop as well: a timer that is no
        # longer wanted fires once and finds its generation gone.
        self._loop: weakref.ref[asyncio.AbstractEventLoop] | None = None
        self._generation = 0
        self._stopped = False
        # Without it each timer would keep the context, and what is in it, of the request that
        # happened to wake the first one.
        self._context = Context()

    @property
    def running(self) -> bool:
        """Whether the loop that is followed runs at this moment."""
        loop = None if self._loop is None else self._loop()
        return loop is not None and loop.is_running()

    def wake(self) -> None:
        """Make the next tick due within `FAST_NS`, on the loop that runs here.

        The first call starts the timer. Without a running loop, or after `stop`, it does nothing.
        """
        if self._stopped:
            return
        try:
            loop = asyncio.get_running_loop()
            if self._loop is None or self._loop() is not loop:
                if self.running:
                    return
                self._follow(loop)
            self.idle_ticks = 0
            self.slow = False
            # One that is overdue stays so: it is about to be counted.
            if self.due_ns - self._now() > FAST_NS:
                self._generation += 1
                self._arm(loop, FAST_NS)
                if self.on_wake is not None:
                    self.on_wake()
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self.errors += 1

    def take_stack(
        self, frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames
    ) -> Stack | None:
        """What the loop's thread is doing, from the loop's callback inwards. From any thread."""
        return take_stack(self.thread_id, self.base_depth, self.COUNTING, frames)

    def rest(self) -> None:
        """Count nothing until the next `wake` or tick: the loop does not run. From any thread.

        Should the loop start at this very moment, its next tick puts right what is set here.
        """
        super().rest()
        self.slow = True

    def stop(self) -> None:
        """End for good; the pending timer does nothing when it fires."""
        self._stopped = True
        self._generation += 1
        self._loop = None
        self.due_ns = NEVER_NS
        self.slow = False

    def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self.due_ns = NEVER_NS
        self.base_depth = 0
        self.thread_id = native.thread_id()

    def _arm(self, loop: asyncio.AbstractEventLoop, period_ns: int) -> None:
        self.due_ns = self._now() + period_ns
        loop.call_later(period_ns / 1e9, self._tick, loop, self._generation, context=self._context)

    def _tick(self, loop: asyncio.AbstractEventLoop, generation: int) -> None:
        if generation != self._generation:
            return
        period_ns = FAST_NS
        try:
            overdue = self._count()
            period_ns = self._next_period()
            if self._on_lag is not None:
                self._on_lag(overdue)
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self.errors += 1
        try:
            self._arm(loop, period_ns)
        except Exception:  # noqa: BLE001 - the loop may have been closed by a callback before
            self.errors += 1
            self.rest()

    def _count(self) -> int:
        overdue = super()._count()
        if not self.base_depth:
            self.base_depth = _depth() - 2  # without this method and the tick's
        return overdue

    def _next_period(self) -> int:
        """Nanoseconds until the next tick."""
        self.idle_ticks += 1
        self.slow = False
        if self.idle_ticks <= _REST_AFTER_TICKS:
            return FAST_NS
        if not (self._in_flight and self._in_flight()):
            self.slow = True
            return SLOW_NS
        self.slow = self.idle_ticks > _WAITING_AFTER_TICKS
        return WAITING_NS if self.slow else FAST_NS

    def _overdue_without_pauses(self, now: int) -> int:
        if self._loop is not None and self._loop() is not _running_loop():
            self.wake()  # the loop that was followed has ended while its timer was due
            return now - self.due_ns
        return super()._overdue_without_pauses(now)

    COUNTING = TimerLag.COUNTING | {_count.__code__, _tick.__code__}


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _depth() -> int:
    """Number of Python frames on the caller's stack, the caller's included."""
    frame: FrameType | None = sys._getframe(1)
    depth = 0
    while frame is not None:
        depth += 1
        frame = frame.f_back
    return depth
