"""A timer on gevent's hub, and how late it comes: how long this process makes its users wait.

All users of a process share one thread, and gevent's hub gives it to one greenlet after another.
While one keeps it, the timer is overdue, and so are the answers of all other users: they lie in the
kernel, or in a queue, and their time counts as response time. A healthy hub is late, too, by 0.1 ms
or so: the least lateness seen is taken off.

The timer is the event loop's own and needs no greenlet, so a tick costs a few microseconds. Among
what is ready at once it comes last: with 60 users in one saturated process its lag was 156 ms on
average where the kernel's stamps told that answers lay for 151 ms (113 ms and 142 ms with the
priority that timers have otherwise). It ticks rarely at rest.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from time import thread_time_ns
from types import FrameType
from typing import Any

import gevent

from trilat.agent import native
from trilat.agent.clock import SYSTEM_CLOCK, Clock
from trilat.agent.stacks import Stack, take_stack
from trilat.agent.stillness import ThreadTurns
from trilat.agent.timer_lag import TimerLag
from trilat.correlator.samples.lag_histogram import LagHistogram

__all__ = ["ALERT_NS", "CALM_NS", "LATE_NS", "Heartbeat"]

CALM_NS = 100_000_000
"""Period of the timer at rest, where each tick wakes the process: that costs up to 120 µs of CPU
time in a virtual machine."""

ALERT_NS = 20_000_000
"""Period while the hub has something to do, and for two seconds after a tick that was late by more
than 5 ms. Most of these ticks come when the process is awake anyway, and cost 5 µs."""

LATE_NS = 15_000_000
"""A tick that is later than this tells of a block that is worth a name."""

_HEALTHY_NS = 1_000_000  # the least lateness is taken off up to here: the first tick may be late
_ALERT_FROM_NS = 5_000_000
_ALERT_TICKS = 100
_BUSY_SHARE = 0.1  # of the time; a hub that computes for so long is busy
_KEPT_STARVED = 32


class Heartbeat(TimerLag):
    """The lag of the hub that runs here, until stopped.

    Args:
        calm_ns: period of the timer at rest, nanoseconds.
        alert_ns: period while the hub is busy, and for a while after it was late.
        clock: only its monotonic side is read.

    Attributes:
        lag_ns: how late the latest tick was, less the least that any tick was.
        lag: how late ticks were since the last `take_lag`.
        waited_ns: how long the hub's thread was ready to run, and waited for a processor, as of the
            last tick; None where the kernel does not tell.
    """

    def __init__(
        self,
        calm_ns: int = CALM_NS,
        alert_ns: int = ALERT_NS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(clock, late_ns=LATE_NS)
        hub: Any = gevent.get_hub()
        self.lag_ns = 0
        self.lag = LagHistogram()
        self.thread_id = native.thread_id()
        self._hub_code = frozenset({type(hub).run.__code__})
        self._least_ns = _HEALTHY_NS
        self._alert_ticks = 0
        self._calm_ns, self._alert_ns = calm_ns, alert_ns
        lowest = getattr(hub.loop, "MINPRI", None)
        self._calm, self._alert = (
            hub.loop.timer(period_ns / 1e9, period_ns / 1e9, ref=False, priority=lowest)
            for period_ns in (calm_ns, alert_ns)
        )
        self._period_ns = calm_ns
        self._stopped = False
        self._starved: deque[int] = deque(maxlen=_KEPT_STARVED)
        self._turns = ThreadTurns(threading.get_native_id())
        self.waited_ns = self._read_waited()
        self._ran_ns = thread_time_ns()
        self._arm()

    @property
    def running(self) -> bool:
        """The hub runs until its process ends."""
        return not self._stopped

    def take_stack(
        self, frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames
    ) -> Stack | None:
        """The stack of the greenlet that has the hub's thread. From any thread."""
        return take_stack(self.thread_id, 0, self.COUNTING, frames, around=self._hub_code)

    def take_lag(self) -> LagHistogram:
        """How late ticks were since the last call."""
        taken, self.lag = self.lag, LagHistogram()
        return taken

    def starved_at(self, due_ns: int) -> bool:
        """Whether a recent tick was late for want of a processor; from any thread.

        Args:
            due_ns: when it was due.
        """
        return due_ns in tuple(self._starved)

    def stop(self) -> None:
        """End the timer."""
        self._stopped = True
        self.rest()
        self._calm.stop()
        self._alert.stop()
        self._turns.close()

    def _arm(self) -> None:
        alert = self._alert_ticks > 0
        timer, other = (self._alert, self._calm) if alert else (self._calm, self._alert)
        if self._period_ns != (period := self._alert_ns if alert else self._calm_ns):
            other.stop()
        self._period_ns = period
        # With the loop's own idea of now, which is as old as its last round, it would be due early.
        timer.again(self._tick, update=True)
        self.due_ns = self._now() + period

    def _tick(self) -> None:
        try:
            before_ns, self.waited_ns = self.waited_ns, self._read_waited()
            ran_ns, self._ran_ns = thread_time_ns() - self._ran_ns, thread_time_ns()
            late = self._count()
            waited_ns = (self.waited_ns or 0) - (before_ns or 0)
            # Without the wait it would have come in time, and it had little to do.
            if late > self.late_ns > max(late - waited_ns, ran_ns):
                self._starved.append(self.late[-1][1])
            self._least_ns = min(self._least_ns, late)
            self.lag_ns = lag = max(late - self._least_ns, 0)
            self.lag.add(lag, self._period_ns)
            busy = ran_ns > _BUSY_SHARE * self._period_ns
            left = _ALERT_TICKS if lag > _ALERT_FROM_NS else self._alert_ticks - 1
            self._alert_ticks = max(left, int(busy))
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self.errors += 1
        self._arm()

    COUNTING = TimerLag.COUNTING | {_tick.__code__}

    def _read_waited(self) -> int | None:
        turns = self._turns.read()
        return None if turns is None else turns.waited_ns
