"""The attributed histogram: how requests are distributed, and what those of each size are made of.

Log-linear buckets of the response time hold the sums of the nine components and of what is
unattributed; beside them stand plain histograms of each variable. Merging is addition of integers:
exact, and the same in whatever order. From it come "what were the requests around p95 made of" and
"what would p95 have been with a perfect generator". Percentiles are never averaged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trilat.agent.records import Grade

from .arrays import INSTANT_MAX, Int64s
from .attribute import Attributed
from .buckets import BUCKETS
from .codec import decode, encode
from .counts import PARTS, Counts
from .histogram import Histogram, rank_of
from .tally import BATCH_MAX, tally
from .variables import INDEX, VARIABLES

__all__ = ["VARIABLES", "Blocked", "Sketch"]

_AROUND_MIN = 20  # requests that a makeup is the mean of, where there are as many
_AROUND_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Blocked:
    """For how long the service's event loop was blocked while requests were in ``service.app``.

    Attributes:
        known: requests of which this is known.
        requests: those of them in which it was blocked.
        total_ns: sum over them.
        max_ns: the longest in one of them.
    """

    known: int
    requests: int
    total_ns: int
    max_ns: int

    @property
    def mean_ns(self) -> float:
        """Mean over all requests of which it is known; NaN where there is none."""
        return self.total_ns / self.known if self.known else math.nan


class Sketch:
    """What is known of the requests to one endpoint.

    Args:
        counts: what to start from; this sketch owns it from now on.
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: Counts | None = None) -> None:
        self._counts = Counts() if counts is None else counts

    @property
    def requests(self) -> int:
        """How many requests there were."""
        return self._counts.requests

    @property
    def failures(self) -> int:
        """How many of them Locust counted as failed."""
        return self._counts.failures

    @property
    def matched(self) -> int:
        """For how many of them the service's evidence is there."""
        return self._counts.matched

    @property
    def first_wall_ns(self) -> int:
        """Wall clock at the start of the first request; 0 where not known."""
        return self._counts.first_wall_ns if self._counts.first_wall_ns < INSTANT_MAX else 0

    @property
    def last_wall_ns(self) -> int:
        """Wall clock at the end of the last request; 0 where not known."""
        return self._counts.last_wall_ns

    @property
    def grades(self) -> tuple[Grade, ...]:
        """The weakest grade of each component among the requests it is known of."""
        return tuple(Grade(grade) for grade in self._counts.grades.tolist())

    @property
    def queue_bounds_ns(self) -> tuple[float, float]:
        """Between which two values the mean of ``service.queue`` lies; NaN where none is known."""
        low, high, matched = (
            self._counts.queue_low_ns,
            self._counts.queue_high_ns,
            self._counts.matched,
        )
        return (low / matched, high / matched) if matched else (math.nan, math.nan)

    @property
    def blocked(self) -> Blocked:
        """How much of ``service.app`` the event loop was blocked."""
        requests, total_ns = self._counts.blocked.sums.sum(axis=1).tolist()
        return Blocked(self._counts.blocked_known, requests, total_ns, self._counts.blocked_max_ns)

    def blocked_around_ns(self, q: float) -> float:
        """Mean ns for which the loop was blocked in the requests that `makeup` takes for ``q``.

        It lies within what their ``service.app`` is; NaN where there is no request.

        Raises:
            ValueError: ``q`` is not within 0 to 1.
        """
        if not self.requests:
            return math.nan
        low, high, around = self._around(q)
        keys = self._counts.parts.keys[low:high]
        begin, end = np.searchsorted(self._counts.blocked.keys, (keys[0], keys[-1] + 1)).tolist()
        return int(self._counts.blocked.sums[1, begin:end].sum()) / around

    def histogram(self, variable: str) -> Histogram:
        """The distribution of one variable.

        Args:
            variable: one of `VARIABLES`. Those of the service and the network are known of matched
                requests, those of the generator of marked ones, ``corrected`` of those with an
                intended start, all others of all.

        Raises:
            KeyError: there is no such variable.
        """
        index = INDEX[variable]
        counts = self._counts
        keys = counts.cells.keys
        begin, end = np.searchsorted(keys, (index * BUCKETS, (index + 1) * BUCKETS)).tolist()
        in_buckets = counts.cells.sums[begin:end]
        count = int(in_buckets.sum())
        return Histogram(
            keys[begin:end] - np.int32(index * BUCKETS),
            in_buckets,
            count,
            int(counts.sums[index]) / count if count else math.nan,
            int(counts.mins[index]) if count else math.nan,
            int(counts.maxs[index]) if count else math.nan,
        )

    def makeup(self, q: float | None) -> npt.NDArray[np.float64]:
        """What the requests around a quantile of the response time are made of.

        These are the requests in the bucket that holds the quantile, and in as many of the used
        buckets on each side as it takes to come to 20 requests and to 1 % of all.

        Args:
            q: the quantile, from 0 to 1; None for all requests.

        Returns:
            Mean ns of the nine components and of what is unattributed, shape (10,). They add up to
            the mean response time of these requests. NaN where there is no request.

        Raises:
            ValueError: ``q`` is not within 0 to 1.
        """
        sums, whole = self._counts.parts.sums, self.requests
        if not whole:
            return np.full(PARTS, math.nan)
        if q is None:
            return _mean(sums, whole)
        low, high, around = self._around(q)
        return _mean(sums[:, low:high], around)

    def _around(self, q: float) -> tuple[int, int, int]:
        """The used buckets around a quantile: the first, the one after the last, the requests."""
        used, whole = self._counts.parts.keys.size, self.requests
        # The response time is the first variable: its cells stand in the parts' order.
        upto = np.concatenate(([0], np.cumsum(self._counts.cells.sums[:used])))
        at = int(np.searchsorted(upto, rank_of(q, whole))) - 1
        wanted = min(max(_AROUND_MIN, math.ceil(whole * _AROUND_SHARE)), whole)
        for reach in range(used):
            low, high = max(at - reach, 0), min(at + reach + 1, used)
            around = int(upto[high] - upto[low])
            if around >= wanted:
                break
        return low, high, around

    def update(self, requests: Attributed) -> None:
        """Count requests; at most 32,768 at once."""
        if requests.response_ns.size > BATCH_MAX:
            raise ValueError(f"at most {BATCH_MAX} requests at once")
        if requests.response_ns.size:
            self._counts.add(tally(requests, np.zeros(1, np.intp))[0])

    def add(self, counts: Counts) -> None:
        """Count what `trilat.correlator.tally.tally` has counted."""
        self._counts.add(counts)

    def merge(self, other: Sketch) -> None:
        """Add another sketch's requests to these; the other stays as it is."""
        self._counts.add(other._counts)

    def copy(self) -> Sketch:
        """A sketch of the same requests that can be added to independently."""
        return Sketch(self._counts.copy())

    def to_bytes(self) -> bytes:
        """The sketch as bytes; equal sketches give equal bytes."""
        return encode(self._counts)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Sketch:
        """Read what `to_bytes` wrote.

        Raises:
            InputError: these are not a sketch's bytes.
        """
        return cls(decode(raw))


def _mean(sums: Int64s, requests: int) -> npt.NDArray[np.float64]:
    mean: npt.NDArray[np.float64] = sums.sum(axis=1) / requests
    return mean
