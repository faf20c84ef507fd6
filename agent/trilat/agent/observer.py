"""A thread beside the event loop: it sees what the loop cannot see while it is blocked.

It sleeps until the loop's timer would be overdue for long, so while nothing is wrong it wakes
rarely (beside an asyncio loop ten times a second, and four times at rest). When the timer is
overdue, it takes the stack of the loop's thread, again and again while that lasts; and from its own
sleep it knows whether the whole process stood still (see `trilat.agent.stillness`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

from . import native
from .blocks import BlockEvent
from .clock import SYSTEM_CLOCK, Clock
from .looks import Looks
from .stacks import Stack
from .stillness import Stillness, ThreadTurns
from .timer_lag import TimerLag

__all__ = ["Observer", "Rhythm"]

_SECOND_NS = 1_000_000_000
_LONGEST_WAIT_NS = 500_000_000
_SHORTEST_WAIT_NS = 1_000_000
_JOIN_S = 2.0

_Given = TypeVar("_Given")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When the thread looks; all in nanoseconds.

    Attributes:
        look_ns: a timer that is overdue for so long is looked at.
        often_ns: from one look at a block to the next.
        seldom_ns: the same, once there were ``many`` looks.
        many: see above.
    """

    look_ns: int
    often_ns: int = 20_000_000
    seldom_ns: int = 100_000_000
    many: int = 25


@dataclass(frozen=True, slots=True)
class _Look:
    """What was seen when the loop's timer was overdue."""

    tick: int
    due_ns: int
    since_ns: int
    now_ns: int
    overslept_ns: int
    stack: Stack | None


class Observer:
    """Watches one loop's timer; sees blocks of more than its ``late_ns``.

    Its thread is the operating system's, also in a process that gevent has patched. After a fork
    the child needs a new one.

    Args:
        lag: gets this object's `Stillness` as its ``stood_still``.
        on_block: called in the thread at the end of a block.
        blame: names what blocked, from what was seen, the instant from which on the loop was
            blocked, and for how long. Unless told otherwise, it is the line seen most often.
        every_second: called in the thread about once a second.
        clock: the monotonic side is to be the one of ``lag``.
        stillness: what it tells the pauses to.
        frames: the innermost frame of every thread.
        rhythm: when to look; unless told otherwise, a bit before a block is worth a name.
        on_error: called in the thread while one of the ``errors`` is handled.

    Attributes:
        errors: exceptions in here, and in what it calls.
        stillness: see above.
        rest_ns: the thread sleeps for so long at least while nothing is overdue, in nanoseconds.
        looks_left: how often it may still look; whoever limits that sets it again and again.
    """

    def __init__(  # noqa: PLR0913 - one way in for each clock and callback
        self,
        lag: TimerLag,
        *,
        on_block: Callable[[BlockEvent], None] | None = None,
        blame: Callable[[Looks, int, int], Stack] | None = None,
        every_second: Callable[[], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        stillness: Stillness | None = None,
        frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames,
        rhythm: Rhythm | None = None,
        on_error: Callable[[], None] | None = None,
    ) -> None:
        self.errors = 0
        self.rest_ns = 0
        self.looks_left = sys.maxsize
        self.stillness = stillness or Stillness(
            turns=lambda: None if self._turns is None else self._turns.read()
        )
        self._lag = lag
        self._late_ns = lag.late_ns
        # A thread wakes late itself, and a block that is worth a name is not to go unnamed.
        self._rhythm = rhythm or Rhythm(lag.late_ns * 3 // 4)
        self._on_block = on_block
        self._blame = blame or _most_seen
        self._every_second = every_second
        self._on_error = on_error
        self._clock = clock
        self._frames = frames
        self._blocks: dict[int, Looks] = {}  # by the tick that is overdue
        self._next_second_ns = clock.monotonic_ns() + _SECOND_NS
        self._planned_ns = 0
        self._turns: ThreadTurns | None = None
        self._stopping = False
        self._wakes: native.Lock | None = None
        self._ended: native.Lock | None = None
        lag.stood_still = self.stillness.between
        lag.on_wake = self._nudge

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._wakes is None:
            self._stopping = False
            self._wakes, self._ended = native.lock(), native.lock()
            self._wakes.acquire()
            self._ended.acquire()
            wakes, ended = self._wakes, self._ended
            native.start_thread(lambda: self._run(wakes, ended))

    def stop(self) -> None:
        """End the thread, and wait for that at most two seconds."""
        if self._wakes is not None and self._ended is not None:
            self._stopping = True
            self._wake_up()
            self._ended.acquire(timeout=_JOIN_S)
            self._wakes = self._ended = None

    def beat(self) -> int:
        """Look once.

        Returns:
            Nanoseconds to sleep until the next look.
        """
        now = self._clock.monotonic_ns()
        # First, and without a system call: a call that held the interpreter ends as this thread
        # gets it, and the loop goes on as soon as this thread lets go of it.
        look = self._guarded(self._look, now)
        self._guarded(self.stillness.awake, now)
        if look is not None:
            self._guarded(self._judge, look)
        if self._lag.late:
            self._guarded(self._tell, now)
        self._guarded(self._forget, self._lag.ticks)
        if now >= self._next_second_ns:
            self._guarded(self._call_every_second, now)
        now = self._clock.monotonic_ns()
        wait = self._wait_ns(now)
        self._planned_ns = now + wait
        self.stillness.asleep(now, wait)
        return wait

    def _run(self, wakes: native.Lock, ended: native.Lock) -> None:
        try:
            self._turns = ThreadTurns(threading.get_native_id())
            while not self._stopping:
                wakes.acquire(timeout=self.beat() / 1e9)
            if self._lag.late:  # a block may be what it was stopped after
                self._guarded(self._tell, self._clock.monotonic_ns())
        finally:
            turns, self._turns = self._turns, None
            if turns is not None:
                turns.close()
            ended.release()

    def _guarded(self, step: Callable[[_Given], _Result], given: _Given) -> _Result | None:
        try:
            return step(given)
        except Exception:  # noqa: BLE001 - a failing callback must not end the thread
            self.errors += 1
            if self._on_error is not None:
                with suppress(Exception):
                    self._on_error()
            return None

    def _nudge(self) -> None:
        """The loop's timer became fast: end a sleep that was planned for a slow one."""
        if self._planned_ns - self._clock.monotonic_ns() > self._late_ns:
            self._wake_up()

    def _wake_up(self) -> None:
        # Somebody else may have given the lock back since, and the thread not have taken it yet.
        if self._wakes is not None:
            with suppress(RuntimeError):
                self._wakes.release()

    def _look(self, now: int) -> _Look | None:
        """The stack of the loop's thread, if the loop's timer is overdue for long."""
        lag = self._lag
        tick, due_ns = lag.ticks, lag.due_ns
        if now - due_ns <= self._rhythm.look_ns or self.looks_left <= 0:
            return None
        self.looks_left -= 1
        since = max(due_ns, lag.cleared_ns)
        overslept = max(now - self._planned_ns, 0) if self._planned_ns else 0
        stack = lag.take_stack(self._frames)
        return _Look(tick, due_ns, since, now, overslept, stack) if lag.ticks == tick else None

    def _judge(self, look: _Look) -> None:
        """Keep what was seen, unless nothing was blocked: the process or the loop did not run."""
        stillness = self.stillness
        if not stillness.held:
            paused = stillness.between(look.since_ns, look.now_ns)
            if look.now_ns - look.due_ns - paused <= self._rhythm.look_ns:
                return
        lag = self._lag
        if not lag.running:
            if lag.ticks == look.tick:
                lag.rest()
            return
        block = self._blocks.setdefault(look.tick, Looks())
        block.number += 1
        block.overslept_ns = max(block.overslept_ns, look.overslept_ns)
        if look.stack is None:
            return
        if look.stack.debugged:
            stillness.hold(look.since_ns)
        else:
            stillness.release(look.now_ns)
            block.add(look.stack)

    def _tell(self, now: int) -> None:
        """Report the blocks that have ended since the last look."""
        late = self._lag.late
        while late:
            tick, due_ns, took_ns = late.popleft()
            stack = self._blame(self._blocks.get(tick, Looks()), due_ns, took_ns)
            wall_ns = self._clock.wall_ns() - (now - due_ns)
            event = BlockEvent(
                wall_ns,
                took_ns,
                stack.place.file,
                stack.place.line,
                stack.place.function,
                stack.lines,
            )
            if self._on_block is not None:
                self._on_block(event)

    def _forget(self, ticks: int) -> None:
        """Drop what was seen in blocks that have ended, and that were told of or were none."""
        if self._blocks and ticks not in self._blocks:
            self._blocks.clear()
            self.stillness.release(self._clock.monotonic_ns())

    def _call_every_second(self, now: int) -> None:
        self._next_second_ns += _SECOND_NS
        if self._next_second_ns <= now:  # after a pause, the missed ones are not made up for
            self._next_second_ns = now + _SECOND_NS
        if self._every_second is not None:
            self._every_second()

    def _wait_ns(self, now: int) -> int:
        rhythm = self._rhythm
        for block in self._blocks.values():
            return rhythm.often_ns if block.number < rhythm.many else rhythm.seldom_ns
        wait = self._lag.due_ns + rhythm.look_ns - now
        # Overdue, and no block: the loop has not run yet after a pause.
        least = max(_SHORTEST_WAIT_NS, self.rest_ns)
        if wait > 0:
            return min(max(wait, least), _LONGEST_WAIT_NS)
        return rhythm.often_ns if self.looks_left > 0 else rhythm.seldom_ns


def _most_seen(looks: Looks, _since_ns: int, _took_ns: int) -> Stack:
    return looks.most_seen()
