"""Which part of the way to the application was the service's queue, and which the network's jitter.

A way's length beyond the shortest one is jitter and queue together. The kernel of the service tells
of the queue in whole ticks, which says little of one request, but is right on average; the clocks
tell requests apart, but not jitter from queue. So jitter is taken to be as large as that of the way
back, unless the total of the kernel's readings speaks against it: then it is as much larger or
smaller as that total compels, within two of its standard errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from trilat.correlator.arrays import MAX_NS, Bools, Int64s, clamp

from .cuts import Cuts

__all__ = ["JitterBalance", "Ways"]

_SURE = 2  # standard errors
_ROUNDS = 20  # of bisection: a millionth of where it begins


@dataclass(frozen=True, slots=True)
class Ways:
    """The ways of n requests to the application, and what the queue in each can be; int64 ns.

    Attributes:
        out: from the send to the application's call.
        beyond: what of it is beyond the shortest way.
        low: the queue is at least this.
        high: and at most this.
    """

    out: Int64s
    beyond: Int64s
    low: Int64s
    high: Int64s

    @classmethod
    def of(cls, cuts: Cuts, out: Int64s, floor: Int64s) -> Ways:
        """Those of cut requests, where the clocks tell how long they were."""
        low = np.minimum(cuts.queue_low, out)
        return cls(out, out - floor, low, np.minimum(cuts.queue_high, out))

    def queue(self, jitter: Int64s | int) -> Int64s:
        """The queue of each, where the network's jitter took so long."""
        return clamp(self.beyond - jitter, self.low, self.high)

    def part(self, rows: Bools) -> Ways:
        """Those of some of the requests."""
        return Ways(self.out[rows], self.beyond[rows], self.low[rows], self.high[rows])


class JitterBalance:
    """What counts as jitter on the way to one host, so that the totals are those of its kernel."""

    def __init__(self) -> None:
        self._excess = 0.0
        self._variance = 0.0

    def jitter(self, cuts: Cuts, ways: Ways, usual: int) -> int:
        """The jitter of one window's ways, in nanoseconds.

        Args:
            cuts: of the window's requests to that host whose ways are known.
            ways: of the same requests.
            usual: that of the way back.
        """
        told = cuts.queue_high < MAX_NS
        if not told.any():
            return usual
        ways, read = ways.part(told), cuts.queue_read[told]
        tick = cuts.queue_high[told] - read
        # A reading cannot be more than a tick above the way; after a pause of the machine it is.
        read = np.minimum(read, ways.out + tick)
        total = float(read.sum())
        # A queue of two ticks and a third is read as three in a third of all cases, or else as two.
        over = (ways.queue(usual) % tick) / tick
        self._variance += float((over * (1 - over) * tick.astype(np.float64) ** 2).sum())
        slack = _SURE * sqrt(self._variance)

        def excess(jitter: int) -> float:
            return self._excess + float(ways.queue(jitter).sum()) - total

        chosen = usual
        if excess(usual) > slack:
            chosen = _least(lambda jitter: excess(jitter) <= slack, usual, int(ways.beyond.max()))
        elif excess(usual) < -slack:
            chosen = _least(lambda jitter: excess(jitter) < -slack, 0, usual) - 1
        self._excess = float(clamp(np.array(excess(chosen)), -slack, slack))
        return max(chosen, 0)


def _least(holds: Callable[[int], bool], low: int, high: int) -> int:
    """About the least number in a range from which on something holds; its upper end if nowhere."""
    for _ in range(_ROUNDS):
        middle = (low + high) >> 1
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
