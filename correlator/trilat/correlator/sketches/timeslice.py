"""The requests of one slice of a run, as sums that can be added."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from trilat.correlator.arrays import Int64s
from trilat.correlator.attribution.attribute import Attributed

from .arrivals import missed_arrivals
from .buckets import BUCKETS, bucket_of, middle_of
from .counts import PARTS
from .histogram import Histogram
from .sparse import SparseSums, run_sizes, run_starts

__all__ = ["SPAN", "WIDTH", "Slice", "sliced"]

_NUMBERS = ("requests", "failures", "tasks", "scheduled", "missed", "corrected_ns")
WIDTH = len(_NUMBERS) + PARTS
"""Numbers of a slice."""
SPAN = 2 * BUCKETS
"""Cells that a slice may have: the response time's, and the corrected one's."""
_CORRECTED = np.int32(BUCKETS)


def _no_numbers() -> Int64s:
    return np.zeros(WIDTH, np.int64)


def _no_cells() -> SparseSums:
    return SparseSums(np.zeros(0, np.int32), np.zeros(0, np.int64))


@dataclass(slots=True)
class Slice:
    """Requests that started within some time.

    Attributes:
        numbers: sums over them: how many there are, failed, are a task's first, have an intended
            start; tasks that were never started; all corrected times, ns; the ten parts, ns.
        maxs: largest response time and corrected time, ns.
        cells: requests by bucket of the response time, and, `BUCKETS` further on, requests and
            tasks that were never started by bucket of the corrected time.
    """

    numbers: Int64s = field(default_factory=_no_numbers)
    maxs: Int64s = field(default_factory=lambda: np.zeros(2, np.int64))
    cells: SparseSums = field(default_factory=_no_cells)

    @property
    def requests(self) -> int:
        """How many."""
        return int(self.numbers[0])

    @property
    def failures(self) -> int:
        """How many of them failed."""
        return int(self.numbers[1])

    @property
    def tasks(self) -> int:
        """How many of them are a task's first, as far as users wait between tasks."""
        return int(self.numbers[2])

    @property
    def scheduled(self) -> int:
        """How many of them have an intended start."""
        return int(self.numbers[3])

    @property
    def missed(self) -> int:
        """Tasks that were due, and never started."""
        return int(self.numbers[4])

    @property
    def parts_ns(self) -> Int64s:
        """The nine components and what is unattributed, shape (10,), summed."""
        return self.numbers[len(_NUMBERS) :]

    @property
    def response(self) -> Histogram:
        """The response time."""
        return self._histogram(0, int(self.parts_ns.sum()))

    @property
    def corrected(self) -> Histogram:
        """The response time counted from intended starts, tasks never started included."""
        return self._histogram(1, int(self.numbers[5]))

    def add(self, other: Slice) -> None:
        """Add another's requests to these."""
        self.numbers = self.numbers + other.numbers
        self.maxs = np.maximum(self.maxs, other.maxs)
        self.cells.add(other.cells)

    def _histogram(self, which: int, total_ns: int) -> Histogram:
        keys, sums = self.cells.keys, self.cells.sums
        begin, end = np.searchsorted(keys, (which * BUCKETS, (which + 1) * BUCKETS)).tolist()
        buckets = keys[begin:end] - np.int32(which * BUCKETS)
        count = int(sums[begin:end].sum())
        return Histogram(
            buckets,
            sums[begin:end],
            count,
            total_ns / count if count else np.nan,
            middle_of(int(buckets[0])) if count else np.nan,
            int(self.maxs[which]) if count else np.nan,
        )


def sliced(
    requests: Attributed, place: npt.NDArray[np.intp], starts: npt.NDArray[np.intp]
) -> list[Slice]:
    """Slices of a batch of requests.

    Args:
        requests: the batch.
        place: which of them, in the order of their slices.
        starts: where in ``place`` each slice begins; ascending, the first is 0.
    """
    response, missed = requests.response_ns[place], requests.missed[place]
    lateness = requests.lateness_ns[place]
    corrected = response + np.maximum(lateness, 0)
    made_up = missed_arrivals(response, lateness, missed)
    whole, largest = corrected.copy(), corrected.copy()
    np.add.at(whole, made_up.request, made_up.times_ns * made_up.tasks)
    np.maximum.at(largest, made_up.request, made_up.times_ns)
    columns = np.vstack(
        (
            np.ones_like(response),
            requests.failed[place],
            requests.first[place],
            lateness >= 0,
            missed,
            whole,
            requests.components_ns.T[:, place],
            requests.unattributed_ns[place],
        )
    )
    numbers = np.add.reduceat(columns, starts, axis=1)
    maxs = np.maximum.reduceat(np.stack((response, largest)), starts, axis=1)
    part = np.repeat(
        np.arange(0, starts.size * SPAN, SPAN, dtype=np.int32), run_sizes(starts, place.size)
    )
    keys = np.concatenate((bucket_of(response) + part, bucket_of(corrected) + part + _CORRECTED))
    keys.sort()
    runs = run_starts(keys)
    keys, sums = keys[runs], run_sizes(runs, keys.size)
    if made_up.tasks.size:
        added = bucket_of(made_up.times_ns) + part[made_up.request] + _CORRECTED
        both = SparseSums(keys, sums)
        order = np.argsort(added, kind="stable")
        added = added[order]
        runs = run_starts(added)
        both.add(SparseSums(added[runs], np.add.reduceat(made_up.tasks[order], runs)))
        keys, sums = both.keys, both.sums
    borders = np.searchsorted(keys, np.arange(starts.size + 1) * SPAN).tolist()
    return [
        Slice(
            numbers[:, i].copy(),  # a view would keep the whole batch alive
            maxs[:, i].copy(),
            SparseSums(keys[begin:end] % np.int32(SPAN), sums[begin:end].copy()),
        )
        for i, (begin, end) in enumerate(pairwise(borders))
    ]
