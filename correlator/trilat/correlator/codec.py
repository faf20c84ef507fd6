"""A sketch's counts as bytes, and back from bytes that anyone may have made.

``trilat-sketch 1`` and a newline, then a zlib stream of: length of the header (u32), the header
(JSON: the plain numbers), and three arrays, little-endian: key differences (u2), counts of the
cells (i8), sums of the parts (10 rows of i8). Numbers of 8 bytes stand byte plane by byte plane, as
their upper bytes are mostly 0, which zlib makes next to nothing of.

Reading believes nothing: numbers out of range, or that contradict each other, are refused.
"""

from __future__ import annotations

import json
import zlib
from struct import Struct
from typing import Any

import numpy as np

from trilat.agent.errors import InputError
from trilat.agent.records import COMPONENTS, Grade

from .arrays import INSTANT_MAX, MAX_NS, Int32s, Int64s
from .buckets import BUCKETS, bucket_of
from .counts import PARTS, Counts
from .sparse import SparseSums, run_starts
from .variables import BASES, VARIABLES, Basis

__all__ = ["decode", "encode"]

_MAGIC = b"trilat-sketch 1\n"
_LENGTH = Struct("<I")
_HEADER_MAX = 2**13
_CELLS_MAX = len(VARIABLES) * BUCKETS
_PLAIN_MAX = _LENGTH.size + _HEADER_MAX + _CELLS_MAX * (2 + 8) + BUCKETS * PARTS * 8
_COUNT_MAX = 2**40  # requests; sums of counts fit an int64 then
_SUM_MAX = 2**62

_NUMBERS = (
    "requests",
    "failures",
    "matched",
    "first_wall_ns",
    "last_wall_ns",
    "queue_low_ns",
    "queue_high_ns",
)
_VECTORS = ("sums", "mins", "maxs")


def encode(counts: Counts) -> bytes:
    """Counts as bytes; equal counts give equal bytes."""
    header = {name: getattr(counts, name) for name in _NUMBERS}
    header |= {name: getattr(counts, name).tolist() for name in (*_VECTORS, "grades")}
    keys = counts.cells.keys
    header["cells"] = int(keys.size)
    text = json.dumps(header, separators=(",", ":")).encode()
    plain = (
        _LENGTH.pack(len(text)),
        text,
        np.diff(keys, prepend=np.int32(0)).astype("<u2").tobytes(),
        _planes(counts.cells.sums),
        _planes(counts.parts.sums),
    )
    # Level 1: the load generator does this while it works, and planes gain little from more.
    return _MAGIC + zlib.compress(b"".join(plain), 1)


def _planes(numbers: Int64s) -> bytes:
    little = np.ascontiguousarray(numbers, "<i8")
    return little.reshape(-1, 1).view(np.uint8).T.tobytes()


def _numbers_of(planes: bytes) -> Int64s:
    raw = np.frombuffer(planes, np.uint8).reshape(8, -1)
    return np.ascontiguousarray(raw.T).view("<i8").ravel().astype(np.int64)


def decode(raw: bytes) -> Counts:
    """Counts from bytes.

    Raises:
        InputError: not what `encode` writes, or numbers that no requests can give.
    """
    plain = _unpack(raw)
    header, body = _header(plain)
    try:
        counts = _counts(header, body)
        holds = _holds(counts)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError("damaged sketch: its numbers cannot be read") from error
    if not holds:
        raise InputError("damaged sketch: its numbers contradict each other")
    return counts


def _unpack(raw: bytes) -> bytes:
    if not raw.startswith(_MAGIC):
        raise InputError("not a trilat sketch (version 1)")
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(raw[len(_MAGIC) :], _PLAIN_MAX)
    except zlib.error as error:
        raise InputError("damaged sketch: it cannot be decompressed") from error
    if not stream.eof or stream.unused_data:
        raise InputError("damaged sketch: cut short, too long, or followed by something else")
    return plain


def _header(plain: bytes) -> tuple[dict[str, Any], bytes]:
    size = _LENGTH.unpack_from(plain)[0] if len(plain) >= _LENGTH.size else _HEADER_MAX + 1
    end = _LENGTH.size + size
    if size > _HEADER_MAX or end > len(plain):
        raise InputError("damaged sketch: its header is cut short or too long")
    try:
        header = json.loads(plain[_LENGTH.size : end])
    except (ValueError, RecursionError) as error:
        raise InputError("damaged sketch: its header is not JSON") from error
    if not isinstance(header, dict):
        raise InputError("damaged sketch: its header is not an object")
    return header, plain[end:]


def _integers(values: Any, size: int) -> list[int]:
    """A list of so many integers from 0 on that fit an int64."""
    if not isinstance(values, list) or len(values) != size:
        raise ValueError("wrong length")
    if not all(type(value) is int and 0 <= value <= _SUM_MAX for value in values):
        raise ValueError("not an integer in range")
    return values


def _counts(header: dict[str, Any], body: bytes) -> Counts:
    """Counts of the right shapes, all numbers in their own ranges.

    Raises:
        KeyError: something is missing.
        TypeError: something is of another type.
        ValueError: something is of another length or range.
    """
    _integers([header[name] for name in _NUMBERS], len(_NUMBERS))
    sums, mins, maxs = (
        np.array(_integers(header[name], len(VARIABLES)), np.int64) for name in _VECTORS
    )
    grades = _integers(header["grades"], len(COMPONENTS))
    (cells,) = _integers([header["cells"]], 1)
    split = cells * 2, cells * (2 + 8)
    if cells > _CELLS_MAX or len(body) < split[1] or max(grades) > max(Grade):
        raise ValueError("out of range")
    keys = np.cumsum(np.frombuffer(body[: split[0]], "<u2"), dtype=np.int64)
    if (np.diff(keys) <= 0).any() or (keys >= _CELLS_MAX).any():
        raise ValueError("keys not ascending")
    in_cells = _numbers_of(body[split[0] : split[1]])
    parts = _numbers_of(body[split[1] :]).reshape(PARTS, -1)
    response = int(np.searchsorted(keys, BUCKETS))
    if (
        parts.shape[1] != response
        or (in_cells < 1).any()
        or (in_cells > _COUNT_MAX).any()
        or (parts < 0).any()
        or parts.sum(dtype=np.float64) > _SUM_MAX
    ):
        raise ValueError("out of range")
    narrow: Int32s = keys.astype(np.int32)
    return Counts(
        **{name: header[name] for name in _NUMBERS},
        sums=sums,
        mins=mins,
        maxs=maxs,
        grades=np.array(grades, np.uint8),
        cells=SparseSums(narrow, in_cells),
        parts=SparseSums(narrow[:response], parts),
    )


def _holds(counts: Counts) -> bool:
    """Whether numbers that are each in range could have been counted together."""
    keys, in_cells = counts.cells.keys, counts.cells.sums
    variable = keys // BUCKETS
    begins = run_starts(variable)
    count = np.zeros(len(VARIABLES), np.int64)
    low, high = np.full_like(count, 0), np.full_like(count, 0)
    if keys.size:
        used = variable[begins]
        count[used] = np.add.reduceat(in_cells, begins)
        low[used] = keys[begins] % BUCKETS
        high[used] = keys[np.append(begins[1:], keys.size) - 1] % BUCKETS
    some = count > 0
    mins, maxs, sums = counts.mins, counts.maxs, counts.sums
    floats = sums.astype(np.float64)
    return bool(
        counts.failures <= counts.requests
        and counts.first_wall_ns <= INSTANT_MAX
        and counts.queue_low_ns <= counts.queue_high_ns
        and (count[BASES == Basis.ALL] == counts.requests).all()
        and (count[BASES == Basis.MATCHED] == counts.matched).all()
        and (count <= counts.requests).all()
        and (count[BASES == Basis.MARKED] >= counts.matched).all()
        and np.unique(count[BASES == Basis.MARKED]).size == 1
        and (mins[~some] == MAX_NS).all()
        and (maxs[~some] == 0).all()
        and (sums[~some] == 0).all()
        and (mins[some] <= maxs[some]).all()
        and (maxs <= MAX_NS).all()
        and (bucket_of(mins[some]) == low[some]).all()
        and (bucket_of(maxs[some]) == high[some]).all()
        # In floating point, which cannot overflow; so with its rounding error left free.
        and (floats[some] >= count[some] * mins[some].astype(np.float64) * (1 - 1e-9)).all()
        and (floats[some] <= count[some] * maxs[some].astype(np.float64) * (1 + 1e-9)).all()
        and int(counts.parts.sums.sum()) == int(sums[0])
    )
