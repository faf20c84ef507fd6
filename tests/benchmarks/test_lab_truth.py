"""The truth that the lab makes of captures and logs."""

from __future__ import annotations

import numpy as np
from benchmarks.lab.capture import ACK, SYN, Segment
from benchmarks.lab.exchanges import Exchange, arrivals, clear_exchanges
from benchmarks.lab.logs import CALLS, REQUESTS, Rows
from benchmarks.lab.streams import connections_in
from benchmarks.lab.table import PARTS
from benchmarks.lab.truth import tell
from hypothesis import given
from hypothesis import strategies as st

CLIENT, SERVICE = 40_000, 80


def head(number: int, span: int) -> bytes:
    """A request's head, as Locust with trilat sends it."""
    trace = f"00-{1:032x}-{span:016x}-01"
    return f"GET / HTTP/1.1\r\ntraceparent: {trace}\r\nLab-Request: {number}\r\n\r\n".encode()


def requests(*rows: tuple[int, int, int]) -> Rows:
    """What Locust said: number, start, response time."""
    whole = [(number, start, took, start + took, 0) for number, start, took in rows]
    return np.array(whole, np.dtype(list(REQUESTS)))


def calls(*rows: tuple[int, int, int, int, int]) -> Rows:
    """What the service saw: number, span, called, answer begun and ended after that."""
    whole = [(number, span, CLIENT, *times, 200) for number, span, *times in rows]
    return np.array(whole, np.dtype(list(CALLS)))


def test_two_requests_of_a_connection() -> None:
    """Each gets its own instants; the first one the connection, too."""
    first, second = head(1, 11), head(2, 22)
    at = len(first)
    segments = [
        Segment(100, CLIENT, SERVICE, 9, 0, SYN, 0, b""),
        Segment(140, SERVICE, CLIENT, 99, 10, SYN | ACK, 0, b""),
        Segment(150, CLIENT, SERVICE, 10, 100, ACK, at, first),
        Segment(400, SERVICE, CLIENT, 100, 10 + at, ACK, 5, b"HTTP/"),
        Segment(410, SERVICE, CLIENT, 105, 10 + at, ACK, 5, b"answr"),
        Segment(600, CLIENT, SERVICE, 10 + at, 110, ACK, len(second), second),
        Segment(900, SERVICE, CLIENT, 110, 0, ACK, 3, b"end"),
    ]
    found = connections_in(segments, (SERVICE,))
    assert list(clear_exchanges(found)) == [
        Exchange(1, 11, asked_ns=100, connect_ns=40, sent_ns=150, arrived_ns=410),
        Exchange(2, 22, asked_ns=-1, connect_ns=0, sent_ns=600, arrived_ns=900),
    ]
    assert arrivals(found) == {(1, 11): 150, (2, 22): 600}


def test_parts_of_one_request() -> None:
    """Each part lies between the two instants that bound it."""
    exchange = Exchange(1, 11, asked_ns=1_100, connect_ns=40, sent_ns=1_150, arrived_ns=1_900)
    table = tell(
        requests((1, 1_000, 1_000)),
        calls((1, 11, 1_300, 400, 450)),
        [exchange],
        {(1, 11): 1_200},
    )
    parts = {name: column[0] for name, column in table.columns.items()}
    assert [parts[name] for name in PARTS] == [110, 40, 50, 100, 400, 50, 150, 100, 0]
    assert (parts["before"], parts["after"]) == (300, 250)
    assert table.spans.tolist() == [11]


def test_an_answer_from_before_the_service_is_unattributed() -> None:
    """Where the service saw nothing, all between sending and arrival is nobody's."""
    exchange = Exchange(1, 11, asked_ns=-1, connect_ns=0, sent_ns=1_150, arrived_ns=1_900)
    table = tell(requests((1, 1_000, 1_000)), calls(), [exchange], {})
    assert table.columns["unattributed"][0] == 750
    assert table.columns["generator.end"][0] == 100


def test_an_answer_that_came_too_late_was_not_waited_for() -> None:
    """A request that was given up has no time after its answer."""
    exchange = Exchange(1, 11, asked_ns=-1, connect_ns=0, sent_ns=1_150, arrived_ns=9_999)
    table = tell(requests((1, 1_000, 1_000)), calls(), [exchange], {})
    assert table.columns["unattributed"][0] == 850
    assert table.columns["generator.end"][0] == 0


def test_of_several_exchanges_the_generators_time_is_one() -> None:
    """A redirect: what is outside adds up, what is left is the generator's."""
    chain = [
        Exchange(1, 11, asked_ns=-1, connect_ns=0, sent_ns=1_100, arrived_ns=1_300),
        Exchange(1, 12, asked_ns=-1, connect_ns=0, sent_ns=1_400, arrived_ns=1_700),
    ]
    served = calls((1, 11, 1_150, 50, 60), (1, 12, 1_450, 100, 110))
    table = tell(requests((1, 1_000, 900)), served, chain, {(1, 11): 1_120, (1, 12): 1_420})
    columns = table.columns
    assert columns["generator"][0] == 400
    assert columns["service.app"][0] == 150
    assert np.isnan(columns["generator.send"][0])
    assert table.spans.tolist() == [12]


def test_without_a_capture_the_service_and_both_sides_of_it_are_known() -> None:
    """What is left without root: the call, its answer, and what lies around them."""
    table = tell(requests((1, 1_000, 1_000)), calls((1, 11, 1_300, 400, 450)))
    columns = table.columns
    assert (columns["before"][0], columns["service.app"][0], columns["after"][0]) == (300, 400, 250)
    assert np.isnan(columns["service.queue"][0])
    assert table.spans.tolist() == [11]


@given(st.lists(st.integers(0, 10**10), min_size=8, max_size=8))
def test_parts_add_up(steps: list[int]) -> None:
    """Whatever the instants, the parts add up to the response time."""
    send, connect, way, queue, app, body, back, _ = steps
    start = 10**18
    sent = start + send + connect
    arrived = sent + way
    called = arrived + queue
    came = called + app + body + back
    exchange = Exchange(1, 11, start + send, connect, sent, came)
    served = calls((1, 11, called, app, app + body))
    table = tell(requests((1, start, sum(steps))), served, [exchange], {(1, 11): arrived})
    assert [table.columns[name][0] for name in PARTS] == [*steps, 0]


def test_a_request_that_was_told_of_late_is_left_out() -> None:
    """Locust was put to sleep around it: what its clocks say of its start may be false."""
    request = requests((1, 1_000, 1_000))
    request["told_wall_ns"] += 10**9
    exchange = Exchange(1, 11, asked_ns=-1, connect_ns=0, sent_ns=1_150, arrived_ns=1_900)
    table = tell(request, calls((1, 11, 1_300, 400, 450)), [exchange], {(1, 11): 1_200})
    assert all(np.isnan(column[0]) for column in table.columns.values())


def test_an_application_waits_for_the_rest_of_an_upload() -> None:
    """It is called with the head of a request; what it waits for after that is the network."""
    exchange = Exchange(1, 11, asked_ns=-1, connect_ns=0, sent_ns=1_100, arrived_ns=1_900)
    served = calls((1, 11, 1_200, 500, 550))
    table = tell(requests((1, 1_000, 1_000)), served, [exchange], {(1, 11): 1_600})
    parts = {name: column[0] for name, column in table.columns.items()}
    assert [parts[name] for name in PARTS] == [100, 0, 500, 0, 100, 50, 150, 100, 0]
