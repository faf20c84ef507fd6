"""A run over time: what was requested in each slice of it, to be put together to stages later.

A slice is a quarter of a second of the generator's wall clock. Where more than 1,024 of them would
be in use, they become twice as long, and so on: memory is bounded however long a run is, and what
of it is short is told finely. A request belongs to the slice in which it started.

Merging is addition, and the same in whatever order: slices are as long as those of all runs
together have to be.
"""

from __future__ import annotations

import zlib
from itertools import pairwise
from struct import Struct

import numpy as np

from trilat.agent.errors import InputError
from trilat.correlator.arrays import INSTANT_MAX, Int64s
from trilat.correlator.attribution.attribute import Attributed

from .sparse import SparseSums
from .timeslice import SPAN, WIDTH, Slice, sliced

__all__ = ["SLICES_MAX", "SLICE_NS", "Slices"]

SLICE_NS = 250_000_000
"""Length of a slice, as long as there are few."""
SLICES_MAX = 1024
"""Most slices in use."""

_HEAD = Struct("<QII")
_DOUBLINGS_MAX = 34
_CELLS_MAX = 2**21  # of all: twice 1,000 buckets in each of 1,024 slices
_LARGEST = 2**62


class Slices:
    """The slices of a run.

    Attributes:
        length_ns: of each.
    """

    def __init__(self) -> None:
        self.length_ns = SLICE_NS
        self._slices: dict[int, Slice] = {}

    def __bool__(self) -> bool:
        return bool(self._slices)

    def add(self, requests: Attributed) -> None:
        """Count a batch of requests; those whose start is not known are left out."""
        dated = np.flatnonzero(requests.started_wall_ns > 0)
        if not dated.size:
            return
        number = requests.started_wall_ns[dated] // self.length_ns
        order = np.argsort(number, kind="stable")
        place, number = dated[order], number[order]
        starts = np.flatnonzero(np.diff(number, prepend=-1))
        for begin, piece in zip(starts, sliced(requests, place, starts), strict=True):
            self._slice(int(number[begin])).add(piece)
        self._bound()

    def merge(self, other: Slices) -> None:
        """Add another's slices to these; the other stays as it is."""
        self._stretch(other.length_ns)
        for number, each in other._slices.items():
            self._slice(number * other.length_ns // self.length_ns).add(each)
        self._bound()

    def between(self, begin_ns: int, end_ns: int) -> tuple[Slice, float]:
        """The slices whose middle is in a span of time, put together.

        Returns:
            What is in them, and the time that they cover, in seconds.
        """
        half = self.length_ns // 2
        first, last = (-((half - each) // self.length_ns) for each in (begin_ns, end_ns))
        together = Slice()
        for number, each in self._slices.items():
            if first <= number < last:
                together.add(each)
        return together, max(last - first, 0) * self.length_ns / 1e9

    def _slice(self, number: int) -> Slice:
        found = self._slices.get(number)
        if found is None:
            found = self._slices[number] = Slice()
        return found

    def _bound(self) -> None:
        while len(self._slices) > SLICES_MAX:
            self._stretch(2 * self.length_ns)

    def _stretch(self, length_ns: int) -> None:
        """Let slices be at least so long: a power of two times `SLICE_NS`."""
        if length_ns <= self.length_ns:
            return
        times, old = length_ns // self.length_ns, self._slices
        self.length_ns, self._slices = length_ns, {}
        for number, each in old.items():
            self._slice(number // times).add(each)

    def to_bytes(self) -> bytes:
        """The slices as bytes; equal ones give equal bytes."""
        numbers = sorted(self._slices)
        slices = [self._slices[number] for number in numbers]
        sizes = [each.cells.keys.size for each in slices]
        columns = (
            np.array(numbers, "<i8"),
            np.array([each.numbers for each in slices], "<i8"),
            np.array([each.maxs for each in slices], "<i8"),
            np.array(sizes, "<u4"),
            *(each.cells.keys.astype("<u4") for each in slices),
            *(each.cells.sums.astype("<i8") for each in slices),
        )
        packed = zlib.compress(b"".join(column.tobytes() for column in columns), 1)
        return _HEAD.pack(self.length_ns, len(slices), sum(sizes)) + packed

    @classmethod
    def from_bytes(cls, raw: bytes) -> Slices:
        """Read what `to_bytes` wrote.

        Raises:
            InputError: these are not the bytes of slices.
        """
        try:
            return _decoded(raw)
        except (ValueError, zlib.error) as error:
            raise InputError(f"damaged slices of a run ({error})") from error

    def put(self, number: int, each: Slice) -> None:
        """Set one slice, as it was read."""
        self._slices[number] = each


def _decoded(raw: bytes) -> Slices:
    """Slices from bytes that anyone may have made.

    Raises:
        ValueError: they are none.
        zlib.error: they cannot be decompressed.
    """
    if len(raw) < _HEAD.size:
        raise ValueError("cut short")
    length_ns, count, cells = _HEAD.unpack_from(raw)
    times, rest = divmod(length_ns, SLICE_NS)
    if rest or times < 1 or times & (times - 1) or times.bit_length() > _DOUBLINGS_MAX:
        raise ValueError("no such length")
    if count > SLICES_MAX or cells > min(count * SPAN, _CELLS_MAX):
        raise ValueError("more than there can be")
    widths = (count * 8, count * WIDTH * 8, count * 16, count * 4, cells * 4, cells * 8)
    stream = zlib.decompressobj()
    plain = stream.decompress(raw[_HEAD.size :], sum(widths) + 1)
    if not stream.eof or stream.unused_data or len(plain) != sum(widths):
        raise ValueError("of another length")
    at = np.concatenate(([0], np.cumsum(widths))).tolist()
    pieces = [plain[begin:end] for begin, end in pairwise(at)]
    kinds = ("<i8", "<i8", "<i8", "<u4", "<u4", "<i8")
    columns = [
        np.frombuffer(piece, kind).astype(np.int64)
        for piece, kind in zip(pieces, kinds, strict=True)
    ]
    _check(columns)
    number, numbers, maxs, sizes, keys, sums = columns
    numbers, maxs = numbers.reshape(count, WIDTH), maxs.reshape(count, 2)
    ends = np.cumsum(sizes)
    slices = Slices()
    slices.length_ns = length_ns
    for i, (begin, end) in enumerate(zip((ends - sizes).tolist(), ends.tolist(), strict=True)):
        of_one = keys[begin:end].astype(np.int32)
        if (np.diff(of_one) <= 0).any():
            raise ValueError("cells out of order")
        found = Slice(numbers[i], maxs[i], SparseSums(of_one, sums[begin:end]))
        if found.response.count != found.requests:
            raise ValueError("cells that are not those of the requests")
        if found.corrected.count != found.requests + found.missed:
            raise ValueError("cells that are not those of the tasks")
        slices.put(int(number[i]), found)
    return slices


def _check(columns: list[Int64s]) -> None:
    """Hold the columns against their ranges.

    Raises:
        ValueError: something is out of range.
    """
    number, numbers, maxs, sizes, keys, sums = columns
    if (
        (np.diff(number) <= 0).any()
        or (number < 0).any()
        or (number > INSTANT_MAX // SLICE_NS).any()
        or (numbers < 0).any()
        or numbers.sum(dtype=np.float64) > _LARGEST
        or (maxs < 0).any()
        or sizes.sum() != keys.size
        or (keys >= SPAN).any()
        or (sums < 1).any()
        or sums.sum(dtype=np.float64) > _LARGEST
    ):
        raise ValueError("out of range")
