"""Where a locustfile finds the servers, and users that go their way a few times."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import gevent
from locust import FastHttpUser, HttpUser, User, constant, events, task
from locust.exception import StopUser

import trilat.locust  # noqa: F401 - marks the requests

__all__ = ["CLIENTS", "ODD", "PLACES", "REFUSED", "TLS", "Go", "make"]

Go = Callable[[Any], None]

PLACES: dict[str, Any] = json.loads(os.environ["PLACES"])
TLS = f"https://127.0.0.1:{PLACES['tls']}"
ODD = f"http://127.0.0.1:{PLACES['odd']}"
REFUSED = f"http://127.0.0.1:{PLACES['refused']}"
ROUNDS = 4

# A shell starts what runs in its background with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
_seen = Path(os.environ["SEEN"]).open("w", buffering=1)  # noqa: SIM115 - open up to the end
_waiting: set[int] = set()


def _see(request_type: Any, name: Any, response_time: Any, exception: Any, **_: Any) -> None:
    _seen.write(json.dumps([request_type, name, response_time, exception and repr(exception)]))
    _seen.write("\n")


events.request.add_listener(_see)  # type: ignore[no-untyped-call]


class Walker(User):
    """Goes its way, and goes home; the last one ends the run.

    Attributes:
        go: makes requests; all of them are called ``name``.
        name: of the class.
    """

    abstract = True
    fixed_count = 1
    host = f"http://127.0.0.1:{PLACES['plain']}"
    wait_time = constant(0.01)
    go: ClassVar[Go]

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.name = type(self).__name__
        self.left = ROUNDS
        _waiting.add(id(self))

    @task
    def walk(self) -> None:
        """Go the way once."""
        self.left -= 1
        try:
            type(self).go(self)
        finally:
            if not self.left:
                self.finish()

    def finish(self) -> None:
        """The way has been gone."""
        _waiting.discard(id(self))
        if not _waiting:
            gevent.spawn_later(0.1, self.environment.runner.quit)
        raise StopUser


class Slow(HttpUser, Walker):
    """With requests."""

    abstract = True


class Fast(FastHttpUser, Walker):
    """With geventhttpclient."""

    abstract = True


CLIENTS: dict[str, type[User]] = {"Http": Slow, "Fast": Fast, "": Walker}
"""User classes by the end of the names of their ways."""


def make(name: str, client: str, go: Go, attributes: dict[str, Any]) -> type[User]:
    """A user class for one way with one client."""
    return type(name + client, (CLIENTS[client],), {"go": go, **attributes})
