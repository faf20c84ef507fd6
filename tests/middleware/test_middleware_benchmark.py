"""The benchmark of the middleware runs, and says what its README says that it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks/middleware.py"


def test_benchmark_prints_json() -> None:
    """A short run gives a figure for each subject that is installed, trilat's among them."""
    ran = subprocess.run(
        [sys.executable, BENCHMARK, "--rounds", "3", "--calls", "3", "--format", "json"],
        capture_output=True,
        check=True,
        timeout=120,
    )
    result = json.loads(ran.stdout)
    names = [cost["name"] for cost in result["added"]]
    assert names[:5] == [
        "a wrapped send",
        "trilat, unmarked request",
        "trilat, journaled request",
        "trilat, marked request",
        "trilat, marked and journaled",
    ]
    assert result["bare_us"] > 0
    assert result["rounds"] == 3


def test_benchmark_prints_a_table() -> None:
    """The table has a line for each subject and one for the bare application."""
    ran = subprocess.run(
        [sys.executable, BENCHMARK, "--rounds", "3", "--calls", "3"],
        capture_output=True,
        check=True,
        timeout=120,
        text=True,
    )
    assert "trilat, marked request" in ran.stdout
    assert "The bare application takes" in ran.stdout
