"""What the stamped sockets do in the place of gevent's own code, they do as gevent does."""

from __future__ import annotations

import socket as stdlib_socket
from typing import Any

import gevent
import gevent.socket
import pytest
from gevent.event import Event
from gevent.exceptions import ConcurrentObjectUseError

from trilat.agent.layout import MarkFlag
from trilat.locust.marks.timeline import attach

from .servers import REQUEST, answer_to, dial, echo, opened, read_head, serving

pytestmark = pytest.mark.usefixtures("marking")

MARKS = (b"Trilat-Run: ", b"traceparent: ")


def silent(connection: Any) -> None:
    """A service that answers nothing, until its client goes."""
    while connection.recv(4096):
        pass


@pytest.mark.parametrize("size", [10, 60_000, 3_000_000], ids=["small", "head", "upload"])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_all_of_a_request_goes_out_marked_once(size: int, kind: Any) -> None:
    """Through a socket that takes little at a time, to a service that is slow to read."""
    came, done = bytearray(), Event()
    body = b"x" * size

    def slow(connection: Any) -> None:
        gevent.sleep(0.02)
        while chunk := connection.recv(65536):
            came.extend(chunk)
        done.set()

    with serving(slow) as address:
        opened()
        connection = gevent.socket.socket()
        connection.setsockopt(stdlib_socket.SOL_SOCKET, stdlib_socket.SO_SNDBUF, 4096)
        connection.connect(address)
        with connection:
            connection.sendall(kind(REQUEST + body))
        assert done.wait(60)
    head, _, rest = bytes(came).partition(b"\r\n\r\n")
    assert rest == body
    assert all(head.count(mark) == 1 for mark in MARKS)
    assert came.count(b"Trilat-Run: ") == 1


def test_nothing_to_send_is_no_request() -> None:
    """``sendall`` of nothing sends nothing."""
    with serving(echo) as address:
        timeline = opened()
        with dial(address) as connection:
            connection.sendall(b"")
            assert timeline.sent == -1
            connection.sendall(REQUEST)
            assert connection.recv(4096).endswith(b"ok")


@pytest.mark.parametrize("into", [False, True])
def test_an_answer_that_does_not_come_in_time_is_a_timeout(into: bool) -> None:
    """The same exception as ever; and a later answer can still be read."""
    go_on = Event()

    def late(connection: Any) -> None:
        head = read_head(connection)
        go_on.wait()
        connection.sendall(answer_to(head))

    with serving(late) as address:
        timeline = opened()
        with dial(address) as connection:
            connection.sendall(REQUEST)
            connection.settimeout(0.02)
            with pytest.raises(TimeoutError, match="timed out"):
                connection.recv_into(bytearray(100)) if into else connection.recv(100)
            assert timeline.flags & MarkFlag.BROKEN
            connection.settimeout(30)
            go_on.set()
            assert connection.recv(4096).endswith(b"ok")
            connection.settimeout(None)
            assert connection.recv(4096) == b""


def test_a_socket_that_does_not_wait_says_so_at_once() -> None:
    """Non-blocking sockets do not wait for the answer."""
    with serving(echo) as address:
        opened()
        with dial(address) as connection:
            connection.sendall(REQUEST)
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(4096)


def test_a_socket_is_waited_on_by_one_greenlet_only() -> None:
    """Only the first may: gevent does not let a second one wait for the same bytes."""
    with serving(silent) as address:
        timeline = opened()
        with dial(address) as connection:
            connection.sendall(REQUEST)

            def read() -> None:
                attach(timeline)
                connection.recv(100)

            connection.settimeout(30)
            first = gevent.spawn(read)
            gevent.sleep(0)
            with pytest.raises(ConcurrentObjectUseError):
                connection.recv(100)
            first.kill()


def test_a_socket_that_is_closed_meanwhile_ends_the_wait() -> None:
    """The one who waits gets gevent's error, and so does who reads afterwards."""
    with serving(silent) as address:
        timeline = opened()
        connection = gevent.socket.create_connection(address)
        connection.settimeout(30)
        connection.sendall(REQUEST)
        gevent.spawn_later(0.01, connection.close)
        with pytest.raises(OSError, match="closed in another greenlet"):
            connection.recv(100)
        timeline.turned = False
        with pytest.raises(OSError, match="Bad file descriptor"):
            connection.recv(100)
