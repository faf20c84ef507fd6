"""Where an exchange begins, where it ends, and whose the time in between is."""

from __future__ import annotations

import ssl
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gevent
import gevent.socket
import gevent.ssl
import pytest
import trustme

from trilat.agent import stamp
from trilat.agent.layout import EARLIER, MarkFlag
from trilat.agent.records import UNKNOWN
from trilat.locust.marks import sockets
from trilat.locust.marks.earlier import EARLIER_MAX, records
from trilat.locust.marks.heads import is_request

from .servers import REQUEST, answer_to, block, dial, echo, opened, read_head, serving

pytestmark = pytest.mark.usefixtures("marking")
PAUSE_S = 0.05
PAUSE_NS = 0.9 * PAUSE_S * 1e9  # a timer may be early


def test_an_earlier_exchange_is_kept_as_it_was() -> None:
    """A redirect over another connection: each has its own marks, connection and stamp."""
    with serving(echo) as address:
        timeline = opened()
        spans, connect_ns = [], []
        for _ in range(2):
            with dial(address) as connection:
                connection.sendall(REQUEST)
                connection.recv(4096)
                spans.append(timeline.span)
                connect_ns.append(timeline.connect_ns)
                read = timeline.last_read
    (earlier,) = timeline.earlier
    assert (earlier.span, timeline.span) == tuple(spans)
    assert stamp.decode(earlier.stamp).span == earlier.span
    assert stamp.decode(timeline.stamp).span == timeline.span
    assert (earlier.connect_ns, timeline.connect_ns) == tuple(connect_ns)
    assert earlier.ended == earlier.last_read < timeline.sent < read
    everything = MarkFlag.SENT | MarkFlag.ANSWERED | MarkFlag.CONNECTED
    assert earlier.flags == timeline.flags == everything


def test_earlier_exchanges_become_records() -> None:
    """In order, numbered, and whole; a stamp that came in pieces is found in the history."""
    with serving(echo) as address, dial(address) as connection:
        timeline = opened()
        for _ in range(3):
            connection.sendall(REQUEST)
            connection.recv(4096)
    missing = timeline.earlier[0].stamp
    timeline.earlier[0] = replace(timeline.earlier[0], stamp=stamp.EMPTY)
    timing = {"server-timing": stamp.encode(stamp.decode(missing)).decode()}
    response = SimpleNamespace(history=(SimpleNamespace(headers=timing),))
    made = list(records(timeline.earlier, response, 7, 1, timeline.started, UNKNOWN))
    names = [field.name for field in EARLIER.fields]
    packed = (EARLIER.packer.pack(*values, 0) for values in made)
    rows = [dict(zip(names, EARLIER.struct.unpack(raw), strict=True)) for raw in packed]
    assert [row["exchanges"] for row in rows] == [1, 2]
    assert [row["span"] for row in rows] == [row["service_span"] for row in rows]
    assert rows[0]["sent_ns"] < rows[0]["response_ns"] < rows[1]["sent_ns"]
    assert rows[0]["last_read_ns"] == rows[0]["response_ns"]


def test_endless_redirects_cost_no_memory() -> None:
    """Beyond a number that no client follows, only their time is kept."""
    with serving(echo) as address, dial(address) as connection:
        timeline = opened()
        for _ in range(EARLIER_MAX + 6):
            connection.sendall(REQUEST)
            connection.recv(4096)
    assert len(timeline.earlier) == EARLIER_MAX
    assert timeline.exchanges == EARLIER_MAX + 6


def test_an_interim_answer_is_passed_over() -> None:
    """Alone, and in one piece with the answer that counts."""
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n"

    def hinting(connection: Any) -> None:
        connection.sendall(interim + answer_to(read_head(connection)))
        head = read_head(connection)
        connection.sendall(interim)
        gevent.sleep(PAUSE_S)
        connection.sendall(answer_to(head))

    with serving(hinting) as address, dial(address) as connection:
        timeline = opened()
        connection.sendall(REQUEST)
        answer = connection.recv(4096)
        assert answer.startswith(interim)
        assert b"trilat" not in answer
        assert stamp.decode(timeline.stamp).span == timeline.span
        timeline = opened()
        connection.sendall(REQUEST)
        assert connection.recv(4096) == interim
        assert not timeline.flags & MarkFlag.ANSWERED
        assert connection.recv(4096).endswith(b"ok")
    assert timeline.first_read - timeline.sent >= PAUSE_NS
    assert timeline.exchanges == 1
    assert stamp.decode(timeline.stamp).span == timeline.span


def test_the_rest_of_a_body_begins_no_exchange() -> None:
    """What is sent after ``100 Continue``, or after an answer that came too early."""

    def asking(connection: Any) -> None:
        head = read_head(connection)
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        connection.recv(4096)
        connection.sendall(answer_to(head))
        connection.recv(4096)

    with serving(asking) as address, dial(address) as connection:
        timeline = opened()
        connection.sendall(REQUEST)
        sent, span = timeline.sent, timeline.span
        connection.recv(4096)
        connection.sendall(b"body")
        connection.recv(4096)
        connection.sendall(b"more body\r\n")
        assert (timeline.sent, timeline.span, timeline.exchanges) == (sent, span, 1)
        assert stamp.decode(timeline.stamp).span == span


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (REQUEST, True),
        (memoryview(REQUEST), True),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.0\r\n", True),
        (b"HTTP/1.1 200 OK\r\n", False),
        (b"GET / HTTP/1.1", False),
        (b"\r\n", False),
        (b"", False),
    ],
)
def test_what_a_request_begins_with(data: Any, expected: bool) -> None:
    """Its first line ends in the version of HTTP."""
    assert is_request(data) is expected


def test_a_tunnel_is_a_part_of_the_connection() -> None:
    """The proxy's time to open it is network.connect; the exchange is the one behind it."""

    def proxying(connection: Any) -> None:
        assert b"traceparent" not in read_head(connection)
        gevent.sleep(PAUSE_S)
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        echo(connection)

    with serving(proxying) as address:
        timeline = opened()
        with dial(address) as connection:
            connected_ns = timeline.connect_ns
            connection.sendall(b"CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n")
            connection.recv(4096)
            connection.sendall(REQUEST)
            connection.recv(4096)
    assert timeline.exchanges == 1
    assert timeline.connect_ns - connected_ns >= PAUSE_NS
    assert timeline.flags == MarkFlag.SENT | MarkFlag.ANSWERED | MarkFlag.CONNECTED
    assert stamp.decode(timeline.stamp).span == timeline.span


def test_an_address_that_refuses_is_a_part_of_the_connection_to_the_next() -> None:
    """``localhost`` may be two addresses; the service listens on one."""
    with serving(echo) as gone:
        pass
    with serving(echo) as address:
        timeline = opened()
        with pytest.raises(ConnectionRefusedError):
            gevent.socket.create_connection(gone)
        began, took_ns = timeline.connect_began, timeline.connect_ns
        assert took_ns > 0
        with dial(address) as connection:
            connection.sendall(REQUEST)
            connection.recv(4096)
    assert timeline.connect_began == began
    assert timeline.connect_ns > took_ns
    assert timeline.exchanges == 1


@pytest.mark.parametrize("reading", ["recv", "recv_into", "unstamped", "unstamped into"])
def test_waiting_in_vain_is_seen(reading: str) -> None:
    """A timeout within the body: it is known when the last byte came, and that more was awaited."""

    def halving(connection: Any) -> None:
        connection.sendall(answer_to(read_head(connection)))
        connection.recv(4096)

    sockets.install(kernel_stamps=not reading.startswith("unstamped"))
    try:
        with serving(halving) as address:
            timeline = opened()
            with dial(address) as connection:
                connection.settimeout(PAUSE_S)
                connection.sendall(REQUEST)
                connection.recv(4096)
                read = timeline.last_read
                again = connection.recv_into if reading.endswith("into") else connection.recv
                with pytest.raises(TimeoutError):
                    again(bytearray(10) if reading.endswith("into") else 4096)
    finally:
        sockets.install()
    assert timeline.flags & MarkFlag.BROKEN
    assert timeline.last_read == read
    assert timeline.ended - read >= PAUSE_NS


def _until_closed(connection: Any) -> None:
    # Session tickets of TLS 1.3 would hold the answer back until they are acknowledged.
    connection.setsockopt(gevent.socket.IPPROTO_TCP, gevent.socket.TCP_NODELAY, 1)
    connection.sendall(answer_to(read_head(connection)))
    gevent.sleep(PAUSE_S)


def test_an_answer_may_end_with_the_connection() -> None:
    """Then its last byte came when that was closed, which the event loop saw; no stamp tells."""
    with serving(_until_closed) as address:
        timeline = opened()
        with dial(address) as connection:
            connection.sendall(REQUEST)
            connection.recv(4096)
            first = timeline.last_read
            assert connection.recv(4096) == b""
    assert timeline.last_read - first >= PAUSE_NS / 2  # the first read may have come late
    assert 0 <= timeline.last_lay < timeline.last_read - first
    assert timeline.flags & MarkFlag.REORDERED
    assert not timeline.flags & MarkFlag.BROKEN


def test_a_late_reader_of_such_an_answer_knows_how_late() -> None:
    """What lay there was the generator's, up to where it found the end."""
    with serving(_until_closed) as address:
        timeline = opened()
        with dial(address) as connection:
            connection.sendall(REQUEST)
            gevent.sleep(3 * PAUSE_S)
            block(PAUSE_S)
            connection.recv(4096)
            lay, read = timeline.last_lay, timeline.last_read
            assert connection.recv(4096) == b""
    assert timeline.last_lay - lay == timeline.last_read - read > 0
    assert lay >= 3 * PAUSE_NS


def test_an_answer_may_end_with_a_connection_over_tls() -> None:
    """The same where OpenSSL reads the bytes."""
    authority = trustme.CA()
    context = gevent.ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    client = gevent.ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(client)
    with serving(_until_closed, ssl_context=context) as address:
        timeline = opened()
        raw = gevent.socket.create_connection(address)
        connection = client.wrap_socket(raw, server_hostname="127.0.0.1")  # takes raw over
        connection.sendall(REQUEST)
        connection.recv(4096)
        first = timeline.last_read
        assert connection.recv(4096) == b""
        connection.close()
    assert timeline.last_read - first >= PAUSE_NS / 2
    assert timeline.flags & MarkFlag.TLS
    assert not timeline.flags & MarkFlag.BROKEN


def test_a_connection_that_is_closed_without_an_answer_is_a_try() -> None:
    """Its end is known, and it is not taken for an answer."""

    def closing(connection: Any) -> None:
        read_head(connection)
        gevent.sleep(PAUSE_S)

    with serving(closing) as address:
        timeline = opened()
        with dial(address) as connection:
            connection.sendall(REQUEST)
            assert connection.recv(4096) == b""
        sent = timeline.sent
        with dial(address):
            pass
    (earlier,) = timeline.earlier
    assert earlier.flags & (MarkFlag.ANSWERED | MarkFlag.BROKEN) == MarkFlag.BROKEN
    assert earlier.ended - sent >= PAUSE_NS
    assert timeline.span == 0
