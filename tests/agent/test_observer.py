"""`Observer`, with time held in the hand: what it does at each look, and when it looks next."""

from __future__ import annotations

import bdb
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

import pytest

from trilat.agent import native
from trilat.agent.blocks import UNSEEN, BlockEvent
from trilat.agent.clock import Clock
from trilat.agent.lag import FAST_NS, LATE_NS, NEVER_NS, SLOW_NS, LoopLag
from trilat.agent.observer import Observer
from trilat.agent.stillness import Stillness

MS = 1_000_000
S = 1000 * MS


class HandLag(LoopLag):
    """A timer that only a test moves."""

    runs = True

    @property
    def running(self) -> bool:
        """As the test says."""
        return self.runs


class Watched:
    """An observer of a timer, a clock to move, and what was told."""

    def __init__(self, every_second: Callable[[], None] | None = None) -> None:
        self.now = 10**12
        self.told: list[BlockEvent] = []
        self.lag = HandLag()
        self.lag.due_ns = self.now + FAST_NS
        self.lag.thread_id = 1
        self.frame: FrameType | None = None
        self.cpu_ns = 0
        self.observer = Observer(
            self.lag,
            on_block=self.told.append,
            every_second=every_second,
            clock=Clock(lambda: self.now, lambda: self.now + 5),
            stillness=Stillness(lambda: self.cpu_ns),
            frames=lambda: {} if self.frame is None else {1: self.frame},
        )

    def come(self, late_ns: int) -> None:
        """The tick has come, and was that late without the pauses in it."""
        lag = self.lag
        if late_ns > lag.late_ns:
            lag.late.append((lag.ticks, lag.due_ns, late_ns))
        lag.due_ns = self.now + FAST_NS
        lag.ticks += 1

    def look(self, after_ns: int = 0) -> int:
        """Let time pass in which the process computes, and look."""
        self.now += after_ns
        self.cpu_ns += after_ns
        return self.observer.beat()


def here() -> FrameType:
    """A frame in this file, of a function of this name."""
    return sys._getframe()


def there() -> FrameType:
    """Another one."""
    return sys._getframe()


def test_a_block_is_told_once_when_it_has_ended() -> None:
    """With its length, its start and the line that was found most often."""
    watched = Watched()
    due = watched.lag.due_ns
    watched.look()
    for frame in (there(), here(), here()):
        watched.frame = frame
        watched.look(80 * MS)
    assert watched.told == []
    watched.come(300 * MS)
    watched.look(20 * MS)
    watched.look(20 * MS)
    (event,) = watched.told
    assert (event.took_ns, event.wall_ns, event.function) == (300 * MS, due + 5, "here")
    assert event.file.endswith("test_observer.py")
    assert event.stack[-1].endswith(" here")


def test_a_block_that_nobody_saw_is_told_without_a_line() -> None:
    """The thread did not get to run, but the time is not lost."""
    watched = Watched()
    watched.come(LATE_NS + 1)
    watched.look(LATE_NS)
    assert [(event.place, event.took_ns) for event in watched.told] == [(UNSEEN, LATE_NS + 1)]


def test_short_lateness_is_not_told() -> None:
    """What is seen of it is dropped."""
    watched = Watched()
    watched.frame = here()
    watched.look(90 * MS)
    watched.come(95 * MS)
    watched.look(20 * MS)
    watched.come(LATE_NS + 1)
    watched.look()
    assert [event.place for event in watched.told] == [UNSEEN]


def test_a_loop_that_does_not_run_is_not_blocked() -> None:
    """Between two runs, or after its end, nothing is late."""
    watched = Watched()
    watched.frame = here()
    watched.lag.runs = False
    watched.look(10 * S)
    assert watched.lag.due_ns == NEVER_NS
    assert watched.lag.slow


def test_a_process_that_stood_still_is_not_looked_at_for_a_block() -> None:
    """It sleeps, wakes far too late without CPU time in between, and blames nobody."""
    watched = Watched()
    watched.look()
    watched.frame = here()
    watched.now += 10 * S
    watched.observer.beat()
    assert watched.observer.stillness.between(watched.lag.due_ns, watched.now) == 10 * S - FAST_NS
    watched.come(FAST_NS)
    watched.look()
    assert watched.told == []


def test_a_debugger_holds_the_time_until_the_loop_goes_on() -> None:
    """However long somebody thinks about a variable."""
    watched = Watched()
    found: dict[str, Callable[[], FrameType]] = {}
    source = "import sys\ndef stopped(): return sys._getframe()"
    exec(compile(source, bdb.__file__, "exec"), found)
    watched.frame = found["stopped"]()
    due = watched.lag.due_ns
    for _ in range(5):
        watched.look(10 * S)
    assert watched.observer.stillness.between(due, watched.now) == watched.now - due
    watched.come(0)
    watched.look()
    assert not watched.observer.stillness.held
    assert watched.told == []


def test_it_sleeps_until_the_timer_would_be_overdue_for_long() -> None:
    """Rarely at rest, at once and often in a block, seldom in a very long one."""
    watched = Watched()
    assert watched.look() == FAST_NS + LATE_NS * 3 // 4
    watched.lag.due_ns = watched.now + SLOW_NS
    assert watched.look() == SLOW_NS + LATE_NS * 3 // 4
    watched.lag.due_ns = NEVER_NS
    assert watched.look() == 500 * MS
    watched.lag.due_ns = watched.now
    watched.frame = here()
    waits = [watched.look(80 * MS) for _ in range(40)]
    assert waits[0] == 20 * MS
    assert waits[-1] == 100 * MS


def test_a_request_at_rest_ends_a_long_sleep_and_no_other() -> None:
    """The first request after a rest may be the one that blocks."""

    class Lock:
        released = 0

        def release(self) -> None:
            self.released += 1

    watched, lock = Watched(), Lock()
    watched.observer._wakes = lock  # type: ignore[assignment]
    assert watched.lag.on_wake is not None
    watched.look()
    watched.lag.on_wake()
    assert lock.released == 0
    watched.lag.due_ns = watched.now + SLOW_NS
    watched.look()
    watched.lag.on_wake()
    assert lock.released == 1


def test_it_calls_back_once_a_second_and_makes_up_for_nothing() -> None:
    """After a pause of a minute one call is enough."""
    calls: list[int] = []
    watched = Watched(lambda: calls.append(watched.now))
    for _ in range(10):
        watched.lag.due_ns = watched.now + FAST_NS
        watched.look(S // 4)
    assert len(calls) == 2
    watched.look(60 * S)
    watched.look(S // 4)
    assert len(calls) == 3


def test_errors_of_what_it_calls_are_counted() -> None:
    """They do not end the watch, and the rest of the look goes on."""

    def failing() -> None:
        raise ValueError

    watched = Watched(failing)
    watched.observer._frames = lambda: 1 / 0  # type: ignore[assignment,return-value]
    watched.observer._on_block = lambda _: failing()
    watched.look(2 * S)
    watched.come(S)
    watched.look(2 * S)
    assert watched.observer.errors == 5
    assert watched.look() > 0


def test_errors_are_told_while_they_are_handled() -> None:
    """So that whoever counts them can log what went wrong; his own failure is not one more."""
    told: list[BaseException | None] = []

    def tell() -> None:
        told.append(sys.exc_info()[1])
        raise RuntimeError

    watched = Watched(lambda: None)
    watched.observer._on_block = lambda _: 1 // 0  # type: ignore[assignment]
    watched.observer._on_error = tell
    watched.look(2 * S)
    watched.come(S)
    watched.look(2 * S)
    assert [type(error) for error in told] == [ZeroDivisionError]
    assert watched.observer.errors == 1


def test_the_thread_starts_once_and_ends() -> None:
    """It looks by itself, and stops when it is told to."""
    seen: list[int] = []
    observer = Observer(LoopLag(), every_second=lambda: seen.append(native.thread_id()))
    observer._next_second_ns = 0
    observer.start()
    observer.start()
    deadline = time.monotonic() + 60
    while not seen and time.monotonic() < deadline:
        time.sleep(0.01)
    (thread, *_) = seen
    assert thread in sys._current_frames()
    observer.stop()
    observer.stop()
    while thread in sys._current_frames() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert thread not in sys._current_frames()
    assert set(seen) == {thread}


def test_a_block_that_has_just_ended_is_told_at_the_stop() -> None:
    """A service may end because somebody saw that it was blocked."""
    told: list[BlockEvent] = []
    looked = threading.Event()
    lag = HandLag()
    observer = Observer(lag, on_block=told.append, every_second=looked.set)
    observer._next_second_ns = 0
    lag.due_ns = time.monotonic_ns() + 60 * S
    observer.start()
    assert looked.wait(60)
    lag.late.append((lag.ticks, lag.due_ns, lag.late_ns + 1))
    observer.stop()
    assert [event.took_ns for event in told] == [lag.late_ns + 1]


_UNDER_GEVENT = """
from gevent import monkey
monkey.patch_all()
import time
from trilat.agent.lag import LoopLag
from trilat.agent.observer import Observer
calls = []
observer = Observer(LoopLag(), every_second=lambda: calls.append(1))
observer._next_second_ns = 0
observer.start()
end = time.monotonic() + 30
while not calls and time.monotonic() < end:
    pass  # the hub never runs
print(len(calls), observer.errors)
observer.stop()
"""


def test_it_watches_while_the_hub_of_gevent_is_blocked() -> None:
    """In a patched process its thread is still the operating system's."""
    pytest.importorskip("gevent")
    done = subprocess.run(
        [sys.executable, "-c", _UNDER_GEVENT],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("1 0\n", "")
