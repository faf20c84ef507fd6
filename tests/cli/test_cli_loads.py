"""The locustfiles of ``examples/loads``, each in a short real run on the example service."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

LOADS = Path(__file__).parents[2] / "examples/loads"
LOCUSTFILES = sorted({path.stem for path in LOADS.glob("*.py")} - {"plan"})
OF_STUDENTS = {"POST /sign-in", "POST /hand-in"}
JUDGED = {0, 1, 3, 4, 5}


@pytest.mark.parametrize("name", LOCUSTFILES)
def test_each_locustfile_says_what_it_is_for(name: str) -> None:
    """Its text begins with the command that runs it, and the page of the loads shows it."""
    text = ast.get_docstring(ast.parse((LOADS / f"{name}.py").read_text()))
    assert text is not None
    assert f"    trilat run -f {name}.py -- --headless " in text
    assert f"`{name}.py`" in (LOADS.parents[1] / "docs/loads.md").read_text()


@pytest.mark.parametrize("name", LOCUSTFILES)
def test_each_locustfile_makes_its_load(
    name: str, trilat: Any, example_service: Any, tmp_path: Path
) -> None:
    """Every request is answered rightly and attributed; students sign in, and all hand in."""
    out = tmp_path / "run"
    users = ["-u", "10", "-t", "5s", *(["-r", "10"] if name == "student" else [])]
    done = trilat(
        *("run", "-f", LOADS / f"{name}.py", "--out", out),
        *("--", "--headless", "--host", example_service.url, *users),
    )
    assert done.returncode in JUDGED, done.stderr
    assert "Traceback" not in done.stderr + (out / "locust.log").read_text()
    result = json.loads((out / "result.json").read_text())
    total = result["total"]
    assert total["failures"] == 0, (out / "locust.log").read_text()
    assert total["requests"] == total["matched"] > 0
    found = {f"{each['method']} {each['name']}": each for each in result["endpoints"]}
    if name in ("student", "exam_day"):
        assert found.keys() >= OF_STUDENTS
        assert 0 < found["POST /hand-in"]["requests"] <= found["POST /sign-in"]["requests"] <= 10
    else:
        assert found.keys() == {"GET /item/[id]"}
