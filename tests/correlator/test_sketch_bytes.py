"""Sketches and books as bytes, and bytes that are neither."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.errors import InputError
from trilat.correlator.align import Aligner
from trilat.correlator.attribute import attribute
from trilat.correlator.book import SketchBook
from trilat.correlator.cuts import cut
from trilat.correlator.sketch import VARIABLES, Sketch

Rows = npt.NDArray[np.void]
MAGIC = b"trilat-sketch 2\n"
Change = Callable[[dict[str, Any]], None]


def _sketch(rows: Rows) -> Sketch:
    cuts = cut(rows)
    sketch = Sketch()
    sketch.update(attribute(cuts, Aligner(1).align(cuts)))
    return sketch


def _changed(raw: bytes, change: Change | None = None, body: bytes | None = None) -> bytes:
    """A sketch's bytes with its header or its arrays changed."""
    plain = zlib.decompress(raw[len(MAGIC) :])
    (size,) = struct.unpack_from("<I", plain)
    header = json.loads(plain[4 : 4 + size])
    if change is not None:
        change(header)
    text = json.dumps(header).encode()
    arrays = plain[4 + size :] if body is None else body
    return MAGIC + zlib.compress(struct.pack("<I", len(text)) + text + arrays)


@given(st.integers(1, 60), st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_what_is_written_is_read(garbage: Callable[[int, int], Rows], n: int, seed: int) -> None:
    """A sketch of any requests survives the round trip exactly."""
    sketch = _sketch(garbage(n, seed))
    copy = Sketch.from_bytes(sketch.to_bytes())
    assert copy.to_bytes() == sketch.to_bytes()
    assert copy.requests == sketch.requests
    assert copy.grades == sketch.grades
    assert copy.makeup(0.5).tolist() == sketch.makeup(0.5).tolist()
    for variable in VARIABLES:
        assert copy.histogram(variable).counts.tolist() == (
            sketch.histogram(variable).counts.tolist()
        )


def test_ten_thousand_requests_are_small(simulate: Callable[..., Any]) -> None:
    """An endpoint's sketch fits into a message between processes."""
    sketch = _sketch(simulate(10_000, host=1, offset_ms=0, drift_ppm=0).rows)
    assert len(sketch.to_bytes()) < 20_000


@given(st.binary(max_size=100))
@settings(deadline=None)
def test_any_bytes_are_refused(raw: bytes) -> None:
    """With one kind of error, with and without the right beginning."""
    for hostile in (raw, MAGIC + raw, MAGIC + zlib.compress(raw)):
        with pytest.raises(InputError):
            Sketch.from_bytes(hostile)
    for hostile in (raw, b"trilat-book 1\n" + raw):
        with pytest.raises(InputError):
            SketchBook.from_bytes(hostile)


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_damage_is_noticed_or_harmless(
    garbage: Callable[[int, int], Rows], data: st.DataObject
) -> None:
    """Flipped bytes inside give an error, or a sketch that can be used like any other."""
    raw = _sketch(garbage(20, 1)).to_bytes()
    plain = bytearray(zlib.decompress(raw[len(MAGIC) :]))
    for _ in range(data.draw(st.integers(1, 3))):
        plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
    try:
        sketch = Sketch.from_bytes(MAGIC + zlib.compress(bytes(plain)))
    except InputError:
        return
    assert (sketch.makeup(0.9) >= 0).all()
    assert sketch.histogram("response").count == sketch.requests
    sketch.merge(sketch)
    assert Sketch.from_bytes(sketch.to_bytes()).requests == sketch.requests


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.pop("sums"),
        lambda header: header.update(requests=2),
        lambda header: header.update(requests="1"),
        lambda header: header.update(requests=True),
        lambda header: header.update(requests=1.0),
        lambda header: header.update(requests=-1),
        lambda header: header.update(matched=0),
        lambda header: header.update(failures=5),
        lambda header: header.update(cells=2**40),
        lambda header: header.update(cells=0),
        lambda header: header.update(grades=[9] * 9),
        lambda header: header.update(grades=[0] * 8),
        lambda header: header.update(sums=[2**70] * 17),
        lambda header: header.update(sums=[0] * 17),
        lambda header: header.update(mins=[0] * 17),
        lambda header: header.update(maxs=[2**62] * 17),
        lambda header: header.update(queue_low_ns=2**61),
        lambda header: header.update(padding="x" * 9000),
    ],
)
def test_numbers_that_cannot_have_been_counted(row: Callable[..., Rows], change: Change) -> None:
    """Each is refused."""
    raw = _sketch(row()).to_bytes()
    Sketch.from_bytes(_changed(raw))
    with pytest.raises(InputError, match="damaged sketch"):
        Sketch.from_bytes(_changed(raw, change))


@pytest.mark.parametrize("body", [b"", bytes(10), bytes(2000), b"\xff" * 2000])
def test_arrays_that_are_none(row: Callable[..., Rows], body: bytes) -> None:
    """Too short, too long, keys that do not ascend, counts below 0."""
    with pytest.raises(InputError, match="damaged sketch"):
        Sketch.from_bytes(_changed(_sketch(row()).to_bytes(), body=body))


def test_a_bomb_is_not_unpacked() -> None:
    """A few bytes that would become a gigabyte are refused at the size of the largest sketch."""
    stream = zlib.compressobj(9)
    bomb = b"".join(stream.compress(bytes(2**20)) for _ in range(256)) + stream.flush()
    with pytest.raises(InputError, match="too long"):
        Sketch.from_bytes(MAGIC + bomb)


def test_what_follows_a_sketch_is_refused(row: Callable[..., Rows]) -> None:
    """So is a sketch cut short."""
    raw = _sketch(row()).to_bytes()
    for hostile in (raw + b"x", raw[:-1]):
        with pytest.raises(InputError, match="damaged sketch"):
            Sketch.from_bytes(hostile)


def test_a_deeply_nested_header() -> None:
    """It cannot exhaust the stack."""
    text = b"[" * 8000
    raw = MAGIC + zlib.compress(struct.pack("<I", len(text)) + text)
    with pytest.raises(InputError, match="not JSON"):
        Sketch.from_bytes(raw)
    with pytest.raises(InputError, match="not JSON"):
        SketchBook.from_bytes(b"trilat-book 1\n" + struct.pack("<I", 10**5) + b"[" * 10**5)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({}, "not a list"),
        ([["GET", "/", 0]] * 1002, "too long"),
        ([["GET", "/"]], "an entry"),
        ([["GET", 1, 0]], "an entry"),
        ([["GET", "/", -1]], "an entry"),
        ([["GET", "\ud800", 0]], "an entry"),
        ([["GET", "/", 5]], "cut short or too long"),
        ([["GET", "/", 0]], "not a trilat sketch"),
    ],
)
def test_an_index_that_is_none(index: Any, message: str) -> None:
    """Each is refused."""
    text = json.dumps(index).encode()
    with pytest.raises(InputError, match=message):
        SketchBook.from_bytes(b"trilat-book 1\n" + struct.pack("<I", len(text)) + text)
