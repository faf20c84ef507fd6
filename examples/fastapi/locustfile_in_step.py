"""A light load that all users send in the same instant.

    locust -f locustfile_in_step.py --headless -u 100 -r 100 -t 20s -H http://127.0.0.1:8000

100 requests a second are little for one process. But users that are spawned together and wait with
`constant_throughput(1)` wake together, once a second, and 100 requests then queue for one
processor. Locust's processor gauge shows an idle process, and still half of the median response
time is that queue.
"""

from __future__ import annotations

import random

from locust import HttpUser, constant_throughput, task

import trilat.locust  # noqa: F401 - marks the requests and splits their response times


class ItemReader(HttpUser):
    """Reads an item in each second, at the same moment as every other user."""

    wait_time = constant_throughput(1)

    @task
    def read_item(self) -> None:
        """Read an item; all of them are one endpoint in the statistics."""
        self.client.get(f"/item/{random.randrange(10_000)}", name="/item/[id]")
