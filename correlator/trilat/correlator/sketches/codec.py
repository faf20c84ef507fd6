"""The counts of many sketches as bytes, and back from bytes that anyone may have made.

``trilat-sketches 3`` and a newline; four u32: how many sketches, cells, parts and blocked cells
all of them have together; then a zlib stream of columns, each with the values of all sketches one
after the other: ten plain numbers, sums, smallest and largest values, grades, how many cells and
how many blocked cells each has, the cells (key differences and requests), the parts (ten rows), the
blocked cells (key differences and two rows). Key differences are u16, grades u8, the numbers of
cells u32, all else i64, little-endian. Numbers of 8 bytes stand byte plane by byte plane, as their
upper bytes are mostly 0, which zlib makes next to nothing of.

Everything is done for all sketches at once: a master decodes every worker's report while it works,
and the cost of numpy is in the number of calls.

Reading believes nothing: numbers out of range, or that contradict each other, are refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

import numpy as np
import numpy.typing as npt

from trilat.agent.errors import InputError
from trilat.agent.records import COMPONENTS, Grade
from trilat.correlator.arrays import Int32s, Int64s

from .buckets import BUCKETS
from .columns import Columns
from .counts import PARTS, Counts
from .variables import VARIABLES

__all__ = ["decode", "encode"]

_MAGIC = b"trilat-sketches 3\n"
_SIZES = Struct("<IIII")
_SPAN = len(VARIABLES) * BUCKETS
_SKETCHES_MAX = 1001  # of a book: `trilat.correlator.sketches.book.ENDPOINTS_MAX`, and the rest
_CELLS_MAX = 2**23  # of all: 1,000 endpoints with 17 variables of 490 buckets
_PARTS_MAX = 2**19
_BLOCKED_ROWS = 2
_COUNT_MAX = 2**40  # requests; sums of counts fit an int64 then
_SUM_MAX = 2**62

_NUMBERS = (
    "requests",
    "failures",
    "matched",
    "scheduled",
    "first_wall_ns",
    "last_wall_ns",
    "queue_low_ns",
    "queue_high_ns",
    "blocked_known",
    "blocked_max_ns",
)
_VECTORS = ("sums", "mins", "maxs")


def encode(pages: Sequence[Counts]) -> bytes:
    """The counts of sketches as bytes; equal counts give equal bytes."""
    keys = [page.cells.keys for page in pages]
    blocked = [page.blocked.keys for page in pages]
    cells = [each.size for each in keys]
    blocks = [each.size for each in blocked]
    parts = [page.parts.keys.size for page in pages]
    numbers = np.array([[getattr(page, name) for page in pages] for name in _NUMBERS], np.int64)
    plain = [_planes(numbers)]
    plain += [_planes(np.array([getattr(page, name) for page in pages])) for name in _VECTORS]
    plain += [
        b"".join(page.grades.tobytes() for page in pages),
        np.array([*cells, *blocks], "<u4").tobytes(),
        b"".join(_steps(each) for each in keys),
        _planes(_joined([page.cells.sums for page in pages])),
        _planes(_joined([page.parts.sums for page in pages])),
        b"".join(_steps(each) for each in blocked),
        _planes(_joined([page.blocked.sums for page in pages])),
    ]
    # Level 1: the load generator does this while it works, and planes gain little from more.
    packed = zlib.compress(b"".join(plain), 1)
    return _MAGIC + _SIZES.pack(len(pages), sum(cells), sum(parts), sum(blocks)) + packed


def _joined(pieces: list[Int64s]) -> Int64s:
    return np.concatenate(pieces, axis=-1) if pieces else np.zeros(0, np.int64)


def _steps(keys: Int32s) -> bytes:
    return np.diff(keys, prepend=np.int32(0)).astype("<u2").tobytes()


def _planes(numbers: Int64s) -> bytes:
    little = np.ascontiguousarray(numbers, "<i8")
    return little.reshape(-1, 1).view(np.uint8).T.tobytes()


def decode(raw: bytes) -> list[Counts]:
    """The counts of sketches from bytes.

    Raises:
        InputError: not what `encode` writes, or numbers that no requests can give.
    """
    sizes, plain = _unpack(raw)
    try:
        columns = _columns(sizes, _Reader(plain))
    except ValueError as error:
        raise InputError(f"damaged sketch: its numbers cannot be read ({error})") from error
    if not columns.hold():
        raise InputError("damaged sketch: its numbers contradict each other")
    return columns.counts()


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How much there is of what, in all sketches together."""

    sketches: int
    cells: int
    parts: int
    blocks: int

    @property
    def plain(self) -> int:
        """Bytes of all columns."""
        fixed = (len(_NUMBERS) + len(_VECTORS) * len(VARIABLES) + 1) * 8 + len(COMPONENTS)
        cells = self.cells * (2 + 8) + self.parts * PARTS * 8
        return self.sketches * fixed + cells + self.blocks * (2 + _BLOCKED_ROWS * 8)


def _unpack(raw: bytes) -> tuple[_Sizes, bytes]:
    at = len(_MAGIC) + _SIZES.size
    if not raw.startswith(_MAGIC):
        raise InputError("not a trilat sketch (version 3)")
    if len(raw) < at:
        raise InputError("damaged sketch: cut short")
    sizes = _Sizes(*_SIZES.unpack_from(raw, len(_MAGIC)))
    if (
        sizes.sketches > _SKETCHES_MAX
        or sizes.cells > _CELLS_MAX
        or sizes.parts > _PARTS_MAX
        or sizes.blocks > sizes.parts
    ):
        raise InputError("damaged sketch: larger than any run's can be")
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(raw[at:], sizes.plain + 1)
    except zlib.error as error:
        raise InputError("damaged sketch: it cannot be decompressed") from error
    if not stream.eof or stream.unused_data or len(plain) != sizes.plain:
        raise InputError("damaged sketch: cut short, too long, or followed by something else")
    return sizes, plain


class _Reader:
    """Takes columns off the front; as many bytes as they have are there."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def numbers(self, *shape: int) -> Int64s:
        """Numbers from 0 on that fit an int64.

        Raises:
            ValueError: they do not.
        """
        count = int(np.prod(shape))
        planes = np.frombuffer(self._take(count * 8), np.uint8).reshape(8, count)
        values = np.ascontiguousarray(planes.T).view("<i8").astype(np.int64).reshape(shape)
        if (values < 0).any() or (values > _SUM_MAX).any():
            raise ValueError("out of range")
        return values

    def small(self, count: int, kind: str) -> npt.NDArray[np.int64]:
        """Numbers of fewer bytes."""
        raw = self._take(count * np.dtype(kind).itemsize)
        return np.frombuffer(raw, kind).astype(np.int64)

    def keys(self, sizes: Int64s, bound: int) -> Int32s:
        """Keys from their differences, which begin anew with each sketch.

        Raises:
            ValueError: they do not ascend, or reach the bound.
        """
        steps = self.small(int(sizes.sum()), "<u2")
        ends = np.cumsum(sizes)
        firsts = (ends - sizes)[sizes > 0]
        within = np.ones(steps.size, np.bool_)
        within[firsts] = False
        upto = np.cumsum(steps)
        keys = upto - np.repeat(upto[firsts] - steps[firsts], sizes[sizes > 0])
        if (steps[within] < 1).any() or (keys >= bound).any():
            raise ValueError("keys not ascending")
        checked: Int32s = keys.astype(np.int32)
        return checked

    def _take(self, size: int) -> bytes:
        taken = self._raw[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError("cut short")
        self._at += size
        return taken


def _columns(sizes: _Sizes, reader: _Reader) -> Columns:
    """The columns in the right shapes, all numbers in their own ranges.

    Raises:
        ValueError: something is of another length or range.
    """
    count, variables = sizes.sketches, len(VARIABLES)
    numbers = dict(zip(_NUMBERS, reader.numbers(len(_NUMBERS), count), strict=True))
    sums, mins, maxs = (reader.numbers(count, variables) for _ in _VECTORS)
    grades = reader.small(count * len(COMPONENTS), "u1").reshape(count, len(COMPONENTS))
    cells, blocks = reader.small(2 * count, "<u4").reshape(2, count)
    if (
        cells.sum() != sizes.cells
        or blocks.sum() != sizes.blocks
        or (cells > _SPAN).any()
        or (grades > max(Grade)).any()
    ):
        raise ValueError("out of range")
    keys = reader.keys(cells, _SPAN)
    in_cells = reader.numbers(sizes.cells)
    in_parts = reader.numbers(PARTS, sizes.parts)
    blocked_keys = reader.keys(blocks, BUCKETS)
    in_blocks = reader.numbers(_BLOCKED_ROWS, sizes.blocks)
    page = np.repeat(np.arange(count), cells)
    parts = np.bincount(page[keys < BUCKETS], minlength=count).astype(np.int64)
    if (
        parts.sum() != sizes.parts
        or (in_cells < 1).any()
        or (in_cells > _COUNT_MAX).any()
        or (in_blocks < 1).any()
        # Of all together, since they are added up; in floating point, which cannot overflow.
        or in_parts.sum(dtype=np.float64) > _SUM_MAX
        or in_blocks.sum(dtype=np.float64) > _SUM_MAX
        or (sums.sum(axis=0, dtype=np.float64) > _SUM_MAX).any()
    ):
        raise ValueError("out of range")
    return Columns(
        numbers=numbers,
        sums=sums,
        mins=mins,
        maxs=maxs,
        grades=grades.astype(np.uint8),
        cells=cells,
        parts=parts,
        blocks=blocks,
        keys=keys,
        in_cells=in_cells,
        in_parts=in_parts,
        blocked_keys=blocked_keys,
        in_blocks=in_blocks,
    )
