"""What a sketch counts: plain sums, so that adding two is exact in whatever order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from trilat.agent.records import COMPONENTS

from .arrays import INSTANT_MAX, MAX_NS, Int64s, UInt8s
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
        first_wall_ns: start of the first one; `INSTANT_MAX` where not known.
        last_wall_ns: end of the last one; 0 where not known.
        queue_low_ns: sum of the lower limits of the service's queue.
        queue_high_ns: sum of the upper limits.
        blocked_known: requests of which it is known how long the event loop was blocked.
        blocked_max_ns: the longest that it was blocked in one of them.
        sums: of each variable, shape (17,), ns.
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

    def copy(self) -> Counts:
        """The same counts, to be added to independently."""
        return replace(
            self, cells=self.cells.copy(), parts=self.parts.copy(), blocked=self.blocked.copy()
        )
