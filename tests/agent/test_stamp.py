"""The service's marks on the wire."""

from __future__ import annotations

import re
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.agent.records import UNKNOWN, ServiceMarks
from trilat.agent.stamp import EMPTY, STAMP, decode, encode, find, server_timing

INT64 = st.integers(-(2**63), 2**63 - 1)
UINT32 = st.integers(0, 2**32 - 1)
MARKS = st.builds(
    ServiceMarks,
    span=st.integers(0, 2**64 - 1),
    called_wall_ns=INT64,
    app_ns=st.integers(0, 2**63 - 1),
    blocked_ns=INT64,
    queue_ms=st.integers(-1, 2**31 - 1),
    tick_us=st.integers(0, 65_535).map(lambda tens: tens * 10),
    host=UINT32,
    instance=UINT32,
    flags=st.integers(0, 65_535),
)
ONE = ServiceMarks(
    span=0x00F067AA0BA902B7,
    called_wall_ns=1_700_000_000_123_456_789,
    app_ns=20_513_000,
    blocked_ns=UNKNOWN,
    queue_ms=4,
    tick_us=4_000,
    host=2_093_824_246,
    instance=1,
)


def test_header_reads_as_documented() -> None:
    """The bytes are those of the table in the module's docstring, whatever packs them."""
    packed = struct.pack(
        "<QqqqiHHII",
        ONE.span,
        ONE.called_wall_ns,
        ONE.app_ns,
        -1,
        4,
        400,
        0,
        ONE.host,
        ONE.instance,
    )
    assert len(packed) == STAMP.size == 48
    value = encode(ONE)
    assert re.fullmatch(rb'app;dur=20\.513, queue;dur=4, trilat;desc="1\.[\w+/]{64}"', value)
    assert find(value, ONE.span) == packed


@given(MARKS)
def test_marks_survive_the_wire(marks: ServiceMarks) -> None:
    """What was encoded is found and decoded as it was; only marks that are all zero are none."""
    packed = find(encode(marks), marks.span)
    assert decode(packed) == marks


@given(MARKS, st.integers(0, 2**64 - 1))
def test_stamp_of_another_request_is_none(marks: ServiceMarks, span: int) -> None:
    """A cached or foreign answer echoes another span and is not taken."""
    found = find(encode(marks), span)
    assert (found == EMPTY) or span == marks.span


@given(MARKS, MARKS, st.binary(max_size=40))
def test_outermost_stamp_of_a_request_wins(
    inner: ServiceMarks, outer: ServiceMarks, between: bytes
) -> None:
    """Of several stamps that echo the span the last one counts, since it was added last."""
    inner = replace(inner, span=1)
    outer = replace(outer, span=1)
    head = b"%b\r\nserver-timing: %b\r\n%b" % (encode(inner), between, encode(outer))
    assert decode(find(head, 1)) == outer


@given(MARKS, MARKS)
def test_stamp_of_another_request_does_not_hide_ours(
    ours: ServiceMarks, foreign: ServiceMarks
) -> None:
    """A later stamp that echoes another span is passed over."""
    ours, foreign = replace(ours, span=1), replace(foreign, span=2)
    assert decode(find(encode(ours) + b", " + encode(foreign), 1)) == ours


PIECES = st.sampled_from(
    [b'trilat;desc="1.', b'trilat;desc="2.', b"AAAA" * 16, b"=", b'"', b", ", b"\n", encode(ONE)]
)


@given(st.lists(PIECES | st.binary(max_size=70), max_size=12), st.integers(0, 2**64 - 1))
def test_hostile_header_is_a_stamp_or_none(pieces: list[bytes], span: int) -> None:
    """Whatever an answer carries, reading it gives 48 bytes that echo the span, or nothing."""
    packed = find(b"".join(pieces), span)
    assert len(packed) == STAMP.size
    assert packed == EMPTY or decode(packed).span == span


@given(MARKS, st.integers(0, 63))
def test_stamp_cut_short_is_none(marks: ServiceMarks, kept: int) -> None:
    """An answer's head that was cut inside the stamp gives nothing."""
    value = encode(marks)
    assert find(value[: value.index(b'"1.') + 3 + kept], marks.span) == EMPTY


def test_reading_takes_time_in_proportion() -> None:
    """A header made of thousands of beginnings is read through once."""
    assert find(b'trilat;desc="1.' * 20_000, 1) == EMPTY


def test_unknown_queue_is_left_out_for_people() -> None:
    """A browser gets no entry for what is not known; the stamp says UNKNOWN."""
    value = encode(replace(ONE, queue_ms=UNKNOWN))
    assert value.startswith(b'app;dur=20.513, trilat;desc="1.')
    assert decode(find(value, ONE.span)).queue_ms == UNKNOWN


@pytest.mark.parametrize(
    "field",
    [{"span": -1}, {"app_ns": 2**63}, {"queue_ms": 2**31}, {"host": 2**32}, {"flags": 65_536}],
    ids=lambda field: next(iter(field)),
)
def test_mark_out_of_range_is_an_error(field: dict[str, int]) -> None:
    """A number that does not fit is not cut to fit."""
    with pytest.raises(struct.error):
        encode(replace(ONE, **field))


@pytest.mark.parametrize("packed", [b"", b"\0" * 47, b"\0" * 49])
def test_other_lengths_cannot_be_decoded(packed: bytes) -> None:
    """Only 48 bytes are marks."""
    with pytest.raises(struct.error):
        decode(packed)


def test_packing_by_hand_gives_the_same_header() -> None:
    """The way without a `ServiceMarks`, which the middleware goes, ends in the same bytes."""
    packed = find(encode(ONE), ONE.span)
    assert server_timing(ONE.app_ns, ONE.queue_ms, ONE.blocked_ns, packed) == encode(ONE)
