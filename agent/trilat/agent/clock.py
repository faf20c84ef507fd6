"""The clocks, as a parameter: so that tests can hold time in their hands."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SYSTEM_CLOCK", "Clock"]


@dataclass(frozen=True, slots=True)
class Clock:
    """Two functions that return integer nanoseconds.

    Attributes:
        monotonic_ns: for durations; never steps. Locust times with `time.perf_counter`, so this is
            its integer form (the same clock as `time.monotonic` on Linux).
        wall_ns: since the epoch; only to line two hosts up, and to read kernel receive stamps,
            which the kernel takes on this clock.
    """

    monotonic_ns: Callable[[], int]
    wall_ns: Callable[[], int]


SYSTEM_CLOCK = Clock(time.perf_counter_ns, time.time_ns)
