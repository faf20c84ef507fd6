"""The wait for a thread of anyio's pool, on the real thing."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import uvloop
from anyio import to_thread
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from trilat.agent.clock import Clock
from trilat.middleware.asgi import Message, Scope
from trilat.middleware.health import Health
from trilat.middleware.threads import PoolFigures, ThreadPoolWatch, current_exchange

if TYPE_CHECKING:
    from starlette.requests import Request

Run = Callable[[Any], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a coroutine on a loop of each kind."""
    new_loop = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        yield runner.run


class Waiting:
    """Stands where a middleware's exchange stands."""

    thread_wait_ns = 0

    def covers(self, _scope: Scope) -> bool:
        """Nothing is called inside of it."""
        return False


class HandWatch(ThreadPoolWatch):
    """A watch with a clock that a test moves, and with what it told."""

    def __init__(self, on_wait: Callable[[int], None] | None = None) -> None:
        self.now = 1000
        self.waits: list[int] = []
        self.errors = Health()
        clock = Clock(lambda: self.now, lambda: 0)
        super().__init__(on_wait or self.waits.append, clock=clock, health=self.errors)

    async def until(self, busy: int, waiting: int) -> None:
        """Wait until the pool looks like that."""
        while (found := self.figures()) is None or (found.busy, found.waiting) != (busy, waiting):
            await asyncio.sleep(0.001)


def test_a_wait_is_told_and_a_free_thread_is_not(run: Run) -> None:
    """One call has the only thread, the second waits for it."""

    async def main() -> None:
        watch, leave = HandWatch(), threading.Event()
        to_thread.current_default_thread_limiter().total_tokens = 1
        assert watch.attach()
        exchange = Waiting()
        current_exchange.set(exchange)
        first = asyncio.create_task(to_thread.run_sync(leave.wait))
        await watch.until(1, 0)
        second = asyncio.create_task(to_thread.run_sync(int))
        await watch.until(1, 1)
        assert watch.figures() == PoolFigures(busy=1, limit=1, waiting=1)
        watch.now += 500
        leave.set()
        await asyncio.gather(first, second)
        assert watch.waits == [500]
        assert exchange.thread_wait_ns == 500
        assert watch.figures() == PoolFigures(busy=0, limit=1, waiting=0)
        assert watch.errors.errors == 0

    run(main())


def test_synchronous_endpoints_of_starlette_are_seen(run: Run) -> None:
    """Each request's wait is in its own scope."""
    leave = threading.Event()

    def endpoint(request: Request) -> PlainTextResponse:
        leave.wait()
        return PlainTextResponse(request.url.path)

    app = Starlette(routes=[Route("/{name}", endpoint)])

    async def request(number: int) -> int:
        scope: Scope = {
            "type": "http",
            "method": "GET",
            "path": f"/{number}",
            "query_string": b"",
            "headers": [],
            "server": ("test", 80),
        }
        exchange = Waiting()
        current_exchange.set(exchange)
        statuses: list[int] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            statuses.append(message.get("status", 0))

        await app(scope, receive, send)
        assert statuses == [200, 0]
        return exchange.thread_wait_ns

    async def main() -> None:
        watch = HandWatch()
        to_thread.current_default_thread_limiter().total_tokens = 2
        assert watch.attach()
        requests = [asyncio.create_task(request(number)) for number in range(5)]
        await watch.until(2, 3)
        watch.now += 700
        leave.set()
        waits = await asyncio.gather(*requests)
        assert sorted(waits) == [0, 0, 700, 700, 700]
        assert watch.waits == [700] * 3

    run(main())


def test_the_limiter_stays_the_object_that_it_was(run: Run) -> None:
    """Calls in it, those that wait and its limit survive coming and going."""

    async def main() -> None:
        limiter = to_thread.current_default_thread_limiter()
        limiter.total_tokens = 1
        plain = type(limiter)
        await limiter.acquire_on_behalf_of("first")
        second = asyncio.create_task(limiter.acquire_on_behalf_of("second"))
        await asyncio.sleep(0)
        watch = HandWatch()
        assert watch.attach()
        assert watch.attach()
        assert to_thread.current_default_thread_limiter() is limiter
        await watch.until(1, 1)
        limiter.total_tokens = 2
        await second
        watch.detach()
        watch.detach()
        assert type(limiter) is plain
        assert (limiter.total_tokens, limiter.borrowed_tokens) == (2, 2)
        assert watch.figures() is None
        assert watch.waits == []  # it had begun before

    run(main())


def test_other_limiters_are_left_alone(run: Run) -> None:
    """What an application limits by itself is no thread of the pool."""

    async def main() -> None:
        watch, own = HandWatch(), anyio.CapacityLimiter(1)
        assert watch.attach()
        await own.acquire_on_behalf_of("first")
        second = asyncio.create_task(own.acquire_on_behalf_of("second"))
        await asyncio.sleep(0)
        own.release_on_behalf_of("first")
        await second
        assert watch.waits == []

    run(main())


def test_a_cancelled_wait_was_a_wait(run: Run) -> None:
    """It leaves the queue, and is told of."""

    async def main() -> None:
        watch = HandWatch()
        limiter = to_thread.current_default_thread_limiter()
        limiter.total_tokens = 1
        assert watch.attach()
        await limiter.acquire_on_behalf_of("first")
        second = asyncio.create_task(to_thread.run_sync(int))
        await watch.until(1, 1)
        watch.now += 300
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert watch.waits == [300]
        await watch.until(1, 0)

    run(main())


def test_an_unlimited_pool_has_no_limit(run: Run) -> None:
    """It is told as 0, since infinity is no number of threads."""

    async def main() -> None:
        watch = HandWatch()
        to_thread.current_default_thread_limiter().total_tokens = float("inf")
        assert watch.attach()
        assert watch.figures() == PoolFigures(busy=0, limit=0, waiting=0)

    run(main())


def test_the_latest_of_two_watches_is_told() -> None:
    """The first one's end does not take the second one's limiter away."""

    async def main() -> None:
        first, second = HandWatch(), HandWatch()
        assert first.attach()
        assert second.attach()
        first.detach()
        limiter = to_thread.current_default_thread_limiter()
        limiter.total_tokens = 1
        await limiter.acquire_on_behalf_of("a")
        waits = asyncio.create_task(limiter.acquire_on_behalf_of("b"))
        await second.until(1, 1)
        second.now += 5
        limiter.release_on_behalf_of("a")
        await waits
        assert (first.waits, second.waits) == ([], [5])

    asyncio.run(main())


def test_the_next_loop_has_a_limiter_of_its_own() -> None:
    """The watch goes along when it is told to."""
    watch = HandWatch()

    async def main() -> Any:
        assert watch.attach()
        return to_thread.current_default_thread_limiter()

    first, second = asyncio.run(main()), asyncio.run(main())
    assert first is not second
    assert not hasattr(type(first), "watches")
    assert hasattr(type(second), "watches")


def test_without_anyio_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service need not have it, and nothing imports it."""
    monkeypatch.delitem(sys.modules, "anyio.to_thread")
    watch = HandWatch()
    assert not watch.attach()
    assert not watch.attached
    assert watch.figures() is None
    assert "anyio.to_thread" not in sys.modules
    assert watch.errors.errors == 0


def test_another_kind_of_limiter_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that cannot be changed is counted as an error; its limiter works as it did."""
    watch, odd = HandWatch(), object()
    monkeypatch.setattr(to_thread, "current_default_thread_limiter", lambda: odd)
    assert not watch.attach()
    assert watch.errors.errors == 1
    assert type(odd) is object


def test_an_error_of_who_is_told_stays_inside() -> None:
    """The call gets its thread all the same."""

    def failing(_: int) -> None:
        raise ValueError

    async def main() -> None:
        watch = HandWatch(failing)
        limiter = to_thread.current_default_thread_limiter()
        limiter.total_tokens = 1
        assert watch.attach()
        await limiter.acquire_on_behalf_of("first")
        second = asyncio.create_task(to_thread.run_sync(lambda: 7))
        await watch.until(1, 1)
        limiter.release_on_behalf_of("first")
        assert await second == 7
        assert watch.errors.errors == 1

    asyncio.run(main())
