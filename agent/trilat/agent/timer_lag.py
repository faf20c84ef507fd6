"""How late a repeated timer of an event loop comes, and how long the loop was blocked for that.

What all such timers have in common, whatever loop they run on: `trilat.agent.lag` has the one of
asyncio's loops, the load generator one on gevent's hub. A thread beside the loop
(`trilat.agent.observer`) looks at them while the loop is blocked.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING

from .clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from .stacks import Stack

__all__ = ["COUNTED_NS", "NEVER_NS", "SLACK_NS", "TimerLag"]

SLACK_NS = 2_000_000
"""Up to here, lateness is rounding: selectors and most loops' timers count whole milliseconds."""

NEVER_NS = 2**62
"""The due instant of a timer that does not run."""

COUNTED_NS = 250_000_000
"""For so long after a late tick nobody takes what is counted already for a block that lasts."""

_KEPT_LATE = 32


class TimerLag(ABC):
    """The blocked time of one event loop, counted at the ticks of a timer on it.

    Everything but `rest` and reading is for the loop's own thread.

    Args:
        clock: only its monotonic side is read.
        late_ns: from here on, lateness is looked at closely: it may be a pause of the whole
            process, and it is a block that is worth a name.

    Attributes:
        due_ns: monotonic instant at which the next tick is due; `NEVER_NS` while none is.
        blocked_ns: sum of the lateness of all past ticks that were more than `SLACK_NS` late.
        paused_ns: how much of their lateness was no block: the process or the loop did not run.
        ticks: number of past ticks.
        late_ns: see above.
        late: of the latest ticks that were later than that: (value of ``ticks`` while it was due,
            monotonic instant at which it was due, lateness in nanoseconds), pauses left out.
        cleared_ns: what passed before this instant is settled: a pause in it is left out already,
            or was told as blocked time.
        thread_id: of the loop's thread, as `sys._current_frames` has it; 0 without a loop.
        errors: exceptions inside.
        on_wake: called when ticks have become more frequent; None: nothing.
        stood_still: tells for how many nanoseconds between two monotonic instants neither the
            process nor the loop ran (see `trilat.agent.observer`); None: never.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK, *, late_ns: int) -> None:
        self.due_ns = NEVER_NS
        self.blocked_ns = 0
        self.paused_ns = 0
        self.ticks = 0
        self.late_ns = late_ns
        self.late: deque[tuple[int, int, int]] = deque(maxlen=_KEPT_LATE)
        self.cleared_ns = 0
        self.thread_id = 0
        self.errors = 0
        self.on_wake: Callable[[], None] | None = None
        self.stood_still: Callable[[int, int], int] | None = None
        self._now = clock.monotonic_ns

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether the loop that is followed runs at this moment. From any thread."""

    @abstractmethod
    def take_stack(
        self, frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames
    ) -> Stack | None:
        """What the loop's thread is doing. From any thread.

        Args:
            frames: the innermost frame of every thread.

        Returns:
            The stack; None where the timer is being counted, or there is no such thread.
        """

    def rest(self) -> None:
        """Count nothing until the next tick: the loop does not run. From any thread."""
        self.due_ns = NEVER_NS

    def blocked_at(self, now_ns: int) -> int:
        """Blocked time up to an instant, pauses left out.

        Args:
            now_ns: the monotonic clock's present.

        Returns:
            Nanoseconds; never less than an earlier call returned.
        """
        overdue = now_ns - self.due_ns
        if overdue > self.late_ns:
            overdue = self._overdue_without_pauses(now_ns)
        if overdue <= SLACK_NS:
            return self.blocked_ns
        self.cleared_ns = now_ns  # what is told is not taken back
        return self.blocked_ns + overdue

    def _count(self) -> int:
        """Add up how late this tick is, in nanoseconds."""
        now = self._now()
        overdue = now - self.due_ns
        if overdue > self.late_ns:
            overdue = self._overdue_without_pauses(now)
        overdue = max(overdue, 0)  # a timer may come up to a millisecond early
        if overdue > SLACK_NS:
            self.blocked_ns += overdue
        if overdue > self.late_ns:
            self.late.append((self.ticks, self.due_ns, overdue))
        # From here on, who looks from another thread must not take the time that is counted
        # already for a block that lasts.
        self.due_ns = now + COUNTED_NS
        self.ticks += 1
        return overdue

    def _overdue_without_pauses(self, now: int) -> int:
        """How overdue the tick is, after its due instant was moved past what was no block."""
        if self.stood_still is not None:
            since = max(self.due_ns, self.cleared_ns)
            try:
                paused = min(max(self.stood_still(since, now), 0), now - since)
            except Exception:  # noqa: BLE001 - instrumentation fails open
                self.errors += 1
                paused = 0
            self.cleared_ns = now
            self.due_ns += paused
            self.paused_ns += paused
        return now - self.due_ns

    COUNTING = frozenset({_count.__code__, _overdue_without_pauses.__code__})
    """Code that runs after a block: who finds the loop's thread in it has come too late."""
