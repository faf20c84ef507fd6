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

from trilat.agent.errors import InputError
from trilat.agent.records import Grade
from trilat.correlator.arrays import INSTANT_MAX, MAX_NS, Int64s
from trilat.correlator.attribution.attribute import Attributed

from .buckets import BUCKETS, bucket_of
from .bunching import Bunching
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

    Attributes:
        bunching: how bunched the starts of all tasks were; known of a book's total only.
    """

    __slots__ = ("_counts", "bunching")

    def __init__(self, counts: Counts | None = None) -> None:
        self._counts = Counts() if counts is None else counts
        self.bunching: Bunching | None = None

    @property
    def counts(self) -> Counts:
        """What is counted; for reading."""
        return self._counts

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
    def scheduled(self) -> int:
        """How many of them have an intended start: the first ones of tasks with a schedule."""
        return self._counts.scheduled

    @property
    def missed(self) -> int:
        """How many tasks were due while their user was busy, and were never started."""
        return self.histogram("missed").count

    @property
    def lateness_ns(self) -> float:
        """Mean lateness of the requests with an intended start; NaN where there is none."""
        if not self.scheduled:
            return math.nan
        sums = self._counts.sums
        return int(sums[INDEX["corrected"]] - sums[INDEX["response"]]) / self.scheduled

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
                requests, those of the generator of marked ones, all others of all. ``corrected``
                is the response time where no start was intended, and that of the tasks in
                ``missed`` is part of it, too.

        Raises:
            KeyError: there is no such variable.
        """
        if variable == "corrected":
            return self._histogram("corrected").plus(self._histogram("missed"))
        return self._histogram(variable)

    def _histogram(self, variable: str) -> Histogram:
        """The distribution as it is counted."""
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

    def made_of_beyond(self, value_ns: float) -> npt.NDArray[np.float64]:
        """What the requests that took longer than a time are made of; shape and parts as `makeup`.

        Longer by a bucket: those in the bucket that holds ``value_ns`` are not among them.
        """
        parts, used = self._counts.parts, self._counts.parts.keys.size
        bound = np.array([min(max(value_ns, 0), MAX_NS)]).astype(np.int64)
        begin = int(np.searchsorted(parts.keys, bucket_of(bound)[0], "right"))
        beyond = int(self._counts.cells.sums[begin:used].sum())
        return _mean(parts.sums[:, begin:], beyond) if beyond else np.full(PARTS, math.nan)

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
        """Count what `trilat.correlator.sketches.tally.tally` has counted."""
        self._counts.add(counts)

    def merge(self, other: Sketch) -> None:
        """Add another sketch's requests to these; the other stays as it is."""
        self._counts.add(other._counts)

    def since(self, earlier: Sketch) -> Sketch:
        """A sketch of the requests that were counted since an earlier `copy` of this one.

        Counts, means and makeups are exact, and extremes as good as other quantiles. Grades, the
        longest blocking and the times of the first and the last request are those of all requests.

        Raises:
            ValueError: the other is not an earlier state of this one.
        """
        return Sketch(self._counts.less(earlier._counts))

    def copy(self) -> Sketch:
        """A sketch of the same requests that can be added to independently."""
        return Sketch(self._counts.copy())

    def to_bytes(self) -> bytes:
        """The sketch as bytes; equal sketches give equal bytes."""
        return encode([self._counts])

    @classmethod
    def from_bytes(cls, raw: bytes) -> Sketch:
        """Read what `to_bytes` wrote.

        Raises:
            InputError: these are not a sketch's bytes.
        """
        pages = decode(raw)
        if len(pages) != 1:
            raise InputError("damaged sketch: not one, but several or none")
        return cls(pages[0])


def _mean(sums: Int64s, requests: int) -> npt.NDArray[np.float64]:
    mean: npt.NDArray[np.float64] = sums.sum(axis=1) / requests
    return mean
