"""Tasks that were never started, and what they would have taken.

A user does one thing at a time. While its request hangs, its schedule goes on: tasks become due
that an independent user would have started. When the request is over at last, Locust starts one
task and forgets the others. A distribution of the requests that were made then says little of the
time in which few were made: that is coordinated omission (G. Tene, *How NOT to Measure Latency*,
2013).

The task that was started late counts from its intended start: its response time R and its lateness
L. For the m tasks that became due in that time and were not started there are no measurements, so
their times are made up: each as if it had been started together with the late one and had taken as
long, counted from when it was due. Their dues are taken to lie evenly within L. So they are
``R + L (i - 1/2) / m`` for i from 1 to m, which is what HdrHistogram's
``recordValueWithExpectedInterval`` fills in, shifted by at most one period. They are counted at the
endpoint of the late request, as nobody knows which task it would have been. No other figure has
anything of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trilat.correlator.arrays import Int64s

__all__ = ["Arrivals", "missed_arrivals"]

_POINTS_MAX = 200  # that stand for the tasks missed before one request: within 0.25 % of L


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Tasks that were never started; all arrays have one shape.

    Attributes:
        request: index of the request that was late.
        times_ns: what they would have taken, counted from when they were due.
        tasks: how many of them.
    """

    request: npt.NDArray[np.intp]
    times_ns: Int64s
    tasks: Int64s


def missed_arrivals(response_ns: Int64s, lateness_ns: Int64s, missed: Int64s) -> Arrivals:
    """The tasks that were missed before each of n requests.

    Args:
        response_ns: shape (n,).
        lateness_ns: shape (n,).
        missed: how many; shape (n,). ``missed * lateness_ns`` fits an int64 with a bit to spare.
    """
    late = np.flatnonzero(missed)
    points = np.minimum(missed[late], _POINTS_MAX)
    request = np.repeat(late, points)
    whole, parts = missed[request], np.repeat(points, points)
    # The tasks from begin to end, counted from 0, stand together at the middle of their dues.
    ends = np.cumsum(points)
    place = np.arange(request.size) - np.repeat(ends - points, points)
    begin, end = whole * place // parts, whole * (place + 1) // parts
    times = response_ns[request] + lateness_ns[request] * (begin + end) // np.maximum(2 * whole, 1)
    return Arrivals(request, times, end - begin)
