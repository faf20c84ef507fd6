"""The example service, as `examples/fastapi` starts it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from trilat.agent.stamp import EMPTY, decode, find

if TYPE_CHECKING:
    from tests.conftest import Service

EXAMPLES = Path(__file__).parents[2] / "examples/fastapi"


@pytest.mark.parametrize(
    ("path", "least_ms"),
    [("/health", 0), ("/item/17", 20), ("/blocking", 20), ("/sync", 20), ("/cpu?rounds=10", 0)],
)
def test_each_endpoint_answers_and_tells_its_time(
    example_service: Service, path: str, least_ms: int
) -> None:
    """Every endpoint takes the time that it says it takes, and its stamp says so too."""
    headers = {
        "Trilat-Run": "0123456789ab",
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000001-01",
    }
    response = httpx.get(example_service.url + path, headers=headers, trust_env=False, timeout=60)
    assert response.status_code == 200
    packed = find(response.headers["server-timing"].encode(), 1)
    assert packed != EMPTY
    assert decode(packed).app_ns >= least_ms * 1_000_000
    assert decode(packed).queue_ms >= 0


def test_only_who_signs_in_may_go_on(example_service: Service) -> None:
    """A right password gives a token, and the token opens what needs one."""
    with httpx.Client(base_url=example_service.url, trust_env=False, timeout=60) as client:
        wrong = client.post("/sign-in", json={"name": "student001", "password": "guessed"})
        assert (wrong.status_code, client.get("/items").status_code) == (403, 401)
        right = client.post("/sign-in", json={"name": "student001", "password": "100tneduts"})
        client.headers["Authorization"] = f"Bearer {right.json()['token']}"
        assert client.get("/items").json() == {"items": list(range(1, 31))}
        assert client.put("/answers/7").json() == {"item": 7, "of": "student001"}
        assert client.post("/hand-in").json() == {"handed_in_by": "student001"}
        client.headers["Authorization"] += "0"
        assert client.get("/items").status_code == 401


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("locustfile*.py")), ids=lambda path: path.stem
)
def test_each_locustfile_is_explained_and_groups_its_requests(path: Path) -> None:
    """A locustfile says what it is for, marks its requests and names its endpoint."""
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring is not None
    assert f"locust -f {path.name} " in docstring
    assert "import trilat.locust" in text
    assert 'name="/item/[id]"' in text
