"""`LoopLag` on real event loops."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Callable
from contextvars import ContextVar

import pytest
import uvloop

from trilat.agent.lag import FAST_NS, LoopLag

NewLoop = Callable[[], asyncio.AbstractEventLoop]
MS = 1_000_000


@pytest.fixture(params=["asyncio", "uvloop"])
def new_loop(request: pytest.FixtureRequest) -> NewLoop:
    """What makes a loop of each kind."""
    return asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop


async def ticks(lag: LoopLag, number: int) -> None:
    """Wait for that many ticks."""
    goal = lag.ticks + number
    while lag.ticks < goal:
        await asyncio.sleep(0.001)


def test_a_sleeping_callback_is_blocked_time(new_loop: NewLoop) -> None:
    """It is seen within the callback already, short by at most one fast period."""

    async def main() -> None:
        lag = LoopLag()
        lag.wake()
        await ticks(lag, 2)
        before = lag.blocked_at(time.perf_counter_ns())
        time.sleep(0.1)
        within = lag.blocked_at(time.perf_counter_ns())
        await ticks(lag, 1)
        assert within - before >= 100 * MS - FAST_NS - MS
        assert lag.blocked_ns >= within
        assert lag.base_depth > 0
        assert lag.errors == 0

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def test_it_follows_one_loop_after_the_other_and_keeps_none(new_loop: NewLoop) -> None:
    """A test client makes a loop for every call; none of them stays in memory."""
    lag = LoopLag()
    loops = []
    for _ in range(2):
        loop = new_loop()
        loops.append(weakref.ref(loop))

        async def main() -> None:
            if lag.slow:
                lag.wake()
            now = time.perf_counter_ns()
            lag.blocked_at(now)
            await ticks(lag, 1)
            assert lag.running

        loop.run_until_complete(main())
        loop.close()
        del loop
        lag.rest()
    gc.collect()
    assert [loop() for loop in loops] == [None, None]
    assert not lag.running


def test_the_timer_does_not_keep_the_context_of_a_request(new_loop: NewLoop) -> None:
    """What a request has put into context variables goes away with it."""

    class Session:
        pass

    session: ContextVar[Session] = ContextVar("session")
    lag = LoopLag()

    async def request() -> weakref.ref[Session]:
        kept = Session()
        session.set(kept)
        lag.wake()
        return weakref.ref(kept)

    async def main() -> None:
        gone = await asyncio.create_task(request())
        await ticks(lag, 1)
        gc.collect()
        assert gone() is None

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
