"""Users that think for a while between two requests, each for another while.

    locust -f locustfile_think_time.py --headless -u 100 -r 100 -t 20s -H http://127.0.0.1:8000

With `between(0.5, 1)` 100 users make about 130 requests a second (75 % of a second of thinking,
20 ms of waiting each), spread over the second: the load of ``locustfile_in_step.py`` without its
queue. The price: nobody fixes a rate, so a slow service gets less load, and there is no schedule
that a request could be late for.
"""

from __future__ import annotations

import random

from locust import HttpUser, between, task

import trilat.locust  # noqa: F401 - marks the requests and splits their response times


class ItemReader(HttpUser):
    """Reads an item, thinks for 0.5 to 1 s, reads the next."""

    wait_time = between(0.5, 1)

    @task
    def read_item(self) -> None:
        """Read an item; all of them are one endpoint in the statistics."""
        self.client.get(f"/item/{random.randrange(10_000)}", name="/item/[id]")
