"""`TrilatMiddleware` called in process, with time and evidence held in the test's hands."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware

from trilat.agent.clock import Clock
from trilat.agent.errors import UsageError
from trilat.agent.records import UNKNOWN, StampFlag
from trilat.agent.stamp import EMPTY, find
from trilat.middleware import STATION, TrilatMiddleware

if TYPE_CHECKING:
    from tests.middleware.conftest import Exchange, Observed

    from trilat.middleware.asgi import ASGIApp, Message, Receive, Scope, Send

SPAN = 0x00F067AA0BA902B7
TRACEPARENT = (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
MARKED = [(b"host", b"x"), TRACEPARENT, (b"trilat-run", b"0123456789ab")]
START: Message = {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]}
BODY: Message = {"type": "http.response.body", "body": b"ok"}


def sending(*messages: Message) -> ASGIApp:
    """An application that sends these very objects."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return app


def ticking(*instants: int) -> Callable[[], int]:
    """A clock that shows these instants, one a look."""
    return iter(instants).__next__


def test_stamp_says_exactly_what_the_clocks_showed(observed: Observed) -> None:
    """The wall clock is read at the call, the monotonic one there and at the answer's start."""
    looks = ticking(1_000, 20_514_000, 20_515_000, 20_516_000)
    clock = Clock(monotonic_ns=looks, wall_ns=lambda: 1_700_000_000_000)
    exchange = observed.exchange(MARKED).run(observed.wrap(sending(START, BODY), clock=clock))
    marks = exchange.marks()
    assert marks.span == SPAN
    assert marks.called_wall_ns == 1_700_000_000_000
    assert marks.app_ns == 20_513_000
    assert marks.blocked_ns == 0
    assert marks.flags == StampFlag.STREAMED  # its start names no size
    assert observed.health.errors == 0


def test_header_leaves_out_what_is_unknown(observed: Observed) -> None:
    """Where the server hides its socket, the browser's entry for the queue is missing."""
    clock = Clock(monotonic_ns=ticking(0, 1_500_000, 1_500_000, 1_500_000), wall_ns=ticking(5))
    exchange = observed.exchange(MARKED).run(observed.wrap(sending(START, BODY), clock=clock))
    assert exchange.stamps[0].startswith(b'app;dur=1.500, trilat;desc="1.')
    assert exchange.marks().queue_ms == UNKNOWN


def test_unmarked_request_is_answered_as_the_application_does(observed: Observed) -> None:
    """The scope and ``receive`` are the server's own, and the messages the application's."""
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend((scope, receive))
        await sending(START, BODY)(scope, receive, send)

    exchange = observed.exchange([(b"host", b"x"), TRACEPARENT])
    receive = exchange.receive
    asyncio.run(_call(observed.wrap(app), exchange.scope, receive, exchange.send))
    assert [id(part) for part in seen] == [id(exchange.scope), id(receive)]
    assert [id(message) for message in exchange.sent] == [id(START), id(BODY)]
    assert observed.station.begun == observed.station.ended == 1


async def _call(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


@pytest.mark.parametrize("kind", ["websocket", "lifespan", "something.new"])
def test_other_scopes_get_no_stamp(observed: Observed, kind: str) -> None:
    """Only answers to HTTP requests are stamped, whatever the others carry."""
    exchange = observed.exchange(MARKED, type=kind).run(observed.wrap(sending(START)))
    assert exchange.sent[0] is START
    assert observed.health.errors == 0


def test_messages_of_the_application_are_not_changed(observed: Observed) -> None:
    """A start that is sent for every request stays as it is, down to its list of headers."""
    app = observed.wrap(sending(START, BODY))
    for _ in range(3):
        exchange = observed.exchange(MARKED).run(app)
        assert len(exchange.stamps) == 1
        assert exchange.sent[0]["headers"][0] == (b"a", b"b")
        assert exchange.sent[1] is BODY
    assert START == {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]}


def test_own_server_timing_stays(observed: Observed) -> None:
    """The application's own line is kept, before the new one."""
    own = (b"server-timing", b"db;dur=3")
    start = {**START, "headers": [own]}
    exchange = observed.exchange(MARKED).run(observed.wrap(sending(start, BODY)))
    first, second = exchange.sent[0]["headers"]
    assert first == own
    assert second[1].startswith(b"app;dur=")


def test_other_keys_of_the_start_stay(observed: Observed) -> None:
    """Extensions such as trailers ride on the start message."""
    start = {**START, "trailers": True}
    exchange = observed.exchange(MARKED).run(observed.wrap(sending(start, BODY)))
    assert exchange.sent[0]["trailers"] is True


def test_start_without_headers_is_stamped(observed: Observed) -> None:
    """The specification lets an application leave them out."""
    start = {"type": "http.response.start", "status": 204}
    exchange = observed.exchange(MARKED).run(observed.wrap(sending(start)))
    assert len(exchange.sent[0]["headers"]) == 1


def test_only_the_final_start_is_stamped(observed: Observed) -> None:
    """An informational answer goes on untouched, and the time runs on to the final one."""
    hint = {"type": "http.response.start", "status": 103, "headers": [(b"link", b"</a>")]}
    clock = Clock(monotonic_ns=ticking(0, 7, 8, 9), wall_ns=ticking(5))
    exchange = observed.exchange(MARKED).run(observed.wrap(sending(hint, START, BODY), clock=clock))
    assert exchange.sent[0] is hint
    assert exchange.marks().app_ns == 7


def test_all_headers_are_there_for_the_application(observed: Observed) -> None:
    """Headers that can be read only once are not used up."""
    seen: list[tuple[bytes, bytes]] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        seen.extend(scope["headers"])
        await send(START)

    exchange = observed.exchange(iter(MARKED)).run(observed.wrap(app))
    assert seen == MARKED
    assert exchange.stamps


def test_two_layers_make_one_stamp(observed: Observed) -> None:
    """Added twice, the outer middleware observes the request, and the inner one hands it on."""
    inner = observed.wrap(sending(START, BODY), clock=Clock(ticking(), ticking()))
    exchange = observed.exchange(MARKED).run(observed.wrap(inner))
    assert len(exchange.stamps) == 1
    assert observed.station.begun == 1


def test_layers_with_a_copied_scope_between_them_count_once(observed: Observed) -> None:
    """What stands between the two may hand a copy of the scope inwards."""
    inner = observed.wrap(sending(START, BODY))

    async def copying(scope: Scope, receive: Receive, send: Send) -> None:
        await inner(dict(scope), receive, send)

    exchange = observed.exchange(MARKED).run(observed.wrap(copying))
    assert len(exchange.stamps) == 1
    assert observed.station.begun == 1


def test_requests_one_after_the_other_in_one_context_all_count(observed: Observed) -> None:
    """A caller may use one list of headers, and one scope, for all of them."""
    app = observed.wrap(sending(START, BODY))
    exchanges = [observed.exchange(MARKED) for _ in range(3)]

    async def run_all() -> None:
        for exchange in exchanges:
            await app(exchanges[0].scope, exchange.receive, exchange.send)

    asyncio.run(run_all())
    assert [len(exchange.stamps) for exchange in exchanges] == [1, 1, 1]
    assert (observed.station.begun, observed.station.ended) == (3, 3)


def test_requests_in_flight_do_not_share_state(observed: Observed) -> None:
    """Many interleaved requests through one instance each get their own span and time."""
    now = itertools.count(step=1_000)
    clock = Clock(monotonic_ns=now.__next__, wall_ns=lambda: 5)

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        for _ in range(scope["turns"]):
            await asyncio.sleep(0)
        await send(START)

    middleware = observed.wrap(app, clock=clock)
    exchanges = [
        observed.exchange(
            [(b"traceparent", b"00-%032x-%016x-01" % (span, span)), (b"trilat-run", b"r")],
            turns=100 - span,
        )
        for span in range(1, 100)
    ]

    async def run_all() -> None:
        calls = (_call(middleware, e.scope, e.receive, e.send) for e in exchanges)
        await asyncio.gather(*calls)

    asyncio.run(run_all())
    app_ns = [exchange.marks(span).app_ns for span, exchange in enumerate(exchanges, 1)]
    assert app_ns == sorted(app_ns, reverse=True)  # the later begun, the sooner answered


def test_error_of_the_application_is_its_own(observed: Observed) -> None:
    """What the application raises comes out as the same object, and is not counted."""
    raised = LookupError("on purpose")

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise raised

    with pytest.raises(LookupError) as caught:
        observed.exchange(MARKED).run(observed.wrap(app))
    assert caught.value is raised
    assert observed.health.errors == 0


def test_error_of_the_server_reaches_the_application(observed: Observed) -> None:
    """A send that fails, as after a disconnect, fails for the application as without us."""
    caught: list[OSError] = []

    async def broken_send(_message: Message) -> None:
        raise OSError("the client is gone")

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in (START, BODY):
            try:
                await send(message)
            except OSError as error:
                caught.append(error)

    exchange = observed.exchange(MARKED)
    middleware = observed.wrap(app)
    asyncio.run(_call(middleware, exchange.scope, exchange.receive, broken_send))
    assert len(caught) == 2
    assert observed.health.errors == 0


def test_send_can_be_a_plain_function(observed: Observed) -> None:
    """Any awaitable that the server's send returns is handed on."""
    returned: list[Any] = []

    class Done:
        def __await__(self) -> Iterator[Any]:
            return iter(())

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)

    def send(message: Message) -> Any:
        returned.append(message)
        return Done()

    exchange = observed.exchange(MARKED)
    asyncio.run(_call(observed.wrap(app), exchange.scope, exchange.receive, send))
    assert len(returned) == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"trilat-run", b"traceparent", b"host", b""]) | st.binary(max_size=20),
            st.sampled_from([b"0123456789ab", TRACEPARENT[1], b"r;token=t"])
            | st.binary(max_size=300),
        ),
        max_size=8,
    ),
    st.sampled_from([None, "t"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # counters only grow
def test_hostile_headers_never_reach_into_the_answer(
    observed: Observed, headers: list[tuple[bytes, bytes]], token: str | None
) -> None:
    """Whatever a client sends, nothing fails, and the answer has one well-formed stamp or none."""
    clock = Clock(monotonic_ns=lambda: 5, wall_ns=lambda: 5)
    app = observed.wrap(sending(START, BODY), clock=clock, token=token)
    exchange = observed.exchange(headers).run(app)
    assert observed.health.errors == 0
    assert len(exchange.stamps) <= 1
    if exchange.stamps:
        assert exchange.stamps[0].startswith(b"app;dur=0.000, ")
        assert exchange.marks(exchange_span(exchange)).app_ns == 0
    else:
        assert exchange.sent[0] is START


def exchange_span(exchange: Exchange) -> int:
    """The span that the stamp echoes: the given one, or 0."""
    return SPAN if find(exchange.stamps[0], SPAN) != EMPTY else 0


@pytest.mark.parametrize("token", ["", " ", "a b", "é", "a\n", "x" * 201, "\x7f"])
def test_token_that_cannot_be_sent_is_refused_at_once(observed: Observed, token: str) -> None:
    """A token that is empty or no header could carry is a mistake to tell of at the start."""
    with pytest.raises(UsageError, match="token must be 1 to 200 visible ASCII characters"):
        observed.wrap(sending(START), token=token)


def test_last_one_added_is_listed_first() -> None:
    """The check that the documentation names tells whether the middleware is the outermost."""
    app = Starlette()
    app.add_middleware(GZipMiddleware)
    app.add_middleware(TrilatMiddleware, token="t")
    outermost: Any = app.user_middleware[0].cls
    assert outermost is TrilatMiddleware


def test_station_of_the_process_is_the_default() -> None:
    """Without a station of its own, an application is observed by the process'."""
    assert TrilatMiddleware(sending(START))._ledger.station is STATION
