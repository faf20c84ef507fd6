"""Where the kernel gives no receive stamps: how late a greenlet comes that should run now.

A greenlet sleeps in short steps; what a step takes beyond its length is how long this hub makes
others wait, which estimates how long an answer lay unread. A healthy hub oversleeps too, by 0.1 to
0.7 ms: the least overshoot seen is taken off.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import gevent

__all__ = ["Heartbeat"]

_STEP_SECONDS = 0.005


class Heartbeat:
    """Samples the hub's lag until stopped.

    Attributes:
        lag_ns: the latest sample beyond the calibration.
    """

    def __init__(self) -> None:
        self.lag_ns = 0
        self._least_ns = 2**63 - 1
        self._greenlet: Any = gevent.spawn(self._beat)

    def stop(self) -> None:
        """End the sampling."""
        self._greenlet.kill()

    def _beat(self) -> None:
        step_ns = round(_STEP_SECONDS * 1e9)
        while True:
            began = perf_counter_ns()
            gevent.sleep(_STEP_SECONDS)
            overshoot = perf_counter_ns() - began - step_ns
            self._least_ns = min(self._least_ns, overshoot)
            self.lag_ns = max(overshoot - self._least_ns, 0)
