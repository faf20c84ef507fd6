"""What the kernel tells of real connections on loopback."""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING

import pytest

from trilat.agent.host import kernel_tick_us
from trilat.agent.tcp import (
    HAS_KERNEL_STAMPS,
    RECEIVE_STAMP,
    SO_TIMESTAMPNS,
    STAMP_BUFFER,
    handshake_ns,
    last_data_received_ms,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not HAS_KERNEL_STAMPS, reason="needs Linux")


@pytest.fixture
def tcp() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection: the one that connected and the one that accepted."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as served,
    ):
        yield client, served


def test_time_since_the_last_data_is_told(tcp: tuple[socket.socket, socket.socket]) -> None:
    """The kernel's figure is between what surely passed since and what can have passed at most."""
    client, served = tcp
    sent = time.monotonic()
    client.sendall(b"x")
    served.recv(1)
    arrived = time.monotonic()
    time.sleep(0.05)
    least_ms = (time.monotonic() - arrived) * 1000
    told = last_data_received_ms(served)
    most_ms = (time.monotonic() - sent) * 1000
    tick_ms = kernel_tick_us() / 1000
    assert least_ms - tick_ms - 1 <= told <= most_ms + tick_ms + 1


def test_new_data_starts_the_count_again(tcp: tuple[socket.socket, socket.socket]) -> None:
    """After a long wait, a new byte makes the figure small again."""
    client, served = tcp
    client.sendall(b"x")
    served.recv(1)
    time.sleep(0.05)
    before = last_data_received_ms(served)
    sent = time.monotonic()
    client.sendall(b"y")
    served.recv(1)
    told = last_data_received_ms(served)
    most_ms = (time.monotonic() - sent) * 1000
    assert before > 0
    assert told <= most_ms + kernel_tick_us() / 1000 + 1


def test_handshake_is_no_longer_than_the_connect() -> None:
    """The round trip of the handshake lies within the time that connecting took."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        begun_ns = time.perf_counter_ns()
        client.connect(listener.getsockname())
        took_ns = time.perf_counter_ns() - begun_ns
        told_ns = handshake_ns(client)
    assert told_ns is not None
    assert 0 < told_ns <= took_ns + 1_000  # the kernel counts whole microseconds


def test_handshake_that_was_repeated_is_unknown() -> None:
    """A segment sent again makes the sample useless, and the answer None."""

    class Resent:
        def getsockopt(self, _level: int, _option: int, length: int) -> bytes:
            info = bytearray(length)
            struct.pack_into("=I", info, 68, 250)  # tcpi_rtt
            struct.pack_into("=I", info, 100, 1)  # tcpi_total_retrans
            return bytes(info)

    assert handshake_ns(Resent()) is None


def test_offsets_are_those_of_the_kernels_header() -> None:
    """The two figures are read at 52 and 68 of ``struct tcp_info``."""

    class Numbered:
        def getsockopt(self, _level: int, _option: int, length: int) -> bytes:
            words = [word * 4 for word in range(length // 4)]
            if len(words) > 25:
                words[25] = 0  # nothing was sent again
            return struct.pack(f"={len(words)}I", *words)

    assert last_data_received_ms(Numbered()) == 52
    assert handshake_ns(Numbered()) == 68_000


def test_other_sockets_are_an_error() -> None:
    """A Unix socket and a closed one raise what the docstrings say."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for ask in (last_data_received_ms, handshake_ns):
            with pytest.raises(OSError, match=r"not supported|Protocol not available"):
                ask(ours)
    with pytest.raises(OSError, match="Bad file descriptor"):
        last_data_received_ms(ours)


def test_receive_stamp_is_between_send_and_read(tcp: tuple[socket.socket, socket.socket]) -> None:
    """With the option set, the kernel tells when the bytes arrived, on the wall clock."""
    client, served = tcp
    served.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    # The first socket of a machine to ask for stamps gets them a moment later.
    for _ in range(100):
        sent_ns = time.time_ns()
        client.sendall(b"x")
        data, control, flags, _ = served.recvmsg(1, STAMP_BUFFER)
        read_ns = time.time_ns()
        assert data == b"x"
        if control:
            break
        time.sleep(0.01)
    assert not flags & socket.MSG_CTRUNC
    ((level, kind, raw),) = control
    assert (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS)
    seconds, nanoseconds = RECEIVE_STAMP.unpack(raw)
    assert sent_ns <= seconds * 10**9 + nanoseconds <= read_ns
