"""Does memory grow? A slope that does not take a warm-up, or one large request, for a leak."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HOLD_MIN_S", "Growth", "growth_of"]

HOLD_MIN_S = 60.0
"""A slope over less time than this is not told: warming up and garbage look the same as a leak."""

_WARM_UP = 0.25  # of the run: caches fill, pools grow, users are spawned
_PARTS = 4
_POINTS_MIN = 20
_POINTS_MAX = 400  # of which all pairs are looked at
_RISE_MIN_MB = 4.0
_RISE_MIN_SHARE = 0.02
_LEVEL = 0.25


@dataclass(frozen=True, slots=True)
class Growth:
    """How memory went after the first quarter of a run.

    Attributes:
        mb_per_min: the slope: the median of the slopes between all pairs of points (P. K. Sen,
            *Estimates of the Regression Coefficient Based on Kendall's Tau*, 1968), which single
            points cannot move.
        low_mb_per_min: the smallest slope between the medians of adjacent quarters of that time.
        high_mb_per_min: the largest one.
        seconds: how long that time was.
        rise_mb: from the median of its first quarter to that of its last.
        steady: whether it rose from each quarter to the next, without levelling off (no slope below
            a quarter of their mean), and by enough altogether to be told from an allocator's
            habits: 4 MB and 2 %.
    """

    mb_per_min: float
    low_mb_per_min: float
    high_mb_per_min: float
    seconds: float
    rise_mb: float
    steady: bool


def growth_of(elapsed_s: Sequence[float], rss_mb: Sequence[float]) -> Growth | None:
    """How memory grew.

    Args:
        elapsed_s: seconds since the start of the run, ascending, shape (n,).
        rss_mb: resident memory, shape (n,).

    Returns:
        None where less than `HOLD_MIN_S` are left after the first quarter, or too few points.
    """
    times, memory = np.asarray(elapsed_s, np.float64), np.asarray(rss_mb, np.float64)
    if not times.size:
        return None
    held = times >= times[0] + _WARM_UP * (times[-1] - times[0])
    times, memory = times[held], memory[held]
    seconds = float(times[-1] - times[0])
    if seconds < HOLD_MIN_S or times.size < _POINTS_MIN:
        return None
    part = np.minimum((times - times[0]) / seconds * _PARTS, _PARTS - 1).astype(np.int64)
    if np.unique(part).size < _PARTS:
        return None
    middles = [
        (float(np.median(times[part == index])), float(np.median(memory[part == index])))
        for index in range(_PARTS)
    ]
    slopes = [60 * (b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(middles)]
    rise = middles[-1][1] - middles[0][1]
    enough = max(_RISE_MIN_MB, _RISE_MIN_SHARE * middles[0][1])
    return Growth(
        mb_per_min=_median_slope(times, memory) * 60,
        low_mb_per_min=min(slopes),
        high_mb_per_min=max(slopes),
        seconds=seconds,
        rise_mb=rise,
        steady=min(slopes) >= _LEVEL * sum(slopes) / len(slopes) > 0 and rise >= enough,
    )


def _median_slope(times: np.ndarray, values: np.ndarray) -> float:
    step = -(-times.size // _POINTS_MAX)
    times, values = times[::step], values[::step]
    later, earlier = np.triu_indices(times.size, 1)[::-1]
    apart = times[later] - times[earlier]
    some = apart > 0
    return float(np.median((values[later] - values[earlier])[some] / apart[some]))
