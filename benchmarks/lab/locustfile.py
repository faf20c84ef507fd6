"""The lab's users: Locust as it is, with trilat, and slow in the way that its environment says.

Each request carries a number of the lab's own. Locust's ``request`` event gives it back, so what
Locust says of a request, what crossed the network and what the service saw can be put together
without trilat.

    LAB_GENERATOR  the options, as JSON
    LAB_PACE       requests a second of each user; 0: one after the other
    LAB_LOGS       the folder for what the event says
    LAB_PATH       of the URL
    LAB_CA         the certificate authority to trust, where TLS is spoken
"""

from __future__ import annotations

import atexit
import itertools
import os
import random
import time
from pathlib import Path
from typing import Any

import gevent
import locust.runners
from benchmarks.lab.logs import REQUESTS, LogWriter
from benchmarks.lab.scenario import GeneratorOptions, options_from
from benchmarks.lab.troubles import burn, pauses_s
from locust import FastHttpUser, HttpUser, constant, constant_throughput, events, task

import trilat.locust  # noqa: F401 - marks the requests and splits their response times

options = options_from(GeneratorOptions, os.environ["LAB_GENERATOR"])
pace = float(os.environ["LAB_PACE"])
path = os.environ["LAB_PATH"]
log = LogWriter(Path(os.environ["LAB_LOGS"]), "requests", REQUESTS)
numbers = itertools.count(1)
atexit.register(log.flush)

# Locust looks at its processor every 10 s, and the first look sees nothing. The lab's runs are
# shorter than that; so that it has a chance to warn, it looks every second.
locust.runners.CPU_MONITOR_INTERVAL = 1.0

Base: Any = HttpUser if options.client == "http" else FastHttpUser


class LabUser(Base):  # type: ignore[misc]
    """Sends one request after the other."""

    wait_time = constant_throughput(pace) if pace else constant(0)
    if options.client == "fast" and options.timeout_s:
        network_timeout = connection_timeout = options.timeout_s

    def on_start(self) -> None:
        """Trust the lab's authority; begin at a moment of one's own."""
        if options.client == "http":
            self.client.verify = os.environ.get("LAB_CA") or True
        if pace and not options.in_step:
            gevent.sleep(random.uniform(1, 2) / pace)

    @task
    def go(self) -> None:
        """One request."""
        if options.task_cpu_ms:
            burn(options.task_cpu_ms)
        number = os.getpid() << 32 | next(numbers)
        headers = {"Lab-Request": str(number)}
        if options.close:
            headers["Connection"] = "close"
        more: dict[str, Any] = {}
        if options.client == "http" and options.timeout_s:
            more["timeout"] = options.timeout_s
        if options.upload_bytes:
            more["data"] = b"u" * options.upload_bytes
        method = "POST" if options.upload_bytes else "GET"
        self.client.request(
            method, path, name="/lab", headers=headers, context={"lab": number}, **more
        )


@events.request.add_listener  # type: ignore[untyped-decorator]
def keep(
    response_time: float,
    start_time: float,
    context: dict[str, Any],
    exception: object = None,
    **_: object,
) -> None:
    """Keep what Locust says of a request."""
    times = round(start_time * 1e9), round(response_time * 1e6)
    log.append(context["lab"], *times, time.time_ns(), exception is not None)


@events.test_start.add_listener  # type: ignore[untyped-decorator]
def begin_to_block(**_: object) -> None:
    """Let a greenlet beside the users compute."""

    def block() -> None:
        for pause_s in pauses_s(options.block, options.block_every_ms, seed=3):
            gevent.sleep(pause_s)
            burn(options.block_ms)

    gevent.spawn(block)


@events.quit.add_listener  # type: ignore[untyped-decorator]
def end(**_: object) -> None:
    """What the event said is on disk before the process goes."""
    log.flush()
