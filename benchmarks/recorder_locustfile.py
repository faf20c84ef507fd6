"""The locustfile of recorder.py: users who make as many requests as they are told to.

Each line of standard input is a number of requests; the answer, on standard output, is what one
took: microseconds of processor time of the whole process. In between the process stands still, so
what is put off to a later moment is done, and counted, while other requests are made.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import gevent
from gevent.event import Event
from locust import FastHttpUser, HttpUser, events, task
from locust.contrib.csv_request_logger import CsvRequestLogger

if TYPE_CHECKING:
    from locust.env import Environment

SUBJECT, CLIENT = os.environ["BENCH_SUBJECT"], os.environ["BENCH_CLIENT"]

if SUBJECT == "trilat":
    import trilat.locust  # noqa: F401

Client: Any = {"FastHttpUser": FastHttpUser, "HttpUser": HttpUser}[CLIENT]


class Turnstile:
    """Lets users make a number of requests."""

    def __init__(self) -> None:
        self._open, self._done = Event(), Event()
        self._free = self._unanswered = 0

    def enter(self) -> int:
        """Wait until one more request may be made; its number."""
        while not self._free:
            self._open.clear()
            self._open.wait()
        self._free -= 1
        return self._free

    def leave(self) -> None:
        """A request has been made."""
        self._unanswered -= 1
        if not self._unanswered:
            self._done.set()

    def let_in(self, requests: int) -> None:
        """Have so many requests made."""
        self._free = self._unanswered = requests
        self._done.clear()
        self._open.set()
        self._done.wait()


turnstile = Turnstile()
everybody_there = Event()


class Caller(Client):  # type: ignore[misc]
    """Asks for one item after the other, without a pause."""

    @task
    def item(self) -> None:
        """One request."""
        number = turnstile.enter()
        self.client.get(f"/item/{number}", name="/item/[id]")
        turnstile.leave()


def conduct(environment: Environment) -> None:
    """Do what the lines of standard input say; where they end, so does the run."""
    everybody_there.wait()
    print("ready", flush=True)
    for line in sys.stdin:  # which blocks the process, as it is meant to
        requests = int(line)
        began = time.process_time()
        turnstile.let_in(requests)
        print((time.process_time() - began) / requests * 1e6, flush=True)
    assert environment.runner is not None
    environment.runner.quit()


def on_init(environment: Environment, **_: Any) -> None:
    """Begin to listen to what is to be done."""
    if SUBJECT == "csv_request_logger":
        CsvRequestLogger(os.environ["BENCH_FILE"]).register(environment)
    gevent.spawn(conduct, environment)


def on_spawning_complete(**_: Any) -> None:
    """All users are there."""
    everybody_there.set()


_events: Any = events
_events.init.add_listener(on_init)
_events.spawning_complete.add_listener(on_spawning_complete)
