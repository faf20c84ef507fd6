"""What is kept of an answer: its record in the journal, and the numbers of its series."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from trilat.agent.clock import Clock
from trilat.agent.families import HTTP, Histogram
from trilat.agent.layout import SERVED, Kind, ServedFlag, name_layout
from trilat.agent.segment import journal_files, read_segment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.middleware.conftest import Exchange, Observed

    from trilat.middleware.asgi import ASGIApp, Message, Receive, Scope, Send

MARKED = [
    (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    (b"trilat-run", b"0123456789ab"),
]
START: Message = {"type": "http.response.start", "status": 200, "headers": []}
BODY: Message = {"type": "http.response.body", "body": b"ok"}
MS = 1_000_000
NAME = name_layout(SERVED.size)
FIELDS = [field.name for field in SERVED.fields]
DURATION_AT = HTTP.places["trilat_http_request_duration_seconds"]
DURATION = next(
    metric
    for metric in HTTP.metrics
    if isinstance(metric, Histogram) and metric.name == "trilat_http_request_duration_seconds"
)


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * MS
        self.clock = Clock(monotonic_ns=lambda: self.now_ns, wall_ns=lambda: self.now_ns)

    def pass_ms(self, ms: int) -> None:
        """Let time pass."""
        self.now_ns += ms * MS


class Kept(NamedTuple):
    """What is found after one exchange: its record, and what its series has counted."""

    record: dict[str, int]
    answers: int
    sum_ns: int
    after_ns: int
    body_bytes: int
    exceptions: int

    @property
    def flags(self) -> ServedFlag:
        """Of the record."""
        return ServedFlag(self.record["flags"])


def kept(observed: Observed, status: int) -> Kept:
    """What was kept of the only exchange, which was a GET without a route."""
    observed.station.close()
    assert observed.health.errors == 0
    assert observed.station.directory is not None
    (path,) = journal_files(observed.station.directory)
    records, names = [], {}
    raw = read_segment(path).records
    for at in range(0, len(raw), SERVED.size):
        piece = raw[at : at + SERVED.size]
        if piece[0] == Kind.NAME:
            _, _, name_id, text, _ = NAME.struct.unpack(piece)
            names[name_id] = text.rstrip(b"\0").decode()
        else:
            records.append(dict(zip(FIELDS, SERVED.struct.unpack(piece), strict=True)))
    (record,) = records
    assert names[record["name_id"]] == "GET\t(unmatched)"
    assert record["status"] == status
    at = observed.station.counters.block(HTTP, ("GET", "(unmatched)", str(status)))
    view = observed.station.view
    last = DURATION_AT + DURATION.sum_at
    return Kept(
        record,
        sum(view[at + DURATION_AT : at + last]),
        view[at + last],
        view[at + HTTP.places["trilat_http_after_response_seconds_total"]],
        view[at + HTTP.places["trilat_http_response_body_bytes_total"]],
        view[at + HTTP.places["trilat_http_exceptions_total"]],
    )


def acting(hand: Hand, *steps: int | Message | BaseException) -> ASGIApp:
    """An application that lets milliseconds pass, sends messages and raises, in turn."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for step in steps:
            if isinstance(step, int):
                hand.pass_ms(step)
            elif isinstance(step, BaseException):
                raise step
            else:
                await send(step)

    return app


@pytest.fixture
def hand() -> Hand:
    """The clock of the test."""
    return Hand()


@pytest.fixture
def serve(observed: Observed, hand: Hand, tmp_path: Path) -> Callable[..., Exchange]:
    """Lets an application that does these steps answer one marked request."""

    def serve(*steps: int | Message | BaseException) -> Exchange:
        app = observed.wrap(acting(hand, *steps), clock=hand.clock, journal=tmp_path / "journal")
        return observed.exchange(MARKED).run(app)

    return serve


def piece(body: bytes, *, more: bool = True) -> Message:
    """A piece of a body."""
    return {"type": "http.response.body", "body": body, "more_body": more}


def test_plain_answer_is_one_record(observed: Observed, serve: Callable[..., Exchange]) -> None:
    """All that is known of a short answer is in its record, and it is counted once."""
    serve(20, START, BODY)
    found = kept(observed, 200)
    assert found.flags == ServedFlag.MARKED
    wanted = {
        "app_ns": 20 * MS,
        "end_ns": 20 * MS,
        "called_ns": 1_000 * MS,
        "called_wall_ns": 1_000 * MS,
        "gap_ns": 0,
        "body_bytes": 2,
        "messages": 1,
        "run": 0x0123456789AB,
        "trace_high": 0x4BF92F3577B34DA6,
        "trace_low": 0xA3CE929D0E0E4736,
        "span": 0x00F067AA0BA902B7,
        "queue_ms": -1,
    }
    assert {name: found.record[name] for name in wanted} == wanted
    assert (found.answers, found.sum_ns, found.body_bytes) == (1, 20 * MS, 2)


def test_streamed_answer_tells_start_end_and_gap(
    observed: Observed, serve: Callable[..., Exchange]
) -> None:
    """Time to the start and to the end, the longest gap, messages and bytes of a stream."""
    serve(5, START, 1, piece(b"abc"), 40, piece(b"defg"), 2, piece(b"", more=False))
    found = kept(observed, 200)
    assert found.flags == ServedFlag.MARKED | ServedFlag.STREAMED
    names = ("app_ns", "end_ns", "gap_ns", "messages", "body_bytes")
    assert [found.record[name] for name in names] == [5 * MS, 48 * MS, 40 * MS, 3, 7]
    assert (found.sum_ns, found.body_bytes) == (48 * MS, 7)


def test_waiting_for_a_request_body_is_told_apart(
    observed: Observed, hand: Hand, tmp_path: Path
) -> None:
    """The record keeps the call and adds the wait; the stamp counts from where the wait ended."""

    class Slow(observed.exchange):  # type: ignore[name-defined,misc]
        pieces = [(30, True), (40, False), (999, False)]  # noqa: RUF012 - used once

        async def receive(self) -> Message:
            ms, more = self.pieces.pop(0)
            hand.pass_ms(ms)
            return {"type": "http.request", "body": b"x", "more_body": more}

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        hand.pass_ms(1)
        while (await receive()).get("more_body"):
            pass
        await receive()  # what comes now is no part of the body
        await send(START)
        await send(BODY)

    wrapped = observed.wrap(app, clock=hand.clock, journal=tmp_path / "journal")
    marks = Slow(MARKED, method="POST").run(wrapped).marks()
    assert (marks.called_wall_ns, marks.app_ns) == (1_070 * MS, 1_000 * MS)
    observed.station.close()
    assert observed.station.directory is not None
    (path,) = journal_files(observed.station.directory)
    raw = read_segment(path).records
    records = [raw[at : at + SERVED.size] for at in range(0, len(raw), SERVED.size)]
    (kept,) = (piece for piece in records if piece[0] == Kind.SERVED)
    record = dict(zip(FIELDS, SERVED.struct.unpack(kept), strict=True))
    assert (record["called_wall_ns"], record["app_ns"]) == (1_000 * MS, 1_070 * MS)
    assert record["body_wait_ns"] == 70 * MS


def test_background_task_is_not_part_of_the_duration(
    observed: Observed, serve: Callable[..., Exchange]
) -> None:
    """What runs on after the answer is counted by itself."""
    serve(3, START, BODY, 500)
    found = kept(observed, 200)
    assert (found.record["end_ns"], found.sum_ns, found.after_ns) == (3 * MS, 3 * MS, 500 * MS)


def test_informational_answer_is_not_the_start(
    observed: Observed, serve: Callable[..., Exchange]
) -> None:
    """The time runs on to the final answer, whose status counts."""
    serve(3, {**START, "status": 103}, 4, {**START, "status": 204}, BODY)
    assert kept(observed, 204).record["app_ns"] == 7 * MS


@pytest.mark.parametrize("kind", ["pathsend", "zerocopysend"])
def test_file_that_the_server_sends_ends_the_answer(
    observed: Observed, serve: Callable[..., Exchange], kind: str
) -> None:
    """The extensions for files are bodies, of a size that only the server knows."""
    message = {"type": f"http.response.{kind}", "path": "/a", "file": 3}
    assert serve(2, START, message).sent[1] is message
    found = kept(observed, 200)
    assert found.flags == ServedFlag.MARKED
    assert (found.record["end_ns"], found.record["body_bytes"]) == (2 * MS, 0)


@pytest.mark.parametrize("error", [LookupError("on purpose"), asyncio.CancelledError()])
@pytest.mark.parametrize("steps", [(), (START,), (START, piece(b"x"))], ids=len)
def test_exception_before_the_end_leaves_it_unfinished(
    observed: Observed, serve: Callable[..., Exchange], steps: Any, error: BaseException
) -> None:
    """Without a start it counts as a 500, else under the status that was sent."""
    with pytest.raises(type(error)):
        serve(6, *steps, 1, error)
    found = kept(observed, 200 if steps else 500)
    assert found.flags & ~ServedFlag.STREAMED == (
        ServedFlag.MARKED | ServedFlag.RAISED | ServedFlag.UNFINISHED
    )
    assert found.record["app_ns"] == (6 * MS if steps else -1)
    assert (found.record["end_ns"], found.sum_ns) == (-1, 7 * MS)
    assert (found.answers, found.exceptions) == (1, int(isinstance(error, Exception)))
    assert observed.station.in_flight == 0


def test_exception_after_the_end_is_counted(
    observed: Observed, serve: Callable[..., Exchange]
) -> None:
    """A background task that fails adds an exception to the answer that was given."""
    with pytest.raises(LookupError):
        serve(1, START, BODY, 2, LookupError("on purpose"))
    found = kept(observed, 200)
    assert found.flags == ServedFlag.MARKED
    assert (found.answers, found.exceptions, found.after_ns) == (1, 1, 2 * MS)


def test_answer_that_never_begins_is_a_500(
    observed: Observed, serve: Callable[..., Exchange]
) -> None:
    """An application that returns without an answer leaves the server to make one."""
    serve(4)
    found = kept(observed, 500)
    assert found.flags == ServedFlag.MARKED | ServedFlag.UNFINISHED
    assert (found.record["app_ns"], found.sum_ns, found.exceptions) == (-1, 4 * MS, 0)


def test_stream_that_stops_without_an_error_has_lost_its_client(
    observed: Observed, serve: Callable[..., Exchange]
) -> None:
    """Starlette ends a stream so where it hears that the client has left."""
    serve(START, piece(b"x"), 4)
    assert kept(observed, 499).flags == (
        ServedFlag.MARKED | ServedFlag.STREAMED | ServedFlag.UNFINISHED | ServedFlag.DISCONNECTED
    )


@pytest.mark.parametrize("end", [(BODY,), ()], ids=["answered", "given up"])
def test_client_that_left_is_a_499(
    observed: Observed, hand: Hand, tmp_path: Path, end: tuple[Message, ...]
) -> None:
    """The server knows that nobody takes the answer."""
    exchange: Any = observed.exchange(MARKED)
    exchange.disconnected = True  # the owner of `receive`, as in uvicorn
    exchange.run(
        observed.wrap(acting(hand, START, *end), clock=hand.clock, journal=tmp_path / "journal")
    )
    found = kept(observed, 499)
    assert found.flags & ServedFlag.DISCONNECTED
    assert bool(found.flags & ServedFlag.UNFINISHED) is not bool(end)


def test_unmarked_request_is_kept_too(observed: Observed, hand: Hand, tmp_path: Path) -> None:
    """It has no ids, and its wall clock is that of its end less what it took."""
    app = observed.wrap(acting(hand, 9, START, BODY), clock=hand.clock, journal=tmp_path / "kept")
    assert observed.exchange([]).run(app).sent == [START, BODY]
    found = kept(observed, 200)
    assert found.flags == ServedFlag(0)
    assert [found.record[name] for name in ("run", "span", "trace_low")] == [0, 0, 0]
    assert found.record["called_wall_ns"] == 1_000 * MS
