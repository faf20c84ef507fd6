"""The same service behind each kind of server: what is stamped, known and counted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from websockets.sync.client import connect

from trilat.agent.records import UNKNOWN

if TYPE_CHECKING:
    from tests.middleware.conftest import Serve, Served

KINDS = {
    "uvicorn-asyncio-h11": ("uvicorn", "--loop", "asyncio", "--http", "h11"),
    "uvicorn-uvloop-httptools": ("uvicorn", "--loop", "uvloop", "--http", "httptools"),
    "uvicorn-2-workers": ("uvicorn", "--workers", "2"),
    "gunicorn-2-uvicorn-workers": (
        *("gunicorn", "--worker-class", "uvicorn_worker.UvicornWorker"),
        *("--workers", "2"),
    ),
    "gunicorn-asgi": ("gunicorn", "--worker-class", "asgi"),
    "hypercorn-2-workers": ("hypercorn", "--workers", "2"),
    "granian-2-workers": ("granian", "--workers", "2"),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The name of a kind of server."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def server(kind: str, served: Serve) -> Iterator[Served]:
    """The service behind this kind of server."""
    name, *options = KINDS[kind]
    with served(name, "server_app:app", *options) as running:
        yield running


def test_marked_answer_is_stamped(server: Served, kind: str) -> None:
    """The stamp is there behind every server, with the queue where the server shows its socket."""
    response, marks = server.marked("/v1/items/5")
    assert response.json() == {"item": "5"}
    assert marks.app_ns > 0
    assert marks.blocked_ns >= 0
    if "uvicorn" in kind and sys.platform == "linux":
        assert marks.queue_ms >= 0
    else:
        assert marks.queue_ms == UNKNOWN


def test_unmarked_answer_is_not_stamped(server: Served) -> None:
    """Without the header the answer is the application's."""
    assert "server-timing" not in server.get("/v1/items/5").headers


def test_all_workers_count_together(server: Served) -> None:
    """A scrape of any worker shows the requests of all, with the template as the label."""
    labels = {"method": "GET", "route": "/tenants/{tenant}/items/{item}", "status": "200"}
    before = server.requests(**labels)
    for number in range(10):
        assert server.get(f"/tenants/{number}/items/{number}").status_code == 200
    assert {server.requests(**labels) for _ in range(4)} == {before + 10}


def test_exception_before_the_answer_is_a_500(server: Served) -> None:
    """The server's answer is its own; the request is counted as failed."""
    labels = {"method": "GET", "route": "/fail", "status": "500"}
    before = server.requests(**labels)
    assert server.get("/fail").status_code == 500
    assert server.requests(**labels) == before + 1


def test_files_and_unknown_paths_have_one_label_each(server: Served) -> None:
    """No path of a client becomes a label."""
    for route, path, status in (
        ("/static/{path}", "/static/conftest.py", "200"),
        ("(unmatched)", "/nowhere", "404"),
    ):
        before = server.requests(route=route, status=status)
        assert server.get(path).status_code == int(status)
        assert server.requests(route=route, status=status) == before + 1


def test_websocket_is_counted(server: Served) -> None:
    """Connection, messages and end are there behind every server."""
    route = {"route": "/echo/{room}"}
    with connect(f"ws://127.0.0.1:{server.port}/echo/a", proxy=None) as websocket:
        for text in ("one", "two", "stop"):
            websocket.send(text)
            assert websocket.recv(timeout=60) == text
    for sample, wanted in (
        ("trilat_websocket_duration_seconds_count", 1),
        ("trilat_websocket_connections", 0),
        ("trilat_websocket_received_messages_total", 3),
        ("trilat_websocket_sent_messages_total", 3),
    ):
        assert server.comes_to(wanted, sample, **route)


def test_nothing_has_failed_inside(server: Served) -> None:
    """The instrumentation has counted and logged no error of its own on the way."""
    assert server.total("trilat_instrumentation_errors_total") == 0
    assert "trilat could not" not in server.log.read_text()
