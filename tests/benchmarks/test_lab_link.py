"""The lab's link holds packets for as long as their way takes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
from benchmarks.lab.link import Carrier, opens_a_connection
from benchmarks.lab.scenario import Way

MS = 1_000_000
ADDRESSES = bytes(8)


def packet(flags: int, mark: int = 0) -> bytes:
    """An IPv4 packet with a TCP segment; marked, so that it can be told from others."""
    ip = bytes([0x45, 0, 0, 40, 0, mark, 0, 0, 64, 6, 0, 0]) + ADDRESSES
    return ip + bytes(12) + bytes([0x50, flags]) + bytes(6)


SYN, SYN_ACK, ACK = packet(0x02), packet(0x12), packet(0x10)


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """Two ends of a socket that keeps the borders of packets, for a device's."""
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    right.setblocking(False)
    with left, right:
        yield left.fileno(), right.fileno()


def came(end: int) -> list[int]:
    """The marks of the packets that were written."""
    marks = []
    try:
        while True:
            marks.append(os.read(end, 2000)[5])
    except BlockingIOError:
        return marks


def test_what_opens_a_connection_is_told_by_its_flags() -> None:
    """A first packet asks; its answer and all later ones do not."""
    assert [opens_a_connection(each) for each in (SYN, SYN_ACK, ACK)] == [True, False, False]


def test_a_packet_comes_when_its_delay_is_over(ends: tuple[int, int]) -> None:
    """Not a moment earlier."""
    carrier = Carrier(Way(delay_ms=5), ends[0], seed=1)
    carrier.take(packet(0x10, 7), 100)
    carrier.give(100 + 5 * MS - 1)
    assert came(ends[1]) == []
    carrier.give(100 + 5 * MS)
    assert came(ends[1]) == [7]
    assert carrier.next_due > 2**60


def test_jitter_keeps_the_order(ends: tuple[int, int]) -> None:
    """Packets wait for those before them."""
    carrier = Carrier(Way(delay_ms=1, jitter_ms=20), ends[0], seed=1)
    for mark in range(50):
        carrier.take(packet(0x10, mark), mark)
    carrier.give(10**12)
    assert came(ends[1]) == list(range(50))


def test_what_opens_a_connection_is_overtaken(ends: tuple[int, int]) -> None:
    """A connection that is slow to open does not hold up the others."""
    carrier = Carrier(Way(delay_ms=1, connect_ms=50), ends[0], seed=1)
    carrier.take(packet(0x02, 1), 0)
    carrier.take(packet(0x10, 2), 10)
    carrier.give(10**12)
    assert came(ends[1]) == [2, 1]


def test_a_narrow_way_lets_one_packet_through_after_the_other(ends: tuple[int, int]) -> None:
    """40 bytes at 32 kbit/s take 10 ms."""
    carrier = Carrier(Way(rate_kbit=32), ends[0], seed=1)
    for mark in range(3):
        carrier.take(packet(0x10, mark), 0)
    carrier.give(25 * MS)
    assert came(ends[1]) == [0, 1]


def test_lost_packets_are_counted(ends: tuple[int, int]) -> None:
    """About as many as were asked for, and none comes."""
    carrier = Carrier(Way(loss=1.0), ends[0], seed=1)
    carrier.take(ACK, 0)
    carrier.give(10**12)
    assert carrier.lost == 1
    assert came(ends[1]) == []
