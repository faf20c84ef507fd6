"""How late a repeated timer came, as a distribution over time.

While a loop is blocked, its timer does not come at all: of a block of a second a timer of 10 ms
tells once, and looks healthy in the 99 readings beside it. So a tick that was late counts for all
the ticks that it kept from coming: the latest of them would have been late by its lateness, the one
before by a period less, and so on. What comes out is how long something that became ready at a
random moment would have had to wait for the loop.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

__all__ = ["LAG_BOUNDS_MS", "LagHistogram"]

LAG_BOUNDS_MS: tuple[float, ...] = (
    *(0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    *(10.0, 15.0, 20.0, 30.0, 50.0, 70.0),
    *(100.0, 150.0, 200.0, 300.0, 500.0, 700.0),
    *(1000.0, 2000.0, 5000.0, 10000.0),
)
"""Upper ends of the buckets, in milliseconds; above the last one there is one more."""

_BOUNDS_NS = tuple(round(bound * 1e6) for bound in LAG_BOUNDS_MS)
_MOST_MISSED = 2000  # ticks that one late tick is counted for


class LagHistogram:
    """Time by how long one would have waited.

    Attributes:
        spans_ns: nanoseconds in each bucket of `LAG_BOUNDS_MS`, shape (24,).
        weighted_ns2: sum of each wait times the nanoseconds that it stands for.
        max_ns: the latest that the timer came.
    """

    __slots__ = ("max_ns", "spans_ns", "weighted_ns2")

    def __init__(self) -> None:
        self.spans_ns = [0] * (len(_BOUNDS_NS) + 1)
        self.weighted_ns2 = 0
        self.max_ns = 0

    def add(self, late_ns: int, period_ns: int) -> None:
        """Count one tick.

        Args:
            late_ns: how late it came, 0 or more.
            period_ns: of the timer; so much time the tick stands for, and each that was missed.
        """
        self.max_ns = max(self.max_ns, late_ns)
        for _ in range(_MOST_MISSED):
            self.spans_ns[bisect_right(_BOUNDS_NS, late_ns)] += period_ns
            self.weighted_ns2 += late_ns * period_ns
            late_ns -= period_ns
            if late_ns <= 0:
                return

    def merge_ms(self, spans_ms: Iterable[float], mean_ms: float, max_ms: float) -> None:
        """Add what another one told in milliseconds; buckets beyond the last known are left out."""
        whole_ms = 0.0
        for bucket, span_ms in zip(range(len(self.spans_ns)), spans_ms, strict=False):
            self.spans_ns[bucket] += round(span_ms * 1e6)
            whole_ms += span_ms
        self.weighted_ns2 += round(mean_ms * whole_ms * 1e12)
        self.max_ns = max(self.max_ns, round(max_ms * 1e6))

    @property
    def whole_ns(self) -> int:
        """The time that it covers."""
        return sum(self.spans_ns)

    @property
    def mean_ms(self) -> float:
        """Mean wait over time, in milliseconds; 0 where there is nothing."""
        whole = self.whole_ns
        return self.weighted_ns2 / whole / 1e6 if whole else 0.0

    def spans_ms(self) -> list[float]:
        """The buckets in milliseconds, without the empty ones at the end."""
        told = [round(span / 1e6, 3) for span in self.spans_ns]
        while told and not told[-1]:
            told.pop()
        return told

    def quantile_ms(self, q: float) -> float:
        """The wait that is not exceeded for this part of the time, in milliseconds.

        Within a bucket waits are taken to be spread evenly.
        """
        return _quantile(self.spans_ns, q, self.max_ns) / 1e6


def _quantile(spans: Sequence[int], q: float, most: int) -> float:
    rank = q * sum(spans)
    below = 0
    for bucket, span in enumerate(spans):
        if span and below + span >= rank:
            low = _BOUNDS_NS[bucket - 1] if bucket else 0
            high = min(_BOUNDS_NS[bucket] if bucket < len(_BOUNDS_NS) else most, most)
            return min(low + (max(high, low) - low) * (rank - below) / span, most)
        below += span
    return most
