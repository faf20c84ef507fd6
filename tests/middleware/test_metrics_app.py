"""The metrics application: what it answers to whom."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from trilat.agent.collector import ServiceCollector
from trilat.agent.families import HTTP
from trilat.agent.workers import WorkerGroup
from trilat.middleware.health import Health
from trilat.middleware.metrics import MetricsApp

if TYPE_CHECKING:
    from prometheus_client import Metric

parse_open: Callable[[str], Iterable[Metric]] = parser.text_string_to_metric_families
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def app(tmp_path: Path) -> MetricsApp:
    """The application over a service that had three requests."""
    group = WorkerGroup(tmp_path / "state")
    counters = group.enter()
    counters.view[counters.block(HTTP, ("GET", "/", "200"))] += 3
    return MetricsApp(ServiceCollector(group))


@dataclass
class Answer:
    """What an application sent."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


def ask(app: Any, path: str = "/", method: str = "GET", **headers: str) -> Answer:
    """Ask an application as a server does; underscores in names of headers are hyphens."""
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [
            (name.replace("_", "-").encode(), value.encode("latin-1"))
            for name, value in headers.items()
        ],
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    start, *bodies = sent
    found = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    assert not bodies[-1].get("more_body")
    return Answer(start["status"], found, b"".join(message["body"] for message in bodies))


def talk(app: Any, kind: str, *received: str) -> list[str]:
    """The kinds of messages that an application sends when it receives some."""
    waiting = [{"type": f"{kind}.{name}"} for name in reversed(received)]
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        return waiting.pop()

    async def send(message: Any) -> None:
        sent.append(message["type"])

    asyncio.run(app({"type": kind}, receive, send))
    return sent


def test_prometheus_text_is_the_default(app: MetricsApp) -> None:
    """Who asks for nothing gets the format that every Prometheus reads."""
    answer = ask(app)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["content-length"] == str(len(answer.body))
    families = {family.name: family for family in parse_text(answer.text)}
    (count,) = [
        sample.value
        for sample in families["trilat_http_response_start_seconds"].samples
        if sample.name.endswith("_count")
    ]
    assert count == 3


def test_openmetrics_is_given_to_who_asks(app: MetricsApp) -> None:
    """The format goes by the accept header."""
    answer = ask(app, accept=f"{OPEN_METRICS},text/plain;q=0.5")
    assert answer.headers["content-type"].startswith(OPEN_METRICS)
    assert answer.text.endswith("# EOF\n")
    assert list(parse_open(answer.text))


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain",
        "text/plain; version=1.0.0; escaping=allow-utf-8",
        OPEN_METRICS,
        f"{OPEN_METRICS}; escaping=allow-utf-8",
        f"{OPEN_METRICS}; escaping=underscores",
        f"{OPEN_METRICS}; escaping=dots",
    ],
)
def test_the_page_is_what_the_library_writes(
    accept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it gets there: of many series, in each format, with awkward labels."""
    group = WorkerGroup(tmp_path / "state")
    counters = group.enter()
    for number in range(30):
        place = counters.block(HTTP, ("GET", f'/é"{number}\\{{item}}', "200"))
        counters.view[place + HTTP.places["trilat_http_request_duration_seconds"]] += number
    monkeypatch.setattr("trilat.agent.collector.service_group", lambda: group)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ServiceCollector(group))
    encode, content_type = choose_encoder(accept)
    answer = ask(MetricsApp(), accept=accept)
    assert answer.body == encode(registry)
    assert answer.headers["content-type"] == content_type


def test_a_collectors_metrics_are_left_as_they_are() -> None:
    """A collector may hand out the same objects each time."""
    family = GaugeMetricFamily("kept", "The same each time.", labels=["at"])
    for at in range(250):
        family.add_metric([str(at)], at)

    class Keeping(Collector):
        def collect(self) -> Iterable[Metric]:
            return [family]

    app = MetricsApp(Keeping())
    first = ask(app)
    assert ask(app).body == first.body
    assert first.text.count("\nkept{") == 250
    assert len(family.samples) == 250


def test_it_is_compressed_for_who_takes_gzip(app: MetricsApp) -> None:
    """Compressed and plain are the same text."""
    plain, packed = ask(app), ask(app, accept_encoding="br, gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["content-length"] == str(len(packed.body))
    assert gzip.decompress(packed.body) == plain.body
    assert "content-encoding" not in plain.headers


def test_head_has_the_headers_of_get(app: MetricsApp) -> None:
    """HEAD tells the length and has no body."""
    got, head = ask(app), ask(app, method="HEAD")
    assert (head.status, head.body, head.headers) == (200, b"", got.headers)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_other_methods_are_not_allowed(app: MetricsApp, method: str) -> None:
    """Metrics are read only."""
    answer = ask(app, method=method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"


def test_metrics_can_be_selected(app: MetricsApp) -> None:
    """``name[]`` names the series that are wanted."""
    answer = ask(app, "/?name[]=trilat_workers&name[]=nothing")
    assert [family.name for family in parse_text(answer.text)] == ["trilat_workers"]


@pytest.mark.parametrize(
    "accept",
    ["application/openmetrics-text; version=x", "text/plain; version=..", ";;;,,", "\xff\xfe"],
)
def test_malformed_headers_get_the_default(app: MetricsApp, accept: str) -> None:
    """An accept header that makes no sense is answered as if it were not there."""
    answer = ask(app, accept=accept)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_it_takes_part_in_frameworks(app: MetricsApp) -> None:
    """It is mounted, or is a route at its very path, in FastAPI and Starlette."""
    fast = FastAPI()
    fast.mount("/metrics", app)
    starlette = Starlette(routes=[Route("/metrics", app), Mount("/other", app)])
    for framework, path in ((fast, "/metrics/"), (starlette, "/metrics"), (starlette, "/other/")):
        assert "trilat_workers" in ask(framework, path).text
    redirect = ask(fast, "/metrics", host="127.0.0.1")
    assert redirect.headers["location"] == "http://127.0.0.1/metrics/"


def test_it_can_be_served_by_itself(app: MetricsApp) -> None:
    """A server starts and stops it; over a WebSocket there is nothing to say."""
    lifespan = talk(app, "lifespan", "startup", "shutdown")
    assert lifespan == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert talk(app, "websocket", "connect") == ["websocket.close"]


class Broken(Collector):
    """A collector that fails."""

    def collect(self) -> Iterable[Metric]:
        """Fail."""
        raise RuntimeError("no metrics")


def test_a_failure_is_said_and_counted() -> None:
    """A scrape that fails must not look like a service without requests."""
    health = Health()
    answer = ask(MetricsApp(Broken(), health=health))
    assert answer.status == 500
    assert "no metrics" not in answer.text
    assert health.errors == 1


class Waiting(Collector):
    """A collector that waits until it is let go, and says on which thread it ran."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.threads: list[int] = []

    def collect(self) -> Iterable[Metric]:
        """Wait."""
        self.threads.append(threading.get_ident())
        assert self.go.wait(30)
        yield GaugeMetricFamily("a", "b", value=1)


def test_the_event_loop_goes_on_meanwhile() -> None:
    """Metrics are gathered beside the loop, one time after the other."""
    collector = Waiting()
    collector.describe = list  # type: ignore[attr-defined] # registering must not wait
    app = MetricsApp(collector)
    scope = {"type": "http", "method": "GET", "headers": [], "query_string": b""}
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def ask() -> None:
        asked = [asyncio.create_task(app(dict(scope), receive, send)) for _ in range(3)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert not sent
        collector.go.set()
        await asyncio.gather(*asked)

    asyncio.run(ask())
    assert [message["status"] for message in sent if "status" in message] == [200] * 3
    assert len(set(collector.threads)) == 1
    assert threading.get_ident() not in collector.threads
