"""More and more users, and then the same number for the rest of the run.

    trilat run -f ramp_then_hold.py -- --headless --host http://127.0.0.1:8000 -u 100 -t 15m

The plain question: how does the service answer under so much load? The ramp is there so that
caches and connection pools are warm before it counts, and so that 100 connections are not opened
in one instant. What is worth a figure is the part that holds. The result has both as stages, each
with its own figures.
"""

from __future__ import annotations

import random
import time

from locust import FastHttpUser, constant_throughput, task
from plan import Plan

import trilat.locust  # noqa: F401 - marks the requests and splits their response times


class RampThenHold(Plan):
    """Up to all users within a fifth of the time, then no change."""

    ramp = 0.2

    def tick(self) -> tuple[int, float] | None:
        """How many users there should be now, and how many of them start in a second."""
        if self.done >= 1:
            return None
        return self.users, self.users / (self.ramp * self.seconds)


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
