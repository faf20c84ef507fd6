"""A quiet service, a sudden rush, and the time after it.

    trilat run -f spike.py -- --headless --host http://127.0.0.1:8000 -u 100 -t 10m

A link in a newsletter, a bell that rings, a cache that expires for all: within a second there are
ten times as many users, for a short time. Two things are worth a look. How bad is it during the
rush: does the service answer late, or does it fail? And how long does it take afterwards until the
few users who are left get their answers as fast as before? A service that recovers slowly has
queues that outlive their cause. Compare the last stage of the result with the first one.
"""

from __future__ import annotations

import random

from locust import FastHttpUser, between, task
from plan import Plan

import trilat.locust  # noqa: F401 - marks the requests and splits their response times


class Spike(Plan):
    """A tenth of the users; all of them for a tenth of the time; a tenth again."""

    minutes = 10.0
    quiet = 0.1
    begins, ends = 0.4, 0.5

    def tick(self) -> tuple[int, float] | None:
        """How many users there should be now, and how many of them start in a second."""
        done = self.done
        if done >= 1:
            return None
        if self.begins <= done < self.ends:
            return self.users, self.users
        return max(round(self.users * self.quiet), 1), self.users


class Visitor(FastHttpUser):
    """Reads an item, thinks for half a second to a second, reads the next.

    People wait for an answer before they ask again. So this user has no rate to hold: in a rush
    that slows the service down, each visitor asks less often.
    """

    wait_time = between(0.5, 1)

    @task
    def read_item(self) -> None:
        """Read an item; all of them are one endpoint in the statistics."""
        self.client.get(f"/item/{random.randrange(10_000)}", name="/item/[id]")
