"""Response times since the last look, from what Locust counts anyway."""

from __future__ import annotations

from math import ceil
from typing import Any

__all__ = ["RecentTimes"]


class RecentTimes:
    """Percentiles of the requests that Locust counted between two looks.

    Locust keeps counts by rounded response time; the difference of two states is what came
    between them. Where it began to count anew (a worker does after each report, and at a reset)
    the new state is all there is.
    """

    def __init__(self) -> None:
        self._before: dict[float, int] = {}

    def take(self, stats: Any) -> dict[str, float | None]:
        """Median and 95th percentile (nearest rank), in milliseconds; None without a request.

        Args:
            stats: Locust's ``environment.stats``.
        """
        now: dict[float, int] = dict(stats.total.response_times)
        before, self._before = self._before, now
        if any(now.get(time, 0) < count for time, count in before.items()):
            before = {}
        counts = [(time, now[time] - before.get(time, 0)) for time in sorted(now)]
        whole = sum(count for _, count in counts)
        return {"p50_ms": _at(counts, whole, 0.5), "p95_ms": _at(counts, whole, 0.95)}


def _at(counts: list[tuple[float, int]], whole: int, q: float) -> float | None:
    rank, upto = ceil(q * whole), 0
    for time, count in counts:
        upto += count
        if count and upto >= rank:
            return float(time)
    return None
