"""What sketches hold, as columns: all sketches at once, and whether their numbers can be true."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from trilat.agent.records import Component
from trilat.correlator.arrays import INSTANT_MAX, MAX_NS, Bools, Int32s, Int64s, UInt8s

from .buckets import BUCKETS, bucket_of
from .counts import Counts
from .sparse import SparseSums, run_starts
from .variables import BASES, VARIABLES, Basis

__all__ = ["Columns"]


@dataclass(frozen=True, slots=True)
class Columns:
    """What sketches hold, all of them in one array each; the first axis are the sketches.

    Of cells, parts and blocked cells those of all sketches stand one after the other, along the
    last axis.

    Attributes:
        numbers: the plain numbers, by the names that `Counts` has for them.
        sums: of each variable.
        mins: smallest of each.
        maxs: largest of each.
        grades: weakest of each component.
        cells: how many cells each sketch has.
        parts: how many of those are of the response time.
        blocks: how many blocked cells each has.
        keys: of the cells.
        in_cells: requests in each cell.
        in_parts: the ten sums of each cell of the response time.
        blocked_keys: of the blocked cells.
        in_blocks: requests and time in each blocked cell.
    """

    numbers: dict[str, Int64s]
    sums: Int64s
    mins: Int64s
    maxs: Int64s
    grades: UInt8s
    cells: Int64s
    parts: Int64s
    blocks: Int64s
    keys: Int32s
    in_cells: Int64s
    in_parts: Int64s
    blocked_keys: Int32s
    in_blocks: Int64s

    @property
    def requests(self) -> Int64s:
        """Requests of each sketch."""
        return self.numbers["requests"]

    def hold(self) -> bool:
        """Whether numbers that are each in range could have been counted together."""
        return _holds(self) and _blocked_holds(self)

    def counts(self) -> list[Counts]:
        """The counts of each sketch."""
        numbers = zip(*(column.tolist() for column in self.numbers.values()), strict=True)
        borders = [_borders(sizes) for sizes in (self.cells, self.parts, self.blocks)]
        pages = zip(numbers, *(pairwise(each) for each in borders), strict=True)
        return [
            Counts(
                **dict(zip(self.numbers, row, strict=True)),
                sums=self.sums[i],
                mins=self.mins[i],
                maxs=self.maxs[i],
                grades=self.grades[i],
                cells=SparseSums(self.keys[a:b], self.in_cells[a:b]),
                # The response time is the first variable: its cells stand in the parts' order.
                parts=SparseSums(self.keys[a : a + d - c], self.in_parts[:, c:d]),
                blocked=SparseSums(self.blocked_keys[e:f], self.in_blocks[:, e:f]),
            )
            for i, (row, (a, b), (c, d), (e, f)) in enumerate(pages)
        ]


def _borders(sizes: Int64s) -> list[int]:
    return [0, *np.cumsum(sizes).tolist()]


def _holds(columns: Columns) -> bool:
    """Whether numbers that are each in range could have been counted together."""
    count, low, high = _by_variable(columns)
    some = count > 0
    mins, maxs, sums = columns.mins, columns.maxs, columns.sums
    floats, numbers = sums.astype(np.float64), columns.numbers
    requests, matched = columns.requests[:, None], numbers["matched"][:, None]
    marked = count[:, BASES == Basis.MARKED]
    made_of = _added(columns.in_parts.sum(axis=0), columns.parts)
    return bool(
        (numbers["failures"] <= numbers["requests"]).all()
        and (numbers["first_wall_ns"] <= INSTANT_MAX).all()
        and (numbers["queue_low_ns"] <= numbers["queue_high_ns"]).all()
        and (numbers["queue_high_ns"] <= sums[:, 0]).all()  # a request waits within its time
        and (count[:, BASES == Basis.ALL] == requests).all()
        and (count[:, BASES == Basis.MATCHED] == matched).all()
        and (count[:, BASES != Basis.MISSED] <= requests).all()
        and (numbers["scheduled"] <= numbers["requests"]).all()
        and (marked >= matched).all()
        and (marked == marked[:, :1]).all()
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
        and (made_of == sums[:, 0]).all()
    )


def _by_variable(columns: Columns) -> tuple[Int64s, Int64s, Int64s]:
    """Requests, lowest and highest bucket in use of each variable of each sketch."""
    keys, sketches, variables = columns.keys, columns.cells.size, len(VARIABLES)
    rows = np.repeat(np.arange(sketches, dtype=np.int32), columns.cells) * np.int32(variables)
    rows = rows + keys // np.int32(BUCKETS)
    count, low, high = (np.zeros(sketches * variables, np.int64) for _ in range(3))
    if keys.size:
        begins = run_starts(rows)
        used = rows[begins]
        count[used] = np.add.reduceat(columns.in_cells, begins)
        low[used] = keys[begins] % BUCKETS
        high[used] = keys[np.append(begins[1:], keys.size) - 1] % BUCKETS
    shape = (sketches, variables)
    return count.reshape(shape), low.reshape(shape), high.reshape(shape)


def _added(values: Int64s, sizes: Int64s) -> Int64s:
    """Sums of the values of each sketch, which has so many of them."""
    upto = np.concatenate((np.zeros(1, np.int64), np.cumsum(values)))
    ends = np.cumsum(sizes)
    added: Int64s = upto[ends] - upto[ends - sizes]
    return added


def _blocked_holds(columns: Columns) -> bool:
    """Whether the event loop was blocked in requests that are there, and for as long as they took.

    It is blocked within ``service.app``, so in each bucket for no longer than that.
    """
    numbers, sizes = columns.numbers, columns.blocks
    known, longest = numbers["blocked_known"], numbers["blocked_max_ns"]
    if (known > numbers["matched"]).any() or ((longest > 0) != (sizes > 0)).any():
        return False
    if not columns.blocked_keys.size:  # a healthy service
        return True
    touched, times = columns.in_blocks
    at, found = _places(columns)
    if not found.all():
        return False
    response = columns.keys < BUCKETS  # in the parts' order
    starts = (np.cumsum(sizes) - sizes)[sizes > 0]
    most = np.zeros_like(sizes)
    most[sizes > 0] = np.maximum.reduceat(times, starts)
    touching, lasting = _added(touched, sizes), _added(times, sizes)
    return bool(
        (touching <= known).all()
        and (touched <= columns.in_cells[response][at]).all()
        and (times <= columns.in_parts[Component.SERVICE_APP, at]).all()
        and (longest <= most).all()
        and (longest * touching.astype(np.float64) >= lasting * (1 - 1e-9)).all()
    )


def _places(columns: Columns) -> tuple[npt.NDArray[np.intp], Bools]:
    """Where among all parts each blocked cell's bucket is, and whether it is there at all."""
    pages = np.arange(columns.cells.size, dtype=np.int64) * BUCKETS
    keys = np.repeat(pages, columns.parts) + columns.keys[columns.keys < BUCKETS]
    wanted = np.repeat(pages, columns.blocks) + columns.blocked_keys
    at = np.searchsorted(keys, wanted)
    return at, (at < keys.size) & (keys[np.minimum(at, keys.size - 1)] == wanted)
