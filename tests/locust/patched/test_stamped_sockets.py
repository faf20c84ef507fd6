"""The stamped sockets, against real servers on loopback."""

from __future__ import annotations

import ssl
from typing import Any

import gevent
import gevent.server
import gevent.socket
import gevent.ssl
import pytest
import trustme

from trilat.agent import stamp
from trilat.agent.layout import MarkFlag
from trilat.agent.records import UNKNOWN
from trilat.locust import faults
from trilat.locust.marks import reading, sending, sockets, tls
from trilat.locust.marks.marker import marker
from trilat.locust.marks.timeline import Timeline

from .servers import (
    BLOCKED_S,
    REQUEST,
    answer_to,
    block,
    dial,
    echo,
    opened,
    read_head,
    serving,
)

pytestmark = pytest.mark.usefixtures("marking")


def test_a_request_has_its_marks_in_order_and_its_stamp() -> None:
    """Connect, send and read come in this order, and the answer's stamp is the request's own."""
    with serving(echo) as address:
        timeline = opened()
        with dial(address) as connection:
            connection.sendall(REQUEST)
            assert connection.recv(4096).endswith(b"ok")
    assert timeline.started <= timeline.connect_began < timeline.sent < timeline.first_read
    assert timeline.first_read == timeline.last_read
    assert 0 < timeline.connect_ns < timeline.sent - timeline.connect_began
    assert timeline.last_lay >= 0
    assert stamp.decode(timeline.stamp).span == timeline.span
    assert timeline.flags == MarkFlag.SENT | MarkFlag.ANSWERED | MarkFlag.CONNECTED


@pytest.mark.parametrize("reading", ["recv", "recv_into", "makefile"])
def test_what_an_answer_lay_in_the_kernel_is_seen(reading: str) -> None:
    """A generator that comes late for its answer finds out how late."""
    with serving(echo) as address:
        timeline = opened()
        with dial(address) as connection:
            connection.sendall(REQUEST)
            gevent.sleep(0.05)  # the answer arrives
            block(BLOCKED_S)
            if reading == "recv":
                connection.recv(4096)
            elif reading == "recv_into":
                connection.recv_into(bytearray(4096), 4096)
            else:
                connection.makefile("rb").readline()
    assert timeline.last_lay > BLOCKED_S * 1e9
    assert stamp.decode(timeline.stamp).span == timeline.span


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_under_tls_too(version: ssl.TLSVersion) -> None:
    """OpenSSL reads the bytes, yet the stamp is seen; also with TLS 1.3's tickets in between."""
    authority = trustme.CA()
    context = gevent.ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    client = gevent.ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(client)
    client.minimum_version = client.maximum_version = version
    with serving(echo, ssl_context=context) as address:
        timeline = opened()
        raw = gevent.socket.create_connection(address)
        after_tcp = timeline.connect_ns
        connection = client.wrap_socket(raw, server_hostname="127.0.0.1")  # takes raw over
        assert timeline.connect_ns > after_tcp
        for _ in range(2):  # the second request finds no ticket in its way
            timeline = opened()
            connection.sendall(REQUEST)
            gevent.sleep(0.05)
            block(BLOCKED_S)
            assert connection.recv(4096).endswith(b"ok")
            assert timeline.flags & MarkFlag.TLS
            assert timeline.last_lay > BLOCKED_S * 1e9
            assert stamp.decode(timeline.stamp).span == timeline.span
        connection.close()


def test_a_stamp_in_the_body_is_left_there() -> None:
    """A service may answer with whatever it likes: only the head is looked at, or cut."""

    def echo_answer(connection: Any) -> None:
        body = answer_to(read_head(connection))
        length = f"content-length: {len(body)}".encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + body)

    with serving(echo_answer) as address:
        timeline = opened()
        with dial(address) as connection:
            connection.sendall(REQUEST)
            answer = connection.recv(4096)
    _, _, body = answer.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in answer
    assert timeline.stamp == stamp.EMPTY


def test_the_client_does_not_see_the_stamp() -> None:
    """The line that the middleware added is taken out; the rest of the answer is whole."""
    with serving(echo) as address:
        for reading in ("recv", "recv_into"):
            timeline = opened()
            with dial(address) as connection:
                connection.sendall(REQUEST)
                if reading == "recv":
                    answer = connection.recv(4096)
                else:
                    buffer = bytearray(4096)
                    answer = bytes(buffer[: connection.recv_into(buffer)])
            assert answer == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
            assert stamp.decode(timeline.stamp).span == timeline.span


def test_a_line_with_entries_of_others_stays() -> None:
    """A proxy that joins header lines: the stamp is read, and nothing of it is cut."""

    def joined(connection: Any) -> None:
        answer = answer_to(read_head(connection))
        connection.sendall(answer.replace(b"server-timing: ", b"server-timing: db;dur=5, "))

    with serving(joined) as address:
        timeline = opened()
        with dial(address) as connection:
            connection.sendall(REQUEST)
            answer = connection.recv(4096)
    assert b"db;dur=5" in answer
    assert b"trilat;desc=" in answer
    assert stamp.decode(timeline.stamp).span == timeline.span


def test_a_large_answer_is_marked_at_its_first_and_last_byte() -> None:
    """Reading on moves the last mark and leaves the first."""

    def slow(connection: Any) -> None:
        connection.sendall(answer_to(read_head(connection)))
        gevent.sleep(0.03)
        connection.sendall(b"x" * 100_000)

    with serving(slow) as address:
        timeline = opened()
        with dial(address) as connection:
            connection.sendall(REQUEST)
            seen = 0
            while seen < 100_000:
                seen += len(connection.recv(4096))
    assert timeline.last_read - timeline.first_read > 0.03e9
    assert stamp.decode(timeline.stamp).span == timeline.span


def test_a_second_exchange_keeps_what_the_first_spent_outside() -> None:
    """A redirect: the marks are the last exchange's, the first one's wait is kept."""

    def slow(connection: Any) -> None:
        for _ in range(2):
            head = read_head(connection)
            gevent.sleep(0.04)
            connection.sendall(answer_to(head))

    with serving(slow) as address:
        timeline = opened()
        with dial(address) as connection:
            connection.sendall(REQUEST)
            connection.recv(4096)
            first_span, first_sent = timeline.span, timeline.sent
            connection.sendall(REQUEST)
            connection.recv(4096)
    assert timeline.exchanges == 2
    assert timeline.span != first_span
    assert timeline.sent - first_sent > timeline.prior_ns > 0.04e9


def test_a_dead_connection_and_a_new_one_are_two_exchanges() -> None:
    """A silent retry: the service closes, the client sends again elsewhere."""

    def closing(connection: Any) -> None:
        read_head(connection)
        connection.close()

    with serving(closing) as dead, serving(echo) as alive:
        timeline = opened()
        with dial(dead) as connection:
            connection.sendall(REQUEST)
            assert connection.recv(4096) == b""
        with dial(alive) as connection:
            connection.sendall(REQUEST)
            assert connection.recv(4096).endswith(b"ok")
    assert timeline.exchanges == 2
    assert timeline.flags & MarkFlag.ANSWERED


def test_marks_get_out_whole_through_a_socket_that_takes_little_at_a_time() -> None:
    """The caller is told of its own bytes only, however the kernel cuts them."""
    sent = bytearray()

    def stingy(_: Any, data: Any, *__: Any, **___: Any) -> int:
        taken = bytes(data)[:7]
        sent.extend(taken)
        return len(taken)

    timeline = opened()
    timeline.begins_exchange(1, b"")
    rest = memoryview(REQUEST)
    rest = rest[sending.send_marked(stingy, object(), timeline, rest, 0) :]
    while rest:
        rest = rest[stingy(None, rest) :]
    lines = bytes(sent).split(b"\r\n")
    assert [lines[0], lines[3]] == [b"GET / HTTP/1.1", b"Host: x"]
    assert lines[1] == b"Trilat-Run: 0123456789ab"


def test_a_refused_connection_leaves_a_timeline_without_a_send() -> None:
    """Where nothing was sent, the moment of the attempt is known and no more."""
    with serving(echo) as address:
        pass
    timeline = opened()
    with pytest.raises(ConnectionRefusedError):
        gevent.socket.create_connection(address)
    assert timeline.connect_began > 0
    assert timeline.sent == -1


def test_sockets_of_others_are_left_alone() -> None:
    """Without a timeline in the greenlet nothing is marked."""
    heads = []

    def keeping(connection: Any) -> None:
        heads.append(read_head(connection))
        connection.sendall(b"ok")

    with serving(keeping) as address, dial(address) as connection:
        connection.sendall(REQUEST)
        assert connection.recv(4096) == b"ok"
    assert heads == [REQUEST]


def test_without_kernel_stamps_reads_are_seen_all_the_same() -> None:
    """As on macOS and Windows: the read is marked, how long the answer lay is not known."""
    sockets.install(kernel_stamps=False)
    tls.install(kernel_stamps=False)
    try:
        with serving(echo) as address:
            timeline = opened()
            with dial(address) as connection:
                connection.sendall(REQUEST)
                connection.recv(4096)
        assert timeline.last_lay == UNKNOWN
        assert stamp.decode(timeline.stamp).span == timeline.span
    finally:
        sockets.install()
        tls.install()


@pytest.mark.parametrize("place", ["marker", "take_stamp", "received"])
def test_an_error_of_our_own_reaches_nobody(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails inside, the request goes out and its answer comes in."""

    def broken(*_: Any) -> Any:
        raise RuntimeError("injected")

    if place == "marker":
        monkeypatch.setattr(type(marker), "lines", broken)
    elif place == "take_stamp":
        monkeypatch.setattr(reading, "take_stamp", broken)
    else:
        monkeypatch.setattr(Timeline, "received", broken)

    def answering(connection: Any) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    with serving(answering) as address:
        opened()
        with dial(address) as connection:
            connection.sendall(REQUEST)
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    assert sum(faults.counts.values()) == 1
    faults.counts.clear()
