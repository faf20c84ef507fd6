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
