"""What several workers of one service counted, as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .families import BLOCKS, Counter, Gauge, Hidden, Histogram, Over
from .series import Series

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .families import Block

__all__ = ["add_up", "what_stays"]

_MAXIMA = {
    block.name: [
        block.places[metric.name]
        for metric in block.metrics
        if isinstance(metric, Counter | Gauge) and metric.over is Over.MAX
    ]
    for block in BLOCKS.values()
}


def add_up(series: Iterable[Series]) -> list[Series]:
    """One series for each block and set of labels: sums or maxima, and the newest exemplars.

    Args:
        series: of all workers, in any order; they are left as they are.
    """
    totals: dict[tuple[str, tuple[str, ...]], Series] = {}
    for one in series:
        key = one.block.name, one.labels
        total = totals.get(key)
        if total is None:
            totals[key] = one._replace(numbers=list(one.numbers), exemplars=dict(one.exemplars))
        else:
            _add(total, one)
    return list(totals.values())


def what_stays(series: Iterable[Series]) -> list[Series]:
    """What a worker that has ended leaves to the service: counts, and no gauges."""
    return [
        one._replace(numbers=_counts(one.block, one.numbers))
        for one in series
        if any(isinstance(metric, Counter | Histogram) for metric in one.block.metrics)
    ]


def _add(total: Series, one: Series) -> None:
    numbers = total.numbers
    summed = [mine + other for mine, other in zip(numbers, one.numbers, strict=True)]
    for place in _MAXIMA[one.block.name]:
        summed[place] = max(numbers[place], one.numbers[place])
    numbers[:] = summed
    for place, exemplar in one.exemplars.items():
        known = total.exemplars.get(place)
        if known is None or known.wall_ns < exemplar.wall_ns:
            total.exemplars[place] = exemplar


def _counts(block: Block, numbers: list[int]) -> list[int]:
    kept = list(numbers)
    for metric in block.metrics:
        if isinstance(metric, Gauge | Hidden):
            kept[block.places[metric.name]] = 0
    return kept
