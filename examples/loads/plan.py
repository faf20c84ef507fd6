"""What the load shapes in this folder have in common: how many users, and for how long."""

from __future__ import annotations

import time
from typing import Any

from locust import LoadTestShape

__all__ = ["Plan"]


class Plan(LoadTestShape):
    """A shape that takes its size from Locust's own ``--users`` and ``--run-time``.

    So the same plan is tried out in a minute with ten users, and run for hours with a thousand.
    Locust asks `tick` once a second, and waits in between until the users of the last call are all
    there: no part of a plan may be shorter than its users take to start.

    Attributes:
        minutes: how long it takes without ``--run-time``.
    """

    abstract = True
    use_common_options = True
    minutes = 15.0

    @property
    def users(self) -> int:
        """How many users there are when there are most."""
        return int(self._options.num_users)

    @property
    def seconds(self) -> float:
        """How long the whole plan takes."""
        return float(self._options.run_time or 60 * self.minutes)

    @property
    def done(self) -> float:
        """The part of the time that is over, from 0 to 1; more than 1 at the end."""
        return (time.perf_counter() - self.start_time) / self.seconds

    @property
    def _options(self) -> Any:
        assert self.runner is not None  # Locust sets it before the first tick
        return self.runner.environment.parsed_options
