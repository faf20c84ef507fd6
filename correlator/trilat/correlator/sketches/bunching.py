"""Users in step: how bunched the starts of their tasks are.

The starts of a process' tasks are counted in cells of 10 ms. Where users are independent of each
other and many, they start as a Poisson process does, and the variance of the counts is their mean.
The *index of dispersion* is the variance over the mean (D. R. Cox and P. A. W. Lewis, *The
Statistical Analysis of Series of Events*, 1966): 1 for independent users, 0 for users that take
turns, and the larger the more of them start together. It has a plain meaning: with an index of I, a
task starts in the same 10 ms as I - 1 more others, on average, than it would with independent users
(M. Lloyd, *Mean crowding*, Journal of Animal Ecology 36, 1967).

Counts are compared within one second only, so that ramps and other slow changes of the rate do not
count. Only a task's first request counts: those that follow are one user's, one after the other.
Numbers of several processes, which do not wait for each other, can be added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trilat.correlator.arrays import INSTANT_MAX, Bools, Int64s, clamp

__all__ = ["CELL_NS", "Bunching", "StartCells"]

CELL_NS = 10_000_000
"""Length of a cell: about what a process needs to send the requests of 100 users."""

_GROUP = 100  # cells whose counts are compared with each other: one second
_HELD = 16 * _GROUP  # cells that starts are still counted in: requests come when they are over
_SUM_MAX = 2**60


@dataclass(slots=True)
class Bunching:
    """How bunched starts are; adding is exact in whatever order.

    Attributes:
        starts: how many were counted.
        squares: over all seconds, the sum of 100 times the counts' squares less the square of their
            sum: 100 * 99 times the variance.
        scale: the same sum of 99 times the starts: what ``squares`` would be with a variance equal
            to the mean.
    """

    starts: int = 0
    squares: int = 0
    scale: int = 0

    @property
    def index(self) -> float | None:
        """The index of dispersion; None where nothing was counted."""
        return self.squares / self.scale if self.scale else None

    def add(self, other: Bunching) -> None:
        """Add another's counts to these."""
        self.starts += other.starts
        self.squares += other.squares
        self.scale += other.scale

    def count(self, cells: Int64s) -> None:
        """Count the starts of whole seconds.

        Args:
            cells: starts in each 10 ms; a multiple of 100 of them.
        """
        seconds = cells.reshape(-1, _GROUP)
        sums = seconds.sum(axis=1)
        self.starts += int(sums.sum())
        self.squares += int((_GROUP * (seconds * seconds).sum(axis=1) - sums * sums).sum())
        self.scale += int((_GROUP - 1) * sums.sum())

    def copy(self) -> Bunching:
        """The same, to be added to independently."""
        return Bunching(self.starts, self.squares, self.scale)

    def to_list(self) -> list[int]:
        """As JSON."""
        return [self.starts, self.squares, self.scale]

    @classmethod
    def from_list(cls, numbers: object) -> Bunching:
        """Read what `to_list` wrote.

        Raises:
            ValueError: not that, or numbers that cannot have been counted.
        """
        match numbers:
            case [int(starts), int(squares), int(scale)]:
                in_range = 0 <= squares <= _SUM_MAX and 0 <= starts <= _SUM_MAX
                if in_range and scale == (_GROUP - 1) * starts:
                    return cls(starts, squares, scale)
        raise ValueError("not the numbers of starts")


class StartCells:
    """Starts of one process, in the cells of the last 16 seconds.

    Requests come in the order in which they end. Those that took longer than that are left out.
    """

    def __init__(self) -> None:
        self._cells = np.zeros(_HELD, np.int64)
        self._begin: int | None = None  # number of the first cell, a multiple of `_GROUP`

    def move(self, end_ns: int, bunching: Bunching) -> None:
        """Let go of the seconds that are too long before a moment.

        Args:
            end_ns: monotonic; nothing started after it. It does not go back.
            bunching: where they are counted.
        """
        begin = max(-(-end_ns // (CELL_NS * _GROUP)) * _GROUP - _HELD, 0)
        if self._begin is None:
            self._begin = begin
        gone = min(max(begin - self._begin, 0), _HELD)
        if gone:
            bunching.count(self._cells[:gone])
            self._cells = np.concatenate((self._cells[gone:], np.zeros(gone, np.int64)))
            self._begin = begin

    def add(self, started_ns: Int64s, first: Bools) -> None:
        """Count starts.

        Args:
            started_ns: monotonic, of requests.
            first: which of them are a task's first.
        """
        if self._begin is None:
            return
        cells = clamp(started_ns[first], 0, INSTANT_MAX) // CELL_NS - self._begin
        known = cells[(cells >= 0) & (cells < _HELD)]
        self._cells += np.bincount(known, minlength=_HELD)

    def flush(self, bunching: Bunching) -> None:
        """Count what is held, as at the end of a run."""
        bunching.count(self._cells)
        self._cells = np.zeros(_HELD, np.int64)
