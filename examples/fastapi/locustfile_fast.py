"""The load of ``locustfile.py`` from Locust's fast client.

    locust -f locustfile_fast.py --headless -u 300 -r 100 -t 20s -H http://127.0.0.1:8000

`FastHttpUser` needs about a fifth of the processor time for a request, so that one process keeps
up where `HttpUser` saturates. The service is the same; compare what it is blamed for.
"""

from __future__ import annotations

import random
import time

from locust import FastHttpUser, constant_throughput, task

import trilat.locust  # noqa: F401 - marks the requests and splits their response times


class ItemReader(FastHttpUser):
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
