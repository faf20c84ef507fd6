"""How one variable is distributed, read off its buckets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trilat.correlator.arrays import Int32s, Int64s

from .buckets import middle_of

__all__ = ["Histogram", "rank_of"]


def rank_of(q: float, count: int) -> int:
    """The rank, from 1 to ``count``, that holds quantile ``q``: ``q * count`` rounded up.

    This is the inverse of the empirical distribution (definition 1 of Hyndman and Fan, *Sample
    Quantiles in Statistical Packages*, 1996). The product's own rounding error must not lift it
    over a whole number (0.07 * 100 is 7.000000000000001), so that much is taken off before.

    Raises:
        ValueError: ``q`` is not within 0 to 1.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile is from 0 to 1, not {q}")
    return min(max(math.ceil(q * count * (1 - 1e-15)), 1), count)


@dataclass(frozen=True, slots=True)
class Histogram:
    """The distribution of a variable over the requests that it is known of.

    Attributes:
        buckets: the buckets in use, ascending.
        counts: requests in each of them.
        count: requests altogether.
        mean_ns: exact; NaN where there is no request, as are all the following.
        min_ns: exact.
        max_ns: exact.
    """

    buckets: Int32s
    counts: Int64s
    count: int
    mean_ns: float
    min_ns: float
    max_ns: float

    def plus(self, other: Histogram) -> Histogram:
        """The distribution of both together."""
        if not (self.count and other.count):
            return self if self.count else other
        buckets = np.concatenate((self.buckets, other.buckets))
        buckets, place = np.unique(buckets, return_inverse=True)
        counts = np.zeros(buckets.size, np.int64)
        np.add.at(counts, place, np.concatenate((self.counts, other.counts)))
        count = self.count + other.count
        return Histogram(
            buckets,
            counts,
            count,
            (self.mean_ns * self.count + other.mean_ns * other.count) / count,
            min(self.min_ns, other.min_ns),
            max(self.max_ns, other.max_ns),
        )

    def quantile_ns(self, q: float) -> float:
        """The value at rank `rank_of`, within 0.8 %; the first and the last one exactly.

        Args:
            q: the quantile, from 0 to 1.

        Returns:
            Nanoseconds; NaN where there is no request.

        Raises:
            ValueError: ``q`` is not within 0 to 1.
        """
        rank = rank_of(q, self.count)
        if rank == self.count:  # also where there is none
            return self.max_ns
        if rank == 1:
            return self.min_ns
        at = int(np.searchsorted(np.cumsum(self.counts), rank))
        return min(max(middle_of(int(self.buckets[at])), self.min_ns), self.max_ns)
