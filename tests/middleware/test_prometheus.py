"""A real Prometheus scrapes a real service: metrics, exemplars, dashboard and rules."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.sync.client import connect

from ..servers import started

if TYPE_CHECKING:
    from .conftest import Serve, Served

Found = TypeVar("Found")

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="Prometheus is not installed",
)

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIG = EXAMPLES / "prometheus/prometheus.yml"
RULES = EXAMPLES / "prometheus/trilat-alerts.yml"
DASHBOARD = EXAMPLES / "grafana/trilat-service.json"
MAY_BE_EMPTY = {
    "trilat_process_unique_memory_bytes",  # only where it is cheap to measure
    "trilat_cgroup_memory_limit_bytes",  # only where there is one
    "trilat_listen_queue_limit_connections",  # only where the kernel tells
}
"""Metrics that this machine may not have, so that what is drawn of them may be empty. All the other
queries must give data; those of throttling and steal do, as their counters are 0 if need be."""

_COMES_WITHIN_S = 120.0  # a busy machine may take long; nothing is slower for a generous limit
_LISTENS = re.compile(r'msg="Listening on" address="?127\.0\.0\.1:(\d+)')
_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
_SPAN = "00f067aa0ba902b7"


def expressions() -> list[str]:
    """The queries of the dashboard, as they stand there."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A Prometheus that scrapes a service.

    Attributes:
        client: for requests to it.
        instance: the service's address, as the label that its series have.
    """

    client: httpx.Client
    instance: str

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of the API.

        Raises:
            AssertionError: it is an error.
        """
        answer = self.client.get(f"/api/v1/{path}", params=parameters).json()
        assert answer["status"] == "success", (parameters, answer)
        return answer["data"]

    def query(self, expression: str) -> list[float]:
        """The numbers that a query of the dashboard gives now."""
        for variable, value in (
            ("$__rate_interval", "15s"),
            ("$job", "service"),
            ("$instance", re.escape(self.instance).replace("\\", "\\\\")),
            ("$route", ".*"),
        ):
            expression = expression.replace(variable, value)
        assert "$" not in expression
        found = self.ask("query", query=expression)["result"]
        return [number for one in found if isfinite(number := float(one["value"][1]))]


@pytest.fixture(scope="module")
def service(served: Serve) -> Iterator[Served]:
    """The service under a little load."""
    with served("uvicorn", "scraped_app:app") as one, loaded(one):
        yield one


@pytest.fixture(scope="module")
def prometheus(service: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus with the example's configuration, but for its intervals and the target."""
    directory = tmp_path_factory.mktemp("prometheus")
    instance = f"127.0.0.1:{service.port}"
    text = CONFIG.read_text()
    for old, new in (
        ("scrape_interval: 5s", "scrape_interval: 1s"),
        ("evaluation_interval: 15s", "evaluation_interval: 1s"),
        ('"127.0.0.1:8000"', f'"{instance}"'),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (directory / CONFIG.name).write_text(text)
    shutil.copy(RULES, directory)
    command = [
        "prometheus",
        f"--config.file={directory / CONFIG.name}",
        f"--storage.tsdb.path={directory / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        "--enable-feature=exemplar-storage",
    ]
    with started(command, directory / "prometheus.log") as server:
        url = f"http://127.0.0.1:{server.when_says(_LISTENS)[1]}"
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            assert until(lambda: is_ready(client)), server.said
            yield Prometheus(client, instance)


@contextmanager
def loaded(service: Served) -> Iterator[None]:
    """Send requests of all kinds, over and over, until the block ends."""
    stop = threading.Event()
    kinds = (
        ("/items/1", "/items/2", "/stream", "/sync"),
        ("/failing", "/raising", "/sync", "/items/3"),
        ("/blocking", "/sync", "/nowhere"),
    )
    threads = [threading.Thread(target=send_all, args=(service, kind, stop)) for kind in kinds]
    threads.append(threading.Thread(target=talk_on, args=(service, stop)))
    with ExitStack() as at_end:
        for thread in threads:
            thread.start()
            at_end.callback(thread.join)
        at_end.callback(stop.set)
        yield


def send_all(service: Served, paths: tuple[str, ...], stop: threading.Event) -> None:
    """Request one path after the other, as part of a trace."""
    headers = {"traceparent": f"00-{_TRACE}-{_SPAN}-01"}
    with httpx.Client(base_url=service.url, trust_env=False, timeout=60) as client:
        while not stop.is_set():
            for path in paths:
                with suppress(httpx.TransportError):
                    client.get(path, headers=headers)
                stop.wait(0.05)


def talk_on(service: Served, stop: threading.Event) -> None:
    """Keep a WebSocket open, and open and close others."""
    url = f"ws://127.0.0.1:{service.port}/talk"
    with connect(url, proxy=None, open_timeout=60, ping_interval=None) as lasting:
        while not stop.is_set():
            with connect(url, proxy=None, open_timeout=60, ping_interval=None) as short:
                for one in (lasting, short):
                    one.send("hello")
                    assert one.recv(timeout=60) == "hello"
            stop.wait(0.2)


def until(ask: Callable[[], Found]) -> Found:
    """Ask until there is an answer that holds, or for as long as anybody would; the last answer."""
    gives_up = time.monotonic() + _COMES_WITHIN_S
    while not (found := ask()) and time.monotonic() < gives_up:
        time.sleep(0.2)
    return found


def is_ready(client: httpx.Client) -> bool:
    """Whether Prometheus answers queries."""
    with suppress(httpx.TransportError):
        return client.get("/-/ready").is_success
    return False


def test_the_text_form_follows_the_conventions(service: Served) -> None:
    """Prometheus' linter has nothing to say about names, units and help."""
    text = service.get("/metrics").text
    ran = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


def test_the_service_is_scraped(prometheus: Prometheus) -> None:
    """The one target is up; at one scrape a second a busy machine may miss some."""

    def up() -> list[dict[str, str]]:
        targets: list[dict[str, Any]] = prometheus.ask("targets")["activeTargets"]
        return [target["labels"] for target in targets if target["health"] == "up"]

    assert until(up) == [{"instance": prometheus.instance, "job": "service"}]


def test_each_query_of_the_dashboard_gives_data(prometheus: Prometheus) -> None:
    """Every panel draws something, but for what this machine may not have."""
    queries = expressions()
    for query in queries:
        prometheus.query(query)  # all are valid
    empty = {query for query in queries if not any(name in query for name in MAY_BE_EMPTY)}

    def all_drawn() -> bool:
        # Not all at once: a scrape that failed leaves nothing for a moment.
        empty.difference_update([query for query in empty if prometheus.query(query)])
        return not empty

    until(all_drawn)
    assert empty == set()


def test_variables_of_the_dashboard_have_values(prometheus: Prometheus) -> None:
    """Job, instance and route can be chosen; a route is a template, never a concrete path."""

    def values(label: str) -> list[str]:
        found: list[str] = prometheus.ask(f"label/{label}/values")
        return found

    assert until(lambda: {"/items/{item}", "(unmatched)"} <= set(values("route")))
    assert not {"/items/1", "/items/2", "/nowhere"} & set(values("route"))
    assert values("job") == ["service"]
    assert values("instance") == [prometheus.instance]


def test_the_alert_rules_load(prometheus: Prometheus) -> None:
    """Each rule is there, and is evaluated without an error."""

    def evaluated() -> list[dict[str, str]]:
        groups: list[dict[str, Any]] = prometheus.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return [rule for rule in rules if rule["health"] != "unknown"]

    names = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    assert until(lambda: {rule["name"] for rule in evaluated()} == names)
    assert {rule["health"]: rule.get("lastError") for rule in evaluated()} == {"ok": None}


def test_the_rules_read_what_there_is(service: Served) -> None:
    """Each metric that a rule names is one that the service shows."""
    text = service.get("/metrics").text
    shown = {
        name
        for family in text_string_to_metric_families(text)
        for name in (family.name, *(f"{family.name}_{part}" for part in ("total", "sum", "count")))
    }
    named = set(re.findall(r"\btrilat_\w+", RULES.read_text()))
    assert named
    assert named <= shown


def test_exemplars_arrive(prometheus: Prometheus) -> None:
    """A bucket points to the trace of a request that fell into it."""

    def exemplars() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = prometheus.ask(
            "query_exemplars",
            query='trilat_http_request_duration_seconds_bucket{route="/items/{item}"}',
            start=str(time.time() - 600),
            end=str(time.time() + 60),
        )
        return [exemplar for series in found for exemplar in series["exemplars"]]

    found = until(exemplars)
    assert {exemplar["labels"]["trace_id"] for exemplar in found} == {_TRACE}
    assert all(float(exemplar["value"]) > 0 for exemplar in found)
