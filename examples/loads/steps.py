"""A stair of loads, each held for as long as the others: where does the service give in?

    trilat run -f steps.py -- --headless --host http://127.0.0.1:8000 -u 100 -t 15m

Up to its limit a service answers 40 users as fast as 20. Beyond it, more users bring no more
requests a second, only longer answers. The steps find that place in one run. Each step is a stage
of the result: look for the first one whose rate is no longer the one wanted, or whose p95 takes
off. A step has to last long enough for queues to build up, some minutes on a real service.

One user makes one request a second, so the number of users is the rate that is asked for. With
users that only wait between two requests the load would give way to a slow service, and the steps
would flatten out unseen.
"""

from __future__ import annotations

import random
import time

from locust import FastHttpUser, constant_throughput, task
from plan import Plan

import trilat.locust  # noqa: F401 - marks the requests and splits their response times


class Steps(Plan):
    """Five steps of equal length and height, up to all users."""

    steps = 5

    def tick(self) -> tuple[int, float] | None:
        """How many users there should be now, and how many of them start in a second."""
        step = int(self.done * self.steps) + 1
        if step > self.steps:
            return None
        return round(self.users * step / self.steps), self.users


class ItemReader(FastHttpUser):
    """Reads one item a second, at its own moment in the second."""

    wait_time = constant_throughput(1)

    def on_start(self) -> None:
        """Begin between one and two periods late, so that users do not fire together."""
        time.sleep(random.uniform(1, 2))

    @task
    def read_item(self) -> None:
        """Read an item; all of them are one endpoint in the statistics."""
        self.client.get(f"/item/{random.randrange(10_000)}", name="/item/[id]")
