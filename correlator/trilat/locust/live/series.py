"""A run over time in bounded memory: when it is full, neighbours become one, twice as wide."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["POINTS_MAX", "Point", "Series"]

POINTS_MAX = 600
"""Most points of a series: ten minutes of seconds, twenty of every second one, and so on."""

Point = list[float | None]


class Series:
    """Rows of figures over time.

    Attributes:
        points: as wide as the columns each; the mean of as many rows as make up one now.
        generation: how many times the points were thinned out; points of two generations have
            nothing to do with each other.

    Args:
        columns: names of the figures.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.points: list[Point] = []
        self.generation = 0
        self._waiting: list[Sequence[float | None]] = []

    def add(self, row: Sequence[float | None]) -> None:
        """Take a row in.

        Raises:
            ValueError: it is not as wide as the columns.
        """
        if len(row) != len(self.columns):
            raise ValueError(f"{len(row)} figures for {len(self.columns)} columns")
        self._waiting.append(row)
        if len(self._waiting) < 2**self.generation:
            return
        self.points.append(_mean(self._waiting))
        self._waiting = []
        if len(self.points) == POINTS_MAX:
            pairs = zip(self.points[::2], self.points[1::2], strict=True)
            self.points = [_mean(pair) for pair in pairs]
            self.generation += 1


def _mean(rows: Sequence[Sequence[float | None]]) -> Point:
    """By column; of the rows in which it is known."""
    means: Point = []
    for column in zip(*rows, strict=True):
        known = [value for value in column if value is not None]
        means.append(round(sum(known) / len(known), 4) if known else None)
    return means
