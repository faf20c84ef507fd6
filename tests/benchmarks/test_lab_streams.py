"""The lab reads from captures when bytes left and when they had arrived."""

from __future__ import annotations

import random
from itertools import pairwise

from benchmarks.lab.capture import ACK, SYN, Segment
from benchmarks.lab.streams import Stream, connections_in
from hypothesis import given
from hypothesis import strategies as st

CLIENT, SERVICE = 40_000, 80


def out(at_ns: int, sequence: int, data: bytes, flags: int = ACK) -> Segment:
    """A segment from the client."""
    return Segment(at_ns, CLIENT, SERVICE, sequence % 2**32, 0, flags, len(data), data)


def back(at_ns: int, sequence: int, data: bytes, acknowledged: int, flags: int = ACK) -> Segment:
    """A segment from the service."""
    return Segment(at_ns, SERVICE, CLIENT, sequence, acknowledged, flags, len(data), data)


def test_bytes_behind_a_gap_arrive_when_the_gap_is_filled() -> None:
    """A program cannot read what lies behind a lost segment."""
    stream = Stream()
    stream.begin(100)
    stream.add(out(10, 100, b"ab"))
    stream.add(out(20, 104, b"ef"))
    stream.add(out(90, 102, b"cd"))
    assert [stream.arrived_ns(offset) for offset in range(7)] == [10, 10, 90, 90, 90, 90, -1]
    assert bytes(stream.data) == b"abcdef"
    assert stream.arrived_by(90) == 2
    assert stream.arrived_by(91) == 6


def test_bytes_sent_again_left_the_first_time() -> None:
    """A retransmission does not change when a byte was handed over."""
    stream = Stream()
    stream.begin(2**32 - 2)
    stream.add(out(10, 2**32 - 2, b"abcd"))  # TCP's numbers wrap
    stream.add(out(250, 2**32 - 2, b"abcd"))
    stream.add(out(300, 2, b"ef"))
    assert stream.left_ns(3) == 10
    assert stream.left_ns(4) == 300
    assert stream.left_ns(6) == -1


@given(st.binary(min_size=1, max_size=60), st.integers(0, 2**32 - 1), st.randoms())
def test_any_order_gives_the_same_bytes(data: bytes, base: int, chance: random.Random) -> None:
    """However segments are cut, doubled and mixed, all bytes arrive, and in order."""
    cuts = sorted({0, len(data), *(chance.randrange(len(data) + 1) for _ in range(5))})
    pieces = [(begin, data[begin:end]) for begin, end in pairwise(cuts)]
    pieces += chance.sample(pieces, chance.randrange(len(pieces) + 1))
    chance.shuffle(pieces)
    stream = Stream()
    stream.begin(base)
    for at_ns, (begin, piece) in enumerate(pieces, 1):
        stream.add(out(at_ns, base + begin, piece))
    assert bytes(stream.data) == data
    arrived = [stream.arrived_ns(offset) for offset in range(len(data))]
    assert arrived == sorted(arrived)
    first_seen = {
        offset: min(
            at_ns
            for at_ns, (begin, piece) in enumerate(pieces, 1)
            if begin <= offset < begin + len(piece)
        )
        for offset in range(len(data))
    }
    assert all(arrived[offset] >= at_ns for offset, at_ns in first_seen.items())
    assert arrived[-1] == max(first_seen.values())


def test_connections_are_told_apart_where_a_port_is_used_again() -> None:
    """A new first packet begins a new connection; one sent again does not."""
    found = connections_in(
        [
            out(1, 99, b"", SYN),
            out(5, 99, b"", SYN),
            back(9, 500, b"", 100, SYN | ACK),
            out(10, 100, b"one"),
            back(12, 501, b"two", 103),
            out(50, 7000, b"", SYN),
            out(60, 7001, b"three"),
        ],
        (SERVICE,),
    )
    first, second = found.values()
    assert (first.asked_ns, first.granted_ns) == (1, 9)
    assert bytes(first.out.data) == b"one"
    assert bytes(first.back.data) == b"two"
    assert first.out.acknowledged_ns(3) == 12
    assert bytes(second.out.data) == b"three"
