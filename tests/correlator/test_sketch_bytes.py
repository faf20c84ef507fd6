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
from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import attribute
from trilat.correlator.attribution.cuts import cut
from trilat.correlator.sketches.book import SketchBook
from trilat.correlator.sketches.codec import decode, encode
from trilat.correlator.sketches.sketch import VARIABLES, Sketch

Rows = npt.NDArray[np.void]
MAGIC = b"trilat-sketches 3\n"
AT = len(MAGIC) + 16
NUMBERS = (
    *("requests", "failures", "matched", "scheduled", "first_wall_ns", "last_wall_ns"),
    *("queue_low_ns", "queue_high_ns", "blocked_known", "blocked_max_ns"),
)
Columns = dict[str, Any]
Change = Callable[[Columns], Any]


def _sketch(rows: Rows) -> Sketch:
    cuts = cut(rows)
    sketch = Sketch()
    sketch.update(attribute(cuts, Aligner(1).align(cuts)))
    return sketch


def _columns(raw: bytes) -> Columns:
    """The columns of one sketch's bytes, taken apart as the format's description has it."""
    sketches, cells, parts, blocks = struct.unpack_from("<IIII", raw, len(MAGIC))
    plain = zlib.decompress(raw[AT:])
    shapes = {
        "numbers": ("<i8", (len(NUMBERS), sketches)),
        "sums": ("<i8", (sketches, len(VARIABLES))),
        "mins": ("<i8", (sketches, len(VARIABLES))),
        "maxs": ("<i8", (sketches, len(VARIABLES))),
        "grades": ("u1", (sketches, 9)),
        "cells": ("<u4", (sketches,)),
        "blocks": ("<u4", (sketches,)),
        "steps": ("<u2", (cells,)),
        "in_cells": ("<i8", (cells,)),
        "in_parts": ("<i8", (10, parts)),
        "blocked_steps": ("<u2", (blocks,)),
        "in_blocks": ("<i8", (2, blocks)),
    }
    columns: Columns = {"sizes": [sketches, cells, parts, blocks]}
    at = 0
    for name, (kind, shape) in shapes.items():
        count = int(np.prod(shape))
        size = count * np.dtype(kind).itemsize
        piece, at = plain[at : at + size], at + size
        if kind == "<i8":  # byte plane by byte plane
            piece = np.frombuffer(piece, np.uint8).reshape(8, count).T.tobytes()
        columns[name] = np.frombuffer(piece, kind).reshape(shape).copy()
    assert at == len(plain)
    return columns


def _packed(columns: Columns) -> bytes:
    plain = b""
    for name, values in columns.items():
        if name != "sizes":
            raw = values.tobytes()
            if values.dtype == np.int64:
                raw = np.frombuffer(raw, np.uint8).reshape(-1, 8).T.tobytes()
            plain += raw
    return MAGIC + struct.pack("<IIII", *columns["sizes"]) + zlib.compress(plain)


def _changed(raw: bytes, change: Change) -> bytes:
    """A sketch's bytes with something in its columns changed."""
    columns = _columns(raw)
    change(columns)
    return _packed(columns)


def _set(name: str, value: int, *at: int) -> Change:
    """Set one value of a column, or all of them."""

    def change(columns: Columns) -> None:
        columns[name][at or ...] = value

    return change


def _number(name: str, value: int) -> Change:
    """Set one of the plain numbers."""
    return _set("numbers", value, NUMBERS.index(name), 0)


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


@given(st.lists(st.integers(0, 99), max_size=6))
@settings(deadline=None, max_examples=30)
def test_many_sketches_are_those_of_each(
    garbage: Callable[[int, int], Rows], seeds: list[int]
) -> None:
    """What is written together is read as what was written alone."""
    pages = [_sketch(garbage(1 + seed % 9, seed)).counts for seed in seeds]
    read = decode(encode(pages))
    assert [encode([page]) for page in read] == [encode([page]) for page in pages]


@given(st.binary(max_size=100), st.integers(0, 2**20))
@settings(deadline=None)
def test_any_bytes_are_refused(raw: bytes, size: int) -> None:
    """With one kind of error, with and without the right beginning."""
    sizes = struct.pack("<IIII", 1, size, 1, 0)
    beginnings = (b"", MAGIC, MAGIC + sizes)
    for hostile in (*(begin + raw for begin in beginnings), MAGIC + sizes + zlib.compress(raw)):
        with pytest.raises(InputError):
            Sketch.from_bytes(hostile)
    for hostile in (raw, b"trilat-book 2\n" + raw):
        with pytest.raises(InputError):
            SketchBook.from_bytes(hostile)


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_damage_is_noticed_or_harmless(
    garbage: Callable[[int, int], Rows], data: st.DataObject
) -> None:
    """Flipped bytes inside give an error, or a sketch that can be used like any other."""
    raw = _sketch(garbage(20, 1)).to_bytes()
    plain = bytearray(zlib.decompress(raw[AT:]))
    for _ in range(data.draw(st.integers(1, 3))):
        plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
    try:
        sketch = Sketch.from_bytes(raw[:AT] + zlib.compress(bytes(plain)))
    except InputError:
        return
    assert (sketch.makeup(0.9) >= 0).all()
    assert sketch.histogram("response").count == sketch.requests
    sketch.merge(sketch)
    assert Sketch.from_bytes(sketch.to_bytes()).requests == sketch.requests


@pytest.mark.parametrize(
    "change",
    [
        _number("requests", 2),
        _number("requests", -1),
        _number("failures", 5),
        _number("matched", 0),
        _number("first_wall_ns", 2**62 + 1),
        _number("queue_low_ns", 2**61),
        _set("grades", 9),
        _set("sums", 2**62 + 1),
        _set("sums", 0),
        _set("mins", 0),
        _set("maxs", 2**62),
        _set("cells", 2**31),
        _set("cells", 0),
        _set("steps", 0),
        _set("steps", 2**16 - 1),
        _set("in_cells", 0),
        _set("in_cells", 2),
        _set("in_cells", 2**41),
        _set("in_parts", -1),
        _set("in_parts", 1),
        _set("in_parts", 2**61),
        lambda columns: columns["sizes"].__setitem__(0, 2),
        lambda columns: columns["sizes"].__setitem__(0, 2000),
        lambda columns: columns["sizes"].__setitem__(1, 2**31),
        lambda columns: columns["sizes"].__setitem__(2, 2**31),
        lambda columns: columns["sizes"].__setitem__(3, 2**31),
        lambda columns: columns.update(in_cells=columns["in_cells"][:-1]),
        lambda columns: columns.update(in_cells=np.append(columns["in_cells"], 1)),
    ],
)
def test_numbers_that_cannot_have_been_counted(row: Callable[..., Rows], change: Change) -> None:
    """Each is refused."""
    raw = _sketch(row()).to_bytes()
    Sketch.from_bytes(_changed(raw, lambda _: None))
    with pytest.raises(InputError, match="damaged sketch"):
        Sketch.from_bytes(_changed(raw, change))


@pytest.mark.parametrize(
    "change",
    [
        _number("blocked_known", 9),
        _number("blocked_known", 1),
        _number("blocked_max_ns", 0),
        _number("blocked_max_ns", 1),
        _number("blocked_max_ns", 50_000_000),
        _set("blocks", 0),
        _set("blocks", 2),
        _set("blocked_steps", 0),
        _set("blocked_steps", 2**16 - 1),
        _set("in_blocks", 0),
        _set("in_blocks", 9, 0),
        _set("in_blocks", 2**40, 1),
    ],
)
def test_blocks_that_cannot_have_been(row: Callable[..., Rows], change: Change) -> None:
    """More requests than there are, longer than any was, another number of cells."""
    rows = [row(service_blocked_ns=blocked_ms * 1_000_000) for blocked_ms in (1, 2, 3)]
    raw = _sketch(np.concatenate(rows)).to_bytes()
    assert Sketch.from_bytes(_changed(raw, lambda _: None)).blocked.known == 3
    with pytest.raises(InputError, match="damaged sketch"):
        Sketch.from_bytes(_changed(raw, change))


def test_numbers_of_another_sketch(row: Callable[..., Rows]) -> None:
    """Sketches that are each sound as a whole do not lend each other their cells."""
    short, long = _sketch(row()).counts, _sketch(row(response_ns=20_000_000)).counts
    columns = _columns(encode([short, long]))
    columns["in_parts"] = columns["in_parts"][:, ::-1]
    with pytest.raises(InputError, match="contradict"):
        decode(_packed(columns))


def test_not_one_sketch(row: Callable[..., Rows]) -> None:
    """Where one is expected, none and two are refused."""
    counts = _sketch(row()).counts
    for pages in ([], [counts, counts]):
        with pytest.raises(InputError, match="not one"):
            Sketch.from_bytes(encode(pages))


def test_a_bomb_is_not_unpacked() -> None:
    """A few bytes that would become a gigabyte are refused at the size that they tell."""
    stream = zlib.compressobj(9)
    bomb = b"".join(stream.compress(bytes(2**20)) for _ in range(256)) + stream.flush()
    with pytest.raises(InputError, match="too long"):
        Sketch.from_bytes(MAGIC + struct.pack("<IIII", 1, 17, 1, 0) + bomb)


def test_what_follows_a_sketch_is_refused(row: Callable[..., Rows]) -> None:
    """So is a sketch cut short."""
    raw = _sketch(row()).to_bytes()
    for hostile in (raw + b"x", raw[:-1]):
        with pytest.raises(InputError, match="damaged sketch"):
            Sketch.from_bytes(hostile)


def test_a_deeply_nested_index() -> None:
    """It cannot exhaust the stack."""
    with pytest.raises(InputError, match="not JSON"):
        SketchBook.from_bytes(b"trilat-book 2\n" + struct.pack("<I", 10**5) + b"[" * 10**5)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({}, "not a list"),
        ([["GET", "/"]] * 1002, "too long"),
        ([["GET"]], "an entry"),
        ([["GET", 1]], "an entry"),
        ([["GET", "\ud800"]], "an entry"),
        ([["GET", "/"]], "of another book"),
    ],
)
def test_an_index_that_is_none(index: Any, message: str) -> None:
    """Each is refused."""
    text = json.dumps(index).encode()
    with pytest.raises(InputError, match=message):
        SketchBook.from_bytes(b"trilat-book 2\n" + struct.pack("<I", len(text)) + text + encode([]))
