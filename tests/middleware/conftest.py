"""Real servers of every kind, each in processes of its own."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from trilat.agent.records import ServiceMarks
from trilat.agent.stamp import EMPTY, decode, find
from trilat.middleware import Health, Station, TrilatMiddleware

from ..servers import Started, free_port, started

if TYPE_CHECKING:
    from trilat.middleware.asgi import ASGIApp, Message

_COMES_WITHIN_S = 30.0
SPAN = 0x00F067AA0BA902B7
MARKED = {
    "Trilat-Run": "0123456789ab",
    "traceparent": f"00-4bf92f3577b34da6a3ce929d0e0e4736-{SPAN:016x}-01",
}
_LISTENS = re.compile(r"(?:Listening at: |[Rr]unning on )http://127\.0\.0\.1:(\d+)")
COMMANDS = {
    "uvicorn": ["uvicorn", "--port", "0", "--no-access-log"],
    "gunicorn": ["gunicorn", "--bind", "127.0.0.1:0", "--graceful-timeout", "5"],
    "hypercorn": ["hypercorn", "--bind", "127.0.0.1:0"],
    "granian": ["granian", "--interface", "asgi"],  # says no more than the port it was given
}


@dataclass(frozen=True, slots=True)
class Served:
    """A server that answers.

    Attributes:
        url: its address, without a slash at the end.
        port: on 127.0.0.1.
        pid: of the process that was started; workers are its children.
        log: what it has written so far is in this file.
        state: the directory of the workers' counters.
    """

    url: str
    port: int
    pid: int
    log: Path
    state: Path

    def get(self, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        """The answer to a request over a connection of its own."""
        return httpx.get(self.url + path, headers=headers, trust_env=False, timeout=60)

    def marked(self, path: str) -> tuple[httpx.Response, ServiceMarks]:
        """The answer to a marked request, and what its stamp says."""
        response = self.get(path, MARKED)
        packed = find(response.headers.get("server-timing", "").encode(), SPAN)
        assert packed != EMPTY
        return response, decode(packed)

    def total(self, sample: str, **labels: str) -> float:
        """The sum of the samples of this name that have these labels, over all workers."""
        return sum(
            found.value
            for family in text_string_to_metric_families(self.get("/metrics").text)
            for found in family.samples
            if found.name == sample and labels.items() <= found.labels.items()
        )

    def requests(self, **labels: str) -> int:
        """How many requests with these labels have been counted."""
        return int(self.total("trilat_http_request_duration_seconds_count", **labels))

    def comes_to(self, wanted: float, sample: str, **labels: str) -> bool:
        """Whether a total comes to be what is wanted, where a server takes its time."""
        gives_up = time.monotonic() + _COMES_WITHIN_S
        while time.monotonic() < gives_up:
            if self.total(sample, **labels) == wanted:
                return True
            time.sleep(0.05)
        return False


Serve = Callable[..., AbstractContextManager[Served]]


@contextmanager
def _serve(server: str, app: str, *options: str, ready: str = "/ready") -> Iterator[Served]:
    """Start a server on a free port, and end it with the block.

    Args:
        server: one of `COMMANDS`.
        app: a module of this directory and its attribute, as ``module:attribute``.
        options: for the server.
        ready: a path that is answered once the service is there.
    """
    command = [sys.executable, "-m", *COMMANDS[server], *options]
    if server == "granian":
        command += ["--port", str(free_port())]
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory) / "state"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TRILAT_STATE": str(state),
        }
        with started(
            [*command, app],
            Path(directory) / "server.log",
            cwd=Path(__file__).parent,
            env=environment,
            in_a_session=True,
        ) as running:
            port = int(running.when_says(_LISTENS)[1])
            served = Served(
                f"http://127.0.0.1:{port}", port, running.process.pid, running.log, state
            )
            _when_answers(served, running, ready)
            yield served


def _when_answers(served: Served, running: Started, path: str) -> None:
    for _ in running.looks():
        with suppress(httpx.TransportError):
            if served.get(path).status_code == 200:
                return


@pytest.fixture(scope="session")
def served() -> Serve:
    """``served(server, app, *options)``: a context manager that gives a `Served`."""
    return _serve


class Exchange:
    """One call of an application: what it was called with, and what came out."""

    def __init__(self, headers: Any, **scope: Any) -> None:
        self.scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "path": "/",
            "headers": headers,
        }
        self.scope.update(scope)
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        """An empty request body."""
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Message) -> None:
        """Keep what the application sends, as a server sees it."""
        self.sent.append(message)

    def run(self, app: ASGIApp) -> Exchange:
        """Call the application to its end."""
        asyncio.run(self._call(app))
        return self

    async def _call(self, app: ASGIApp) -> None:
        await app(self.scope, self.receive, self.send)

    @property
    def stamps(self) -> list[bytes]:
        """The values of the headers that trilat added to the answer's start."""
        return [
            value
            for message in self.sent
            for name, value in message.get("headers") or ()
            if name == b"server-timing" and b"trilat;" in value
        ]

    def marks(self, span: int = SPAN) -> ServiceMarks:
        """The marks of the one stamp that there must be."""
        (value,) = self.stamps
        packed = find(value, span)
        assert packed != EMPTY
        return decode(packed)


class Observed:
    """A station of one test's own, and applications that are observed for it.

    Attributes:
        health: of the station.
        station: of the test.
        exchange: makes a call of an application.
    """

    exchange = Exchange

    def __init__(self, state: Path) -> None:
        self.health = Health()
        self.station = Station(health=self.health, state=state)

    def wrap(self, app: ASGIApp, **options: Any) -> TrilatMiddleware:
        """The application, observed."""
        return TrilatMiddleware(app, station=self.station, **options)


@pytest.fixture
def observed(tmp_path: Path) -> Iterator[Observed]:
    """A station that keeps its files in the test's directory."""
    observed = Observed(tmp_path / "state")
    yield observed
    observed.station.close()
