"""`LoopLag`, with time held in the hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.agent.clock import Clock
from trilat.agent.lag import FAST_NS, LATE_NS, NEVER_NS, SLACK_NS, SLOW_NS, WAITING_NS, LoopLag

MS = 1_000_000


class HandLoop:
    """A running loop with a clock that only a test moves; its timers fire when told to."""

    def __init__(self, now: int = 10**12) -> None:
        self.now = now
        self.timers: list[tuple[int, Callable[..., Any], tuple[Any, ...]]] = []
        self.runs = True
        self.closed = False

    @property
    def clock(self) -> Clock:
        """Both clocks."""
        return Clock(lambda: self.now, lambda: self.now)

    def is_running(self) -> bool:
        """As the test says."""
        return self.runs

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, **_: Any) -> None:
        """Keep a timer."""
        if self.closed:
            raise RuntimeError("Event loop is closed")
        self.timers.append((self.now + round(delay * 1e9), callback, args))

    def fire(self) -> int:
        """Run the timers that are due, and tell how many there were."""
        due = [timer for timer in self.timers if timer[0] <= self.now]
        self.timers = [timer for timer in self.timers if timer[0] > self.now]
        for _, callback, args in due:
            callback(*args)
        return len(due)

    def pass_to(self, lag: LoopLag, late_ns: int = 0) -> None:
        """Move to the due instant of the tick, and past it, and let it come."""
        self.now = lag.due_ns + late_ns
        self.fire()


@contextmanager
def running(loop: Any) -> Iterator[None]:
    """Make it the running loop."""
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(before)


@pytest.fixture
def loop() -> Iterator[HandLoop]:
    """A loop that runs."""
    made = HandLoop()
    with running(made):
        yield made


def test_a_late_tick_is_blocked_time_once(loop: HandLoop) -> None:
    """What a tick was late adds up, and the next tick is due a period after it came."""
    lags: list[int] = []
    lag = LoopLag(loop.clock, lags.append)
    lag.wake()
    loop.pass_to(lag, 50 * MS)
    assert lag.blocked_ns == 50 * MS
    assert lag.due_ns == loop.now + FAST_NS
    loop.pass_to(lag)
    assert lag.blocked_ns == 50 * MS
    assert lags == [50 * MS, 0]


def test_blocked_time_grows_while_the_tick_is_overdue(loop: HandLoop) -> None:
    """A request that ends within a block sees the part of it that has passed."""
    lag = LoopLag(loop.clock)
    lag.wake()
    due = lag.due_ns
    assert lag.blocked_at(due + SLACK_NS) == 0
    assert lag.blocked_at(due + 30 * MS) == 30 * MS
    loop.pass_to(lag, 40 * MS)
    assert lag.blocked_at(loop.now) == 40 * MS


@pytest.mark.parametrize("late_ns", [-MS, 0, SLACK_NS])
def test_rounding_is_not_blocked_time(loop: HandLoop, late_ns: int) -> None:
    """Timers are whole milliseconds, early or late."""
    lags: list[int] = []
    lag = LoopLag(loop.clock, lags.append)
    lag.wake()
    loop.now = lag.due_ns + late_ns
    (_, callback, args), *_ = loop.timers
    callback(*args)
    assert lag.blocked_ns == 0
    assert lags == [max(late_ns, 0)]


def test_it_rests_after_twenty_ticks_without_a_request(loop: HandLoop) -> None:
    """A loop with nothing to do is woken rarely, and a request makes the next tick soon."""
    lag = LoopLag(loop.clock)
    lag.wake()
    speeds = []
    for _ in range(21):
        loop.pass_to(lag)
        speeds.append(lag.slow)
    assert speeds == [False] * 20 + [True]
    assert lag.due_ns == loop.now + SLOW_NS
    loop.now += 3 * MS
    lag.wake()
    assert lag.due_ns == loop.now + FAST_NS
    ticks = lag.ticks
    loop.pass_to(lag)
    assert lag.ticks == ticks + 1
    loop.now = max(when for when, *_ in loop.timers)  # the slow timer that was given up
    assert loop.fire() == 2
    assert lag.ticks == ticks + 2


def test_it_stays_fast_while_a_request_is_in_flight(loop: HandLoop) -> None:
    """A request that takes long is not to be measured with a slow timer."""
    lag = LoopLag(loop.clock, in_flight=lambda: 1)
    lag.wake()
    for _ in range(400):
        loop.pass_to(lag)
        assert lag.due_ns == loop.now + FAST_NS
    assert not lag.slow


def test_requests_that_only_wait_slow_it_down_a_little(loop: HandLoop) -> None:
    """An open stream of events for hours is no reason to wake 200 times a second."""
    lag = LoopLag(loop.clock, in_flight=lambda: 1)
    lag.wake()
    for _ in range(401):
        loop.pass_to(lag)
    assert lag.slow
    assert lag.due_ns == loop.now + WAITING_NS
    lag.wake()
    assert lag.due_ns == loop.now + FAST_NS


def test_waking_does_not_hide_a_block(loop: HandLoop) -> None:
    """A tick that is overdue when a request comes stays overdue."""
    lag = LoopLag(loop.clock)
    lag.wake()
    for _ in range(21):
        loop.pass_to(lag)
    loop.now = lag.due_ns + 70 * MS
    lag.wake()
    assert lag.blocked_at(loop.now) == 70 * MS
    loop.fire()
    assert lag.blocked_ns == 70 * MS


def test_a_pause_is_left_out_and_not_twice(loop: HandLoop) -> None:
    """Time in which the process stood still is no block, whoever asks first and how often."""
    lag = LoopLag(loop.clock)
    lag.wake()
    due = lag.due_ns
    pause = (due + 10 * MS, due + 910 * MS)
    lag.stood_still = lambda since, until: max(0, min(until, pause[1]) - max(since, pause[0]))
    assert lag.blocked_at(due + 920 * MS) == 20 * MS
    assert lag.blocked_at(due + 1100 * MS) == 200 * MS
    loop.now = due + 1130 * MS
    loop.fire()
    assert lag.blocked_ns == 230 * MS
    assert lag.paused_ns == 900 * MS
    assert lag.late.pop() == (0, due + 900 * MS, 230 * MS)


@pytest.mark.parametrize("told", [-(10**12), 10**15])
def test_a_wild_claim_of_a_pause_cannot_turn_time_back(loop: HandLoop, told: int) -> None:
    """No more is left out than had passed."""
    lag = LoopLag(loop.clock)
    lag.stood_still = lambda *_: told
    lag.wake()
    loop.pass_to(lag, 500 * MS)
    assert lag.blocked_ns + lag.paused_ns == 500 * MS


def test_errors_of_others_are_counted_and_the_timer_goes_on(loop: HandLoop) -> None:
    """Nothing is raised into the loop."""

    def failing(*_: int) -> Any:
        raise ValueError

    lag = LoopLag(loop.clock, failing)
    lag.stood_still = failing
    lag.on_wake = failing
    lag.wake()
    loop.pass_to(lag, 2 * LATE_NS)
    loop.pass_to(lag)
    assert lag.errors == 4
    assert lag.ticks == 2
    assert lag.blocked_ns == 2 * LATE_NS


def test_without_a_running_loop_nothing_happens() -> None:
    """Applications are called from threads and under other frameworks too."""
    lag = LoopLag()
    with running(None):
        lag.wake()
    assert lag.due_ns == NEVER_NS
    assert not lag.running


def test_stopped_is_stopped(loop: HandLoop) -> None:
    """The pending timer does nothing, and no request starts another."""
    lag = LoopLag(loop.clock)
    lag.wake()
    lag.stop()
    lag.wake()
    loop.now += 10**10
    loop.fire()
    assert (lag.ticks, lag.due_ns, lag.slow, loop.timers) == (0, NEVER_NS, False, [])
    assert lag.blocked_at(loop.now) == 0


def test_a_loop_that_cannot_take_timers_is_let_go(loop: HandLoop) -> None:
    """It was closed by a callback before."""
    lag = LoopLag(loop.clock)
    lag.wake()
    loop.closed = True
    loop.pass_to(lag)
    assert lag.due_ns == NEVER_NS
    assert lag.slow
    assert lag.blocked_at(loop.now + 10**12) == 0


def test_the_next_loop_is_followed_and_the_gap_is_no_block(loop: HandLoop) -> None:
    """A loop that ended with its timer due does not make the next one blocked."""
    lag = LoopLag(loop.clock)
    lag.wake()
    loop.runs = False
    loop.now += 10**10
    following = HandLoop()
    following.now = loop.now
    with running(following):
        assert lag.blocked_at(loop.now) == 0
        assert lag.due_ns == loop.now + FAST_NS
        assert len(following.timers) == 1


def test_a_second_loop_beside_it_is_not_followed(loop: HandLoop) -> None:
    """One process, one loop: a loop in another thread does not take the timer away."""
    lag = LoopLag(loop.clock)
    lag.wake()
    other = HandLoop()
    with running(other):
        lag.wake()
    assert not other.timers


def test_after_a_rest_the_next_tick_puts_all_right(loop: HandLoop) -> None:
    """Whoever saw the loop stopped may have been wrong a moment later."""
    lag = LoopLag(loop.clock)
    lag.wake()
    lag.rest()
    loop.now += 10**10
    assert lag.blocked_at(loop.now) == 0
    loop.fire()
    assert lag.blocked_ns == 0
    assert lag.due_ns < NEVER_NS


_STEPS = st.tuples(
    st.sampled_from(["pass", "tick", "wake"]), st.integers(0, 400 * MS), st.booleans()
)


@given(st.lists(_STEPS, max_size=40))
def test_blocked_time_never_falls_and_never_exceeds_what_passed(
    steps: list[tuple[str, int, bool]],
) -> None:
    """Whatever comes in whatever order, both are counted out of the time that went by."""
    loop = HandLoop()
    start = loop.now
    pauses: list[tuple[int, int]] = []

    def stood_still(since: int, until: int) -> int:
        return sum(max(0, min(until, end) - max(since, begin)) for begin, end in pauses)

    with running(loop):
        lag = LoopLag(loop.clock)
        lag.stood_still = stood_still
        lag.wake()
        last = 0
        for step, passed, paused in steps:
            if paused:
                pauses.append((loop.now, loop.now + passed))
            loop.now += passed
            if step == "tick":
                loop.fire()
            elif step == "wake":
                lag.wake()
            blocked = lag.blocked_at(loop.now)
            assert blocked >= last
            assert blocked + lag.paused_ns <= loop.now - start
            last = blocked
