"""What a sketch counts: plain sums, so that adding two is exact in whatever order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from trilat.agent.records import COMPONENTS
from trilat.correlator.arrays import INSTANT_MAX, MAX_NS, Int64s, UInt8s

from .buckets import BUCKETS, middle_of
from .sparse import SparseSums
from .variables import VARIABLES

__all__ = ["PARTS", "Counts", "no_sums"]

PARTS = len(COMPONENTS) + 1
"""The nine components and what is unattributed."""


def _zeros() -> Int64s:
    return np.zeros(len(VARIABLES), np.int64)


def no_sums(rows: int) -> SparseSums:
    """So many rows of sums, for no key at all."""
    return SparseSums(np.zeros(0, np.int32), np.zeros((rows, 0), np.int64))


def _no_cells() -> SparseSums:
    return SparseSums(np.zeros(0, np.int32), np.zeros(0, np.int64))


def _no_parts() -> SparseSums:
    return no_sums(PARTS)


def _no_blocks() -> SparseSums:
    return no_sums(2)


@dataclass(slots=True)
class Counts:
    """Counts and sums over requests; the default is none. No array is changed in place.

    Attributes:
        requests: how many.
        failures: those that Locust counted as failed.
        matched: those with the service's evidence.
        scheduled: those with an intended start.
        first_wall_ns: start of the first one; `INSTANT_MAX` where not known.
        last_wall_ns: end of the last one; 0 where not known.
        queue_low_ns: sum of the lower limits of the service's queue.
        queue_high_ns: sum of the upper limits.
        blocked_known: requests of which it is known how long the event loop was blocked.
        blocked_max_ns: the longest that it was blocked in one of them.
        sums: of each variable, shape (18,), ns.
        mins: smallest of each; `MAX_NS` where there is none.
        maxs: largest of each; 0 where there is none.
        grades: weakest grade of each component, shape (9,).
        cells: requests by variable and bucket; the key is variable * `BUCKETS` + bucket.
        parts: sums of the ten parts by bucket of the response time, shape (10, k), ns.
        blocked: requests in which the event loop was blocked, and for how long, by bucket of the
            response time; shape (2, k), the second row in ns.
    """

    requests: int = 0
    failures: int = 0
    matched: int = 0
    scheduled: int = 0
    first_wall_ns: int = INSTANT_MAX
    last_wall_ns: int = 0
    queue_low_ns: int = 0
    queue_high_ns: int = 0
    blocked_known: int = 0
    blocked_max_ns: int = 0
    sums: Int64s = field(default_factory=_zeros)
    mins: Int64s = field(default_factory=lambda: np.full(len(VARIABLES), MAX_NS))
    maxs: Int64s = field(default_factory=_zeros)
    grades: UInt8s = field(default_factory=lambda: np.zeros(len(COMPONENTS), np.uint8))
    cells: SparseSums = field(default_factory=_no_cells)
    parts: SparseSums = field(default_factory=_no_parts)
    blocked: SparseSums = field(default_factory=_no_blocks)

    def add(self, other: Counts) -> None:
        """Add another's counts to these."""
        self.requests += other.requests
        self.failures += other.failures
        self.matched += other.matched
        self.scheduled += other.scheduled
        self.first_wall_ns = min(self.first_wall_ns, other.first_wall_ns)
        self.last_wall_ns = max(self.last_wall_ns, other.last_wall_ns)
        self.queue_low_ns += other.queue_low_ns
        self.queue_high_ns += other.queue_high_ns
        self.blocked_known += other.blocked_known
        self.blocked_max_ns = max(self.blocked_max_ns, other.blocked_max_ns)
        self.sums = self.sums + other.sums
        self.mins = np.minimum(self.mins, other.mins)
        self.maxs = np.maximum(self.maxs, other.maxs)
        self.grades = np.maximum(self.grades, other.grades)
        self.cells.add(other.cells)
        self.parts.add(other.parts)
        self.blocked.add(other.blocked)

    @classmethod
    def of(cls, pieces: Sequence[Counts]) -> Counts:
        """Those of all pieces together, at the cost of a few additions however many they are."""
        if not pieces:
            return cls()
        return cls(
            requests=sum(piece.requests for piece in pieces),
            failures=sum(piece.failures for piece in pieces),
            matched=sum(piece.matched for piece in pieces),
            scheduled=sum(piece.scheduled for piece in pieces),
            first_wall_ns=min(piece.first_wall_ns for piece in pieces),
            last_wall_ns=max(piece.last_wall_ns for piece in pieces),
            queue_low_ns=sum(piece.queue_low_ns for piece in pieces),
            queue_high_ns=sum(piece.queue_high_ns for piece in pieces),
            blocked_known=sum(piece.blocked_known for piece in pieces),
            blocked_max_ns=max(piece.blocked_max_ns for piece in pieces),
            sums=np.sum([piece.sums for piece in pieces], axis=0),
            mins=np.min([piece.mins for piece in pieces], axis=0),
            maxs=np.max([piece.maxs for piece in pieces], axis=0),
            grades=np.max([piece.grades for piece in pieces], axis=0),
            cells=SparseSums.of([piece.cells for piece in pieces]),
            parts=SparseSums.of([piece.parts for piece in pieces]),
            blocked=SparseSums.of([piece.blocked for piece in pieces]),
        )

    def less(self, earlier: Counts) -> Counts:
        """What was added since an earlier `copy`.

        Extremes are those that the buckets in use tell of, within 0.8 %. Grades, times of the first
        and the last request and the longest blocking cannot be taken back: they stay those of all.

        Raises:
            ValueError: the other is not an earlier state of these.
        """
        cells, parts = self.cells.less(earlier.cells), self.parts.less(earlier.parts)
        blocked = self.blocked.less(earlier.blocked)
        # The response time is the first variable: its cells stand in the parts' order.
        in_use = cells.sums[: parts.keys.size] > 0
        cells = cells.only(cells.sums > 0)
        mins, maxs = self._extremes_of(cells)
        return replace(
            self,
            requests=self.requests - earlier.requests,
            failures=self.failures - earlier.failures,
            matched=self.matched - earlier.matched,
            scheduled=self.scheduled - earlier.scheduled,
            queue_low_ns=self.queue_low_ns - earlier.queue_low_ns,
            queue_high_ns=self.queue_high_ns - earlier.queue_high_ns,
            blocked_known=self.blocked_known - earlier.blocked_known,
            sums=self.sums - earlier.sums,
            mins=mins,
            maxs=maxs,
            cells=cells,
            parts=parts.only(in_use),
            blocked=blocked.only(blocked.sums[0] > 0),
        )

    def _extremes_of(self, cells: SparseSums) -> tuple[Int64s, Int64s]:
        """Smallest and largest value of each variable that some of the cells allow."""
        keys = cells.keys
        borders = np.searchsorted(keys, np.arange(len(VARIABLES) + 1) * BUCKETS).tolist()
        mins, maxs = np.full(len(VARIABLES), MAX_NS), _zeros()
        for variable, (begin, end) in enumerate(pairwise(borders)):
            if begin < end:
                first, last = (int(keys[at]) % BUCKETS for at in (begin, end - 1))
                mins[variable] = round(middle_of(first))
                maxs[variable] = round(middle_of(last))
        return np.maximum(mins, self.mins), np.minimum(maxs, self.maxs)

    def copy(self) -> Counts:
        """The same counts, to be added to independently."""
        return replace(
            self, cells=self.cells.copy(), parts=self.parts.copy(), blocked=self.blocked.copy()
        )
