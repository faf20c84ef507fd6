"""Each framework behind a real server: answers are stamped, routes have their templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from websockets.sync.client import connect

if TYPE_CHECKING:
    from tests.middleware.conftest import Serve, Served

ROUTES = {
    "plain": "/plain/items/{item}",
    "starlette": "/starlette/items/{item}",
    "fastapi": "/fastapi/items/{item}",
    "litestar": "/litestar/items/{item}",
    "quart": "/quart/items/<int:item>",
    "django": "/django/items/<int:item>",
}


@pytest.fixture(scope="module")
def server(served: Serve) -> Iterator[Served]:
    """All frameworks, behind uvicorn."""
    with served("uvicorn", "framework_apps:app") as running:
        yield running


@pytest.mark.parametrize("framework", ROUTES)
def test_answer_is_stamped(server: Served, framework: str) -> None:
    """The stamp needs nothing of a framework."""
    response, marks = server.marked(f"/{framework}/items/5")
    assert response.text == "5"
    assert marks.app_ns > 0


@pytest.mark.parametrize("framework", ROUTES)
def test_route_is_labelled_with_its_template(server: Served, framework: str) -> None:
    """Two items are one route."""
    labels = {"method": "GET", "route": ROUTES[framework], "status": "200"}
    before = server.requests(**labels)
    for item in (5, 6):
        assert server.get(f"/{framework}/items/{item}").text == str(item)
    assert server.requests(**labels) == before + 2


@pytest.mark.parametrize("framework", ROUTES)
def test_unknown_path_matches_no_route(server: Served, framework: str) -> None:
    """What no route matches has one label, whoever answers."""
    before = server.requests(route="(unmatched)")
    server.get(f"/{framework}/nowhere")
    assert server.requests(route="(unmatched)") == before + 1


def test_websocket_of_quart_is_labelled_with_its_template(server: Served) -> None:
    """A resolver names the routes of WebSockets as well."""
    with connect(f"ws://127.0.0.1:{server.port}/quart/echo/a", proxy=None) as websocket:
        websocket.send("hello")
        assert websocket.recv(timeout=60) == "hello"
    sample, route = "trilat_websocket_duration_seconds_count", "/quart/echo/<room>"
    assert server.comes_to(1, sample, route=route)


def test_failing_resolver_is_counted(server: Served) -> None:
    """The request is answered, and counted under the label of no route."""
    errors = server.total("trilat_instrumentation_errors_total")
    before = server.requests(route="(unmatched)")
    assert server.get("/plain/raise").text == "raise"
    assert server.requests(route="(unmatched)") == before + 1
    assert server.comes_to(errors + 1, "trilat_instrumentation_errors_total")
