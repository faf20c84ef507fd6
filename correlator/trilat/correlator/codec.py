"""A sketch's counts as bytes, and back from bytes that anyone may have made.

``trilat-sketch 2`` and a newline, then a zlib stream of: length of the header (u32), the header
(JSON: the plain numbers), and five arrays, little-endian: key differences (u2), counts of the
cells (i8), sums of the parts (10 rows of i8), and of what blocked the event loop the key
differences (u2) and sums (2 rows of i8). Numbers of 8 bytes stand byte plane by byte plane, as
their upper bytes are mostly 0, which zlib makes next to nothing of. Version 1, which is read as
well, knows nothing of the event loop.

Reading believes nothing: numbers out of range, or that contradict each other, are refused.
"""

from __future__ import annotations

import json
import zlib
from struct import Struct
from typing import Any

import numpy as np

from trilat.agent.errors import InputError
from trilat.agent.records import COMPONENTS, Component, Grade

from .arrays import INSTANT_MAX, MAX_NS, Int32s, Int64s
from .buckets import BUCKETS, bucket_of
from .counts import PARTS, Counts
from .sparse import SparseSums, run_starts
from .variables import BASES, VARIABLES, Basis

__all__ = ["decode", "encode"]

_MAGIC = b"trilat-sketch 2\n"
_MAGIC_1 = b"trilat-sketch 1\n"
_LENGTH = Struct("<I")
_HEADER_MAX = 2**13
_CELLS_MAX = len(VARIABLES) * BUCKETS
_KEYED = 2 + 8  # bytes of a key and one sum
_BLOCKED_ROWS = 2
_PLAIN_MAX = (
    _LENGTH.size + _HEADER_MAX + _CELLS_MAX * _KEYED + BUCKETS * (PARTS * 8 + 2 + _BLOCKED_ROWS * 8)
)
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
    "blocked_known",
    "blocked_max_ns",
)
_SINCE_2 = ("blocked_known", "blocked_max_ns", "blocked_cells")
_VECTORS = ("sums", "mins", "maxs")


def encode(counts: Counts) -> bytes:
    """Counts as bytes; equal counts give equal bytes."""
    header = {name: getattr(counts, name) for name in _NUMBERS}
    header |= {name: getattr(counts, name).tolist() for name in (*_VECTORS, "grades")}
    keys, blocked = counts.cells.keys, counts.blocked
    header |= {"cells": int(keys.size), "blocked_cells": int(blocked.keys.size)}
    text = json.dumps(header, separators=(",", ":")).encode()
    plain = (
        _LENGTH.pack(len(text)),
        text,
        _steps(keys),
        _planes(counts.cells.sums),
        _planes(counts.parts.sums),
        _steps(blocked.keys),
        _planes(blocked.sums),
    )
    # Level 1: the load generator does this while it works, and planes gain little from more.
    return _MAGIC + zlib.compress(b"".join(plain), 1)


def _steps(keys: Int32s) -> bytes:
    return np.diff(keys, prepend=np.int32(0)).astype("<u2").tobytes()


def _keys_of(steps: bytes, bound: int) -> Int32s:
    """Keys from their differences.

    Raises:
        ValueError: they do not ascend, or reach the bound.
    """
    keys = np.cumsum(np.frombuffer(steps, "<u2"), dtype=np.int64)
    if (np.diff(keys) <= 0).any() or (keys >= bound).any():
        raise ValueError("keys not ascending")
    return keys.astype(np.int32)


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
    if raw.startswith(_MAGIC_1):
        header |= dict.fromkeys(_SINCE_2, 0)
    try:
        counts = _counts(header, body)
        holds = _holds(counts)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError("damaged sketch: its numbers cannot be read") from error
    if not holds:
        raise InputError("damaged sketch: its numbers contradict each other")
    return counts


def _unpack(raw: bytes) -> bytes:
    if not raw.startswith((_MAGIC, _MAGIC_1)):
        raise InputError("not a trilat sketch (version 1 or 2)")
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
    cells, blocked = _integers([header["cells"], header["blocked_cells"]], 2)
    if cells > _CELLS_MAX or blocked > BUCKETS or max(grades) > max(Grade):
        raise ValueError("out of range")
    reader = _Reader(body)
    keys = _keys_of(reader.take(cells * 2), _CELLS_MAX)
    in_cells = _numbers_of(reader.take(cells * 8))
    response = int(np.searchsorted(keys, BUCKETS))
    parts = _numbers_of(reader.take(response * PARTS * 8)).reshape(PARTS, -1)
    blocked_keys = _keys_of(reader.take(blocked * 2), BUCKETS)
    blocks = _numbers_of(reader.take(blocked * _BLOCKED_ROWS * 8)).reshape(_BLOCKED_ROWS, -1)
    if (
        reader.left
        or (in_cells < 1).any()
        or (in_cells > _COUNT_MAX).any()
        or (parts < 0).any()
        or parts.sum(dtype=np.float64) > _SUM_MAX
        or (blocks < 1).any()
        or blocks.sum(dtype=np.float64) > _SUM_MAX
    ):
        raise ValueError("out of range")
    return Counts(
        **{name: header[name] for name in _NUMBERS},
        sums=sums,
        mins=mins,
        maxs=maxs,
        grades=np.array(grades, np.uint8),
        cells=SparseSums(keys, in_cells),
        parts=SparseSums(keys[:response], parts),
        blocked=SparseSums(blocked_keys, blocks),
    )


class _Reader:
    """Takes bytes off the front."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def take(self, size: int) -> bytes:
        """So many bytes.

        Raises:
            ValueError: there are fewer.
        """
        taken = self._raw[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError("cut short")
        self._at += size
        return taken

    @property
    def left(self) -> int:
        """How many bytes nobody took."""
        return len(self._raw) - self._at


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
        and _blocked_holds(counts)
    )


def _blocked_holds(counts: Counts) -> bool:
    """Whether the event loop was blocked in requests that are there, and for as long as they took.

    It is blocked within ``service.app``, so in each bucket for no longer than that.
    """
    keys, (touched, times) = counts.blocked.keys, counts.blocked.sums
    response = counts.parts.keys
    at = np.searchsorted(response, keys)
    if (at >= response.size).any() or (response[at] != keys).any():
        return False
    in_app = counts.parts.sums[Component.SERVICE_APP, at]
    longest = counts.blocked_max_ns
    return bool(
        counts.blocked_known <= counts.matched
        and int(touched.sum()) <= counts.blocked_known
        and (touched <= counts.cells.sums[at]).all()
        and (times <= in_app).all()
        and (longest > 0) == (keys.size > 0)
        and longest <= int(times.max(initial=0))
        and longest * float(touched.sum()) >= float(times.sum()) * (1 - 1e-9)
    )
