"""The kernel's evidence of a request's wait, from real sockets."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from trilat.agent.host import kernel_tick_us
from trilat.agent.records import UNKNOWN
from trilat.middleware.queueing import queued_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

HTTP_1 = {"http_version": "1.1"}


class Connection:
    """Exposes a socket, as uvicorn's request object does."""

    def __init__(self, sock: Any) -> None:
        self.transport = self
        self._socket = sock

    def get_extra_info(self, name: str) -> Any:
        """As `asyncio.BaseTransport.get_extra_info`."""
        return self._socket if name == "socket" else None


@pytest.fixture
def tcp() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection on loopback: the client's and the service's."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as served,
    ):
        yield client, served


def test_wait_since_the_last_data_is_told(tcp: tuple[socket.socket, socket.socket]) -> None:
    """The figure is at least the time that passed since the data arrived, within a tick."""
    client, served = tcp
    client.sendall(b"x")
    served.recv(1, socket.MSG_PEEK)  # it has arrived
    arrived = time.monotonic()
    time.sleep(0.03)
    least_ms = (time.monotonic() - arrived) * 1000
    waited = queued_ms(HTTP_1, Connection(served))
    assert waited >= least_ms - kernel_tick_us() / 1000 - 1


@pytest.mark.parametrize("version", ["2", "3", None])
def test_shared_connection_is_no_evidence(
    tcp: tuple[socket.socket, socket.socket], version: str | None
) -> None:
    """Over HTTP/2 the last data may be another request's, so nothing is claimed."""
    assert queued_ms({"http_version": version}, Connection(tcp[1])) == UNKNOWN
    assert queued_ms({}, Connection(tcp[1])) == UNKNOWN


def test_other_sockets_are_no_evidence() -> None:
    """A Unix socket has no such figure, a closed one none any more."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert queued_ms(HTTP_1, Connection(ours)) == UNKNOWN
    assert queued_ms(HTTP_1, Connection(ours)) == UNKNOWN


def test_hidden_socket_is_no_evidence() -> None:
    """A server without a transport, or middleware around ``receive``, leaves it unknown."""
    assert queued_ms(HTTP_1, Connection(None)) == UNKNOWN
    assert queued_ms(HTTP_1, None) == UNKNOWN
    assert queued_ms(HTTP_1, object()) == UNKNOWN


def test_figure_that_cannot_be_is_no_evidence() -> None:
    """A connection that never got data counts from the kernel's start; a stamp has no room."""

    class Ancient:
        def getsockopt(self, _level: int, _option: int, length: int) -> bytes:
            return b"\xff" * length

    class Short:
        def getsockopt(self, _level: int, _option: int, _length: int) -> bytes:
            return b"\x00" * 4

    assert queued_ms(HTTP_1, Connection(Ancient())) == UNKNOWN
    assert queued_ms(HTTP_1, Connection(Short())) == UNKNOWN
