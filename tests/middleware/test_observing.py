"""`TrilatMiddleware` called in process, with time and evidence held in the test's hands."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware

from trilat.agent.clock import Clock
from trilat.agent.errors import UsageError
from trilat.agent.records import UNKNOWN, ServiceMarks
from trilat.agent.stamp import EMPTY, decode, find
from trilat.middleware import HEALTH, Health, TrilatMiddleware, stamping

if TYPE_CHECKING:
    from trilat.middleware.asgi import ASGIApp, Message, Receive, Scope, Send

SPAN = 0x00F067AA0BA902B7
TRACEPARENT = (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
MARKED = [(b"host", b"x"), TRACEPARENT, (b"trilat-run", b"0123456789ab")]
START: Message = {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]}
BODY: Message = {"type": "http.response.body", "body": b"ok"}


class Exchange:
    """One call of an application: what it was called with, and what came out."""

    def __init__(self, headers: Any, **scope: Any) -> None:
        self.scope: dict[str, Any] = {"type": "http", "http_version": "1.1", "headers": headers}
        self.scope.update(scope)
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        """An empty request body."""
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Message) -> None:
        """Keep what the application sends, as a server sees it."""
        self.sent.append(message)

    def run(self, app: ASGIApp) -> Exchange:
        """Call the application to its end."""
        asyncio.run(self._call(app))
        return self

    async def _call(self, app: ASGIApp) -> None:
        await app(self.scope, self.receive, self.send)

    @property
    def stamps(self) -> list[bytes]:
        """The values of the headers that trilat added to the answer's start."""
        return [
            value
            for message in self.sent
            for name, value in message.get("headers") or ()
            if name == b"server-timing" and b"trilat;" in value
        ]

    def marks(self, span: int = SPAN) -> ServiceMarks:
        """The marks of the one stamp that there must be."""
        (value,) = self.stamps
        packed = find(value, span)
        assert packed != EMPTY
        return decode(packed)


def sending(*messages: Message) -> ASGIApp:
    """An application that sends these very objects."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return app


def ticking(*instants: int) -> Callable[[], int]:
    """A clock that shows these instants, one a look."""
    return iter(instants).__next__


@pytest.fixture
def health() -> Health:
    """Counters of this test's own."""
    return Health()


def test_stamp_says_exactly_what_the_clocks_showed(health: Health) -> None:
    """The wall clock is read at the call, the monotonic one there and at the answer's start."""
    clock = Clock(monotonic_ns=ticking(1_000, 20_514_000), wall_ns=ticking(1_700_000_000_000))
    exchange = Exchange(MARKED).run(
        TrilatMiddleware(sending(START, BODY), clock=clock, health=health)
    )
    marks = exchange.marks()
    assert marks.span == SPAN
    assert marks.called_wall_ns == 1_700_000_000_000
    assert marks.app_ns == 20_513_000
    assert marks.blocked_ns == UNKNOWN
    assert marks.flags == 0
    assert health.errors == 0


def test_header_leaves_out_what_is_unknown() -> None:
    """Where the server hides its socket, the browser's entry for the queue is missing."""
    clock = Clock(monotonic_ns=ticking(0, 1_500_000), wall_ns=ticking(5))
    exchange = Exchange(MARKED).run(TrilatMiddleware(sending(START, BODY), clock=clock))
    assert exchange.stamps[0].startswith(b'app;dur=1.500, trilat;desc="1.')
    assert exchange.marks().queue_ms == UNKNOWN


def test_unmarked_request_is_handed_on_as_it_is() -> None:
    """The application gets the very objects that the server handed in, and no clock is read."""
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend((scope, receive, send))
        await send(START)

    exchange = Exchange([(b"host", b"x"), TRACEPARENT])
    receive, send = exchange.receive, exchange.send
    middleware = TrilatMiddleware(app, clock=Clock(ticking(), ticking()))
    asyncio.run(_call(middleware, exchange.scope, receive, send))
    assert [id(part) for part in seen] == [id(exchange.scope), id(receive), id(send)]
    assert exchange.sent[0] is START


async def _call(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


@pytest.mark.parametrize("kind", ["websocket", "lifespan", "something.new"])
def test_other_scopes_are_handed_on_as_they_are(kind: str) -> None:
    """Only HTTP requests are looked at, whatever the others carry."""
    exchange = Exchange(MARKED, type=kind).run(TrilatMiddleware(sending(START)))
    assert exchange.sent[0] is START


def test_messages_of_the_application_are_not_changed() -> None:
    """A start that is sent for every request stays as it is, down to its list of headers."""
    app = TrilatMiddleware(sending(START, BODY))
    for _ in range(3):
        exchange = Exchange(MARKED).run(app)
        assert len(exchange.stamps) == 1
        assert exchange.sent[0]["headers"][0] == (b"a", b"b")
        assert exchange.sent[1] is BODY
    assert START == {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]}


def test_own_server_timing_stays() -> None:
    """The application's own line is kept, before the new one."""
    own = (b"server-timing", b"db;dur=3")
    start = {**START, "headers": [own]}
    exchange = Exchange(MARKED).run(TrilatMiddleware(sending(start, BODY)))
    first, second = exchange.sent[0]["headers"]
    assert first == own
    assert second[1].startswith(b"app;dur=")


def test_other_keys_of_the_start_stay() -> None:
    """Extensions such as trailers ride on the start message."""
    start = {**START, "trailers": True}
    exchange = Exchange(MARKED).run(TrilatMiddleware(sending(start, BODY)))
    assert exchange.sent[0]["trailers"] is True


def test_start_without_headers_is_stamped() -> None:
    """The specification lets an application leave them out."""
    start = {"type": "http.response.start", "status": 204}
    exchange = Exchange(MARKED).run(TrilatMiddleware(sending(start)))
    assert len(exchange.sent[0]["headers"]) == 1


def test_only_the_final_start_is_stamped() -> None:
    """An informational answer goes on untouched, and the time runs on to the final one."""
    hint = {"type": "http.response.start", "status": 103, "headers": [(b"link", b"</a>")]}
    clock = Clock(monotonic_ns=ticking(0, 7), wall_ns=ticking(5))
    exchange = Exchange(MARKED).run(TrilatMiddleware(sending(hint, START, BODY), clock=clock))
    assert exchange.sent[0] is hint
    assert exchange.marks().app_ns == 7


def test_all_headers_are_there_for_the_application() -> None:
    """Headers that can be read only once are not used up."""
    seen: list[tuple[bytes, bytes]] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        seen.extend(scope["headers"])
        await send(START)

    exchange = Exchange(iter(MARKED)).run(TrilatMiddleware(app))
    assert seen == MARKED
    assert exchange.stamps


def test_two_layers_leave_the_outer_stamp() -> None:
    """Added twice, the middleware stamps twice, and the reader takes the outermost stamp."""
    inner = TrilatMiddleware(
        sending(START), clock=Clock(monotonic_ns=ticking(0, 1), wall_ns=ticking(5))
    )
    outer = TrilatMiddleware(inner, clock=Clock(monotonic_ns=ticking(0, 2), wall_ns=ticking(4)))
    exchange = Exchange(MARKED).run(outer)
    assert len(exchange.stamps) == 2
    assert decode(find(b", ".join(exchange.stamps), SPAN)).app_ns == 2


def test_requests_in_flight_do_not_share_state() -> None:
    """Many interleaved requests through one instance each get their own span and time."""
    now = itertools.count(step=1_000)
    clock = Clock(monotonic_ns=now.__next__, wall_ns=lambda: 5)

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        for _ in range(scope["turns"]):
            await asyncio.sleep(0)
        await send(START)

    middleware = TrilatMiddleware(app, clock=clock)
    exchanges = [
        Exchange(
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


def test_error_of_the_application_is_its_own(health: Health) -> None:
    """What the application raises comes out as the same object, and is not counted."""
    raised = LookupError("on purpose")

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise raised

    with pytest.raises(LookupError) as caught:
        Exchange(MARKED).run(TrilatMiddleware(app, health=health))
    assert caught.value is raised
    assert health.errors == 0


def test_error_of_the_server_reaches_the_application(health: Health) -> None:
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

    exchange = Exchange(MARKED)
    middleware = TrilatMiddleware(app, health=health)
    asyncio.run(_call(middleware, exchange.scope, exchange.receive, broken_send))
    assert len(caught) == 2
    assert health.errors == 0


def test_send_can_be_a_plain_function() -> None:
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

    exchange = Exchange(MARKED)
    asyncio.run(_call(TrilatMiddleware(app), exchange.scope, exchange.receive, send))
    assert len(returned) == 1


class Broken(Exception):
    """What the tests of failures raise inside trilat's code."""


def _raise(*_args: object, **_kwargs: object) -> Any:
    raise Broken


def _broken_at(number: int) -> Callable[[], int]:
    looks = itertools.count(1)
    return lambda: _raise() if next(looks) == number else 5


SOUND = Clock(monotonic_ns=lambda: 5, wall_ns=lambda: 5)


@pytest.mark.parametrize(
    "name", ["run_is_allowed", "queued_ms", "span_of", "process_identity", "server_timing"]
)
def test_failure_in_a_step_leaves_the_request_alone(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    health: Health,
    name: str,
) -> None:
    """Each step may fail: the answer is the application's own, one count and one log line more."""
    monkeypatch.setattr(stamping, name, _raise)
    _assert_untouched(TrilatMiddleware(sending(START, BODY), health=health), health, caplog)


@pytest.mark.parametrize(
    "clock",
    [
        Clock(monotonic_ns=lambda: 5, wall_ns=_raise),
        Clock(monotonic_ns=_raise, wall_ns=lambda: 5),
        Clock(monotonic_ns=_broken_at(2), wall_ns=lambda: 5),
        Clock(monotonic_ns=lambda: 5, wall_ns=lambda: 2**63),  # does not fit the stamp
    ],
    ids=["wall", "first look", "second look", "range"],
)
def test_failure_of_a_clock_leaves_the_request_alone(
    caplog: pytest.LogCaptureFixture, health: Health, clock: Clock
) -> None:
    """The same for each look at a clock, and for a number that does not fit."""
    app = TrilatMiddleware(sending(START, BODY), clock=clock, health=health)
    _assert_untouched(app, health, caplog)


def _assert_untouched(
    app: TrilatMiddleware, health: Health, caplog: pytest.LogCaptureFixture
) -> None:
    exchange = Exchange(MARKED).run(app)
    assert exchange.sent[0] is START
    assert exchange.sent[1] is BODY
    assert health.errors == 1
    (record,) = caplog.records
    assert record.name == "trilat.middleware"
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None


def test_failures_are_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, health: Health
) -> None:
    """A step that fails for each request fills the counter, not the log."""
    monkeypatch.setattr(stamping, "queued_ms", _raise)
    app = TrilatMiddleware(sending(START, BODY), health=health)
    for _ in range(5):
        Exchange(MARKED).run(app)
    assert health.errors == 5
    assert len(caplog.records) == 1


def test_failure_of_the_log_leaves_the_request_alone(
    monkeypatch: pytest.MonkeyPatch, health: Health
) -> None:
    """Not even a logging handler that raises gets into the request's way."""
    monkeypatch.setattr(stamping, "queued_ms", _raise)
    monkeypatch.setattr("trilat.middleware.health.logger.warning", _raise)
    exchange = Exchange(MARKED).run(TrilatMiddleware(sending(START), health=health))
    assert exchange.sent[0] is START
    assert health.errors == 1


@pytest.mark.parametrize("headers", [None, 5, [None], [(b"one",)], [(b"one", b"two", b"three")]])
def test_broken_scope_is_the_applications_to_judge(health: Health, headers: Any) -> None:
    """Headers that are none leave the request to the application, as they came."""
    exchange = Exchange(headers).run(TrilatMiddleware(sending(START), health=health))
    assert exchange.sent[0] is START
    assert exchange.scope["headers"] is headers
    assert health.errors == 1


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"type": "http.response.start"},
        {"type": "http.response.start", "status": None},
        {"type": "http.response.start", "status": 200, "headers": None},
        {"type": "http.response.start", "status": 200, "headers": 5},
    ],
)
def test_broken_message_is_the_servers_to_judge(health: Health, message: Message) -> None:
    """A message that is none goes to the server as it came."""
    exchange = Exchange(MARKED).run(TrilatMiddleware(sending(message), health=health))
    assert exchange.sent[0] is message
    assert health.errors == 1


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
def test_hostile_headers_never_reach_into_the_answer(
    headers: list[tuple[bytes, bytes]], token: str | None
) -> None:
    """Whatever a client sends, nothing fails, and the answer has one well-formed stamp or none."""
    health = Health()
    app = TrilatMiddleware(sending(START, BODY), clock=SOUND, token=token, health=health)
    exchange = Exchange(headers).run(app)
    assert health.errors == 0
    assert len(exchange.stamps) <= 1
    if exchange.stamps:
        assert exchange.stamps[0].startswith(b"app;dur=0.000, trilat;")
        assert exchange.marks(exchange_span(exchange)).app_ns == 0
    else:
        assert exchange.sent[0] is START


def exchange_span(exchange: Exchange) -> int:
    """The span that the stamp echoes: the given one, or 0."""
    return SPAN if find(exchange.stamps[0], SPAN) != EMPTY else 0


@pytest.mark.parametrize("token", ["", " ", "a b", "é", "a\n", "x" * 201, "\x7f"])
def test_token_that_cannot_be_sent_is_refused_at_once(token: str) -> None:
    """A token that is empty or no header could carry is a mistake to tell of at the start."""
    with pytest.raises(UsageError, match="token must be 1 to 200 visible ASCII characters"):
        TrilatMiddleware(sending(START), token=token)


def test_last_one_added_is_listed_first() -> None:
    """The check that the documentation names tells whether the middleware is the outermost."""
    app = Starlette()
    app.add_middleware(GZipMiddleware)
    app.add_middleware(TrilatMiddleware, token="t")
    outermost: Any = app.user_middleware[0].cls
    assert outermost is TrilatMiddleware


def test_counters_of_the_process_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without counters of its own, an instance counts into the process's."""
    monkeypatch.setattr(HEALTH, "refused", 0)
    Exchange(MARKED).run(TrilatMiddleware(sending(START), token="secret"))
    assert HEALTH.refused == 1
