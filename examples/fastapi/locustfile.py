"""Locust's default client at a fixed rate: 10 requests a second from each user.

    locust -f locustfile.py --headless -u 300 -r 100 -t 20s -H http://127.0.0.1:8000

asks one process for 3,000 requests a second. `HttpUser` is built on requests, which costs about
0.6 ms of processor time for each of them, so one process ends somewhere near 1,500 a second. From
there on, requests queue inside Locust, and Locust reports that queue as response time.
"""

from __future__ import annotations

import random
import time

from locust import HttpUser, constant_throughput, task

import trilat.locust  # noqa: F401 - marks the requests and splits their response times


class ItemReader(HttpUser):
    """Reads one random item after the other."""

    wait_time = constant_throughput(10)

    def on_start(self) -> None:
        """Begin between one and two periods late, each user at a moment of its own.

        Users that are spawned together fire together ever after. A delay shorter than the period
        changes nothing: Locust paces a user from the moment it was spawned.
        """
        time.sleep(random.uniform(1, 2) / 10)

    @task
    def read_item(self) -> None:
        """Read an item; all of them are one endpoint in the statistics."""
        self.client.get(f"/item/{random.randrange(10_000)}", name="/item/[id]")
