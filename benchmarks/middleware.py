"""What a middleware adds to a request: trilat's, and two metrics exporters', beside each other.

    python benchmarks/middleware.py [--rounds 40] [--calls 500] [--format json]

Each subject is the same Starlette application with one no-op route and that one middleware, called
in process: no server, no sockets except the one that trilat asks the kernel about, which is a real
TCP connection. In each round every subject answers the same number of requests, in an order that
rotates, so that what slows the machine down slows all of them; a round's cost of a middleware is
its time less that of the bare application in that round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import socket
import statistics
import sys
import tempfile
import time
from asyncio.trsock import TransportSocket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from trilat.agent.marking import RUN_HEADER, TRACEPARENT_HEADER, new_run_id
from trilat.middleware import Station, TrilatMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from trilat.middleware.asgi import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Cost", "main", "measure"]

BARE = "no middleware"
ALL_ON = "trilat, marked and journaled"
STAMPED = ("trilat, marked request", ALL_ON)
CALLS_A_TURN = 20

# What requests, and so Locust's HttpUser, sends.
UNMARKED_HEADERS = [
    (b"host", b"127.0.0.1:8000"),
    (b"user-agent", b"python-requests/2.32.5"),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept", b"*/*"),
    (b"connection", b"keep-alive"),
]
MARKED_HEADERS = [
    *UNMARKED_HEADERS,
    (
        TRACEPARENT_HEADER.lower().encode(),
        b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ),
    (RUN_HEADER.lower().encode(), new_run_id().encode()),
]


class Connection:
    """Stands where uvicorn's request object stands: it owns ``receive`` and has a transport."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock  # asyncio's transports have it under this name
        self._socket = TransportSocket(sock)  # what they hand out
        self.transport = self
        self.disconnected = False

    def get_extra_info(self, name: str) -> TransportSocket | None:
        """As `asyncio.BaseTransport.get_extra_info`."""
        return self._socket if name == "socket" else None

    async def receive(self) -> Message:
        """An empty body."""
        return {"type": "http.request", "body": b"", "more_body": False}


class SendWrapper:
    """The least that a middleware which looks at answers can do."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wrap ``send`` in a coroutine function, as middleware commonly does."""

        async def wrapped(message: Message) -> None:
            await send(message)

        await self.app(scope, receive, wrapped)


@dataclass(frozen=True, slots=True)
class Subject:
    """One application to measure, and the headers of the requests to it."""

    name: str
    app: ASGIApp
    headers: list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a middleware adds to one request, in microseconds.

    Attributes:
        name: of the subject.
        added_us: median over the rounds.
        low_us: smallest round.
        high_us: largest round.
        times_trilat: the median as a multiple of trilat's with everything on: counted, with the
            loop's lag, stamped and journaled.
    """

    name: str
    added_us: float
    low_us: float
    high_us: float
    times_trilat: float


async def no_op(_request: Request) -> Response:
    """Answer with nothing."""
    return Response()


def new_app() -> Starlette:
    """The application that each subject has."""
    return Starlette(routes=[Route("/", no_op)])


def with_middleware(middleware: Callable[[ASGIApp], ASGIApp]) -> Starlette:
    """The application with one middleware added the usual way."""
    app = new_app()
    app.add_middleware(middleware)
    return app


def trilat(station: Station, *, journal: Path | None = None) -> Starlette:
    """The application with trilat's middleware."""
    return with_middleware(lambda app: TrilatMiddleware(app, station=station, journal=journal))


def subjects(stations: list[Station], scratch: Path) -> tuple[list[Subject], list[str]]:
    """All that can be measured here, the bare application first, and the packages missing."""
    plain = trilat(stations[0])
    journaled = trilat(stations[1], journal=scratch / "journal")
    found = [
        Subject(BARE, new_app(), UNMARKED_HEADERS),
        Subject("a wrapped send", with_middleware(SendWrapper), UNMARKED_HEADERS),
        Subject("trilat, unmarked request", plain, UNMARKED_HEADERS),
        Subject("trilat, journaled request", journaled, UNMARKED_HEADERS),
        Subject("trilat, marked request", plain, MARKED_HEADERS),
        Subject(ALL_ON, journaled, MARKED_HEADERS),
    ]
    missing = []
    try:
        from prometheus_fastapi_instrumentator import Instrumentator
    except ImportError:
        missing.append("prometheus-fastapi-instrumentator")
    else:
        app = new_app()
        Instrumentator().instrument(app)
        found.append(Subject("prometheus-fastapi-instrumentator", app, UNMARKED_HEADERS))
    try:
        from starlette_exporter import PrometheusMiddleware
    except ImportError:
        missing.append("starlette-exporter")
    else:
        app = with_middleware(PrometheusMiddleware)
        found.append(Subject("starlette_exporter", app, UNMARKED_HEADERS))
    try:
        from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    except ImportError:
        missing.append("opentelemetry-instrumentation-asgi opentelemetry-sdk")
    else:
        provider = MeterProvider([InMemoryMetricReader()])
        app = with_middleware(lambda app: OpenTelemetryMiddleware(app, meter_provider=provider))
        found.append(Subject("opentelemetry-asgi, metrics", app, UNMARKED_HEADERS))
    return found, missing


async def call_ns(subject: Subject, connection: Connection, calls: int) -> float:
    """Nanoseconds of processor time that a request took, as the mean over a number of them.

    Of this thread, so that what else the machine does counts as little as can be.

    The event loop gets its turn every few requests, untimed: in a server it has one for each.
    """

    async def send(message: Message) -> None:
        pass

    app, receive, headers = subject.app, connection.receive, subject.headers
    took_ns = done = 0
    while done < calls:
        turn = min(CALLS_A_TURN, calls - done)
        begun_ns = time.thread_time_ns()
        for _ in range(turn):
            await app(_scope(headers), receive, send)
        took_ns += time.thread_time_ns() - begun_ns
        done += turn
        await asyncio.sleep(0)
    return took_ns / calls


def _scope(headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }


async def check(subject: Subject, connection: Connection) -> None:
    """Make sure that a subject answers, and that exactly the marked one is stamped with evidence.

    Raises:
        RuntimeError: what would be measured is not what is meant.
    """
    starts: list[Message] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            starts.append(message)

    await subject.app(_scope(subject.headers), connection.receive, send)
    stamped = b"queue;dur=" in dict(starts[0]["headers"]).get(b"server-timing", b"")
    if starts[0]["status"] != 200 or stamped != (subject.name in STAMPED):
        raise RuntimeError(f"{subject.name}: unexpected answer {starts[0]}")


async def measure(found: list[Subject], rounds: int, calls: int) -> tuple[float, list[Cost]]:
    """Measure all subjects; the first is what the others are compared with.

    Returns:
        Microseconds of the bare application, and the costs of the others.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    served, _ = listener.accept()
    client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    connection = Connection(served)
    with listener, client, served:
        for subject in found:
            await check(subject, connection)
            await call_ns(subject, connection, calls)  # warm up
        by_round: list[dict[str, float]] = []
        for number in range(rounds):
            turn = number % len(found)
            order = found[turn:] + found[:turn]
            by_round.append({s.name: await call_ns(s, connection, calls) for s in order})
    added = {
        subject.name: [(took[subject.name] - took[BARE]) / 1000 for took in by_round]
        for subject in found[1:]
    }
    trilat_us = statistics.median(added[ALL_ON])
    costs = [
        Cost(name, middle := statistics.median(us), min(us), max(us), middle / trilat_us)
        for name, us in added.items()
    ]
    return statistics.median(took[BARE] for took in by_round) / 1000, costs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=40, help="paired rounds (default 40)")
    parser.add_argument("--calls", type=int, default=500, help="requests a round (default 500)")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        stations = [Station(state=Path(scratch) / name) for name in ("plain", "journaled")]
        found, missing = subjects(stations, Path(scratch))
        bare_us, costs = asyncio.run(measure(found, options.rounds, options.calls))
        for station in stations:
            station.close()
    if missing:
        print(
            f"not measured, since not installed: pip install {' '.join(missing)}", file=sys.stderr
        )
    if options.format == "json":
        facts = {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()}",
            "rounds": options.rounds,
            "calls": options.calls,
            "bare_us": round(bare_us, 3),
        }
        print(json.dumps({**facts, "added": [asdict(cost) for cost in costs]}, indent=2))
        return
    print(f"{'added to a request':36}{'µs, median':>12}{'min to max':>18}{'x trilat':>10}")
    for cost in costs:
        spread = f"{cost.low_us:.1f} to {cost.high_us:.1f}"
        print(f"{cost.name:36}{cost.added_us:12.2f}{spread:>18}{cost.times_trilat:10.1f}")
    print(
        f"The bare application takes {bare_us:.1f} µs a request."
        f" {options.rounds} rounds of {options.calls} requests; Python {platform.python_version()}."
    )


if __name__ == "__main__":
    main()
