"""`Observer` under another rhythm: how often it looks, and who names what it saw."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType

from trilat.agent.blocks import UNSEEN, BlockEvent
from trilat.agent.clock import Clock
from trilat.agent.looks import Looks
from trilat.agent.observer import Observer, Rhythm
from trilat.agent.stacks import NO_CALLBACK, Place, Stack
from trilat.agent.stillness import Stillness
from trilat.agent.timer_lag import TimerLag

MS = 1_000_000
LATE_NS = 20 * MS
RHYTHM = Rhythm(look_ns=8 * MS, often_ns=5 * MS, seldom_ns=50 * MS, many=3)


class HandTimer(TimerLag):
    """A timer that only a test moves, and what its loop's thread is found in."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, late_ns=LATE_NS)
        self.stack: Stack | None = None

    @property
    def running(self) -> bool:
        """It always does."""
        return True

    def take_stack(
        self, frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames
    ) -> Stack | None:
        """What the test says."""
        assert frames is sys._current_frames
        return self.stack


class Watched:
    """An observer with a rhythm of its own, a clock to move, and what it told."""

    def __init__(self) -> None:
        self.now = 10**12
        self.told: list[BlockEvent] = []
        self.blamed: list[tuple[Looks, int, int]] = []
        clock = Clock(lambda: self.now, lambda: self.now)
        self.timer = HandTimer(clock)
        self.timer.due_ns = self.now + 10 * MS
        self.observer = Observer(
            self.timer,
            on_block=self.told.append,
            blame=self.blame,
            clock=clock,
            stillness=Stillness(lambda: self.now),
            rhythm=RHYTHM,
        )

    def blame(self, looks: Looks, due_ns: int, took_ns: int) -> Stack:
        """Blame always the same line."""
        self.blamed.append((looks, due_ns, took_ns))
        return Stack(Place("blamed.py", 1, "f"), ())

    def look(self, after_ns: int = 0) -> int:
        """Let time pass and look."""
        self.now += after_ns
        return self.observer.beat()

    def tick(self) -> None:
        """The tick comes now."""
        self.timer._count()
        self.timer.due_ns = self.now + 10 * MS


def stack(line: int, origin: int) -> Stack:
    """A stack at that line."""
    return Stack(Place("file.py", line, "f"), (f"file.py:{line} f",), origin=origin)


def test_it_looks_in_its_own_rhythm_and_rests_between() -> None:
    """At rest at least as long as it was told, in a block often and then seldom."""
    watched = Watched()
    assert watched.look() == 18 * MS
    watched.observer.rest_ns = 100 * MS
    assert watched.look() == 100 * MS
    watched.timer.stack = stack(1, 1)
    waits = [watched.look(20 * MS), *(watched.look(5 * MS) for _ in range(4))]
    assert waits == [5 * MS, 5 * MS, 50 * MS, 50 * MS, 50 * MS]


def test_what_was_seen_is_named_by_whoever_was_told_to() -> None:
    """He gets the stacks by their origin, and how late the thread came itself."""
    watched = Watched()
    watched.look()
    due_ns = watched.timer.due_ns
    for at, (line, origin) in enumerate(((1, 7), (2, 7), (3, 8))):
        watched.timer.stack = stack(line, origin)
        watched.look(30 * MS if at == 0 else 5 * MS)
    watched.timer.stack = Stack(NO_CALLBACK, (), origin=9)
    watched.look(5 * MS)
    watched.timer.stack = None  # found while it counted
    watched.look(5 * MS)
    watched.tick()
    watched.look(5 * MS)
    ((looks, since_ns, took_ns),) = watched.blamed
    assert (since_ns, took_ns) == (due_ns, 40 * MS)
    assert (looks.number, looks.between, dict(looks.origins)) == (5, 1, {7: 2, 8: 1})
    assert looks.overslept_ns == 12 * MS
    assert [(event.file, event.took_ns) for event in watched.told] == [("blamed.py", 40 * MS)]


def test_a_limit_of_looks_holds_until_it_is_set_anew() -> None:
    """What goes unseen is told of all the same."""
    watched = Watched()
    watched.observer.looks_left = 2
    watched.timer.stack = stack(1, 1)
    waits = [watched.look(30 * MS), watched.look(5 * MS)]
    assert watched.observer.looks_left == 0
    watched.tick()
    waits.append(watched.look(20 * MS))
    assert waits == [5 * MS, 5 * MS, 50 * MS]
    watched.look(20 * MS)
    watched.tick()
    watched.look()
    assert [looks.number for looks, _, _ in watched.blamed] == [2, 0]
    assert watched.blamed[1][0].most_seen().place == UNSEEN
    watched.observer.looks_left = 1
    watched.look(20 * MS)
    assert watched.observer.looks_left == 0


def test_a_timer_counts_lateness_without_what_stood_still() -> None:
    """The same for every kind of loop: a rest counts nothing, a pause moves the due instant."""
    watched = Watched()
    timer = watched.timer
    timer.stood_still = lambda _since, _until: 60 * MS
    watched.now = timer.due_ns + 90 * MS
    assert timer.blocked_at(watched.now) == 30 * MS
    watched.tick()
    assert (timer.blocked_ns, timer.paused_ns, timer.ticks) == (30 * MS, 60 * MS, 1)
    timer.rest()
    watched.now += 10**10
    assert timer.blocked_at(watched.now) == 30 * MS
    timer.stood_still = lambda _since, _until: 1 // 0
    timer.due_ns = watched.now - 50 * MS
    watched.tick()
    assert (timer.blocked_ns, timer.errors) == (80 * MS, 1)
