"""What tests of the command line need: the command itself, and one finished run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/fastapi"
TRILAT = [sys.executable, "-c", "from trilat.correlator.cli import main; main()"]

RunTrilat = Callable[..., "subprocess.CompletedProcess[str]"]


def _run_trilat(
    *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRILAT, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


LASTING = """
from gevent import sleep
from locust import HttpUser, task


class Lasting(HttpUser):
    @task
    def ask(self):
        for _ in range(10):
            self.client.get("/item/1", name="/item/[id]")
        sleep(100)
"""


@pytest.fixture
def lasting(tmp_path: Path) -> Path:
    """A locustfile whose user is not done when it is told to stop, so that Locust waits for it."""
    locustfile = tmp_path / "locustfile.py"
    locustfile.write_text(LASTING)
    return locustfile


@pytest.fixture(scope="session")
def trilat() -> RunTrilat:
    """``trilat(*arguments, cwd=…, NAME=value)``: run the command in a process of its own."""
    return _run_trilat


@pytest.fixture(scope="session")
def trilat_command() -> list[str]:
    """The command's first words, for tests that start it by themselves."""
    return TRILAT


@pytest.fixture(scope="session")
def load() -> Callable[..., list[str]]:
    """``load(url, seconds)``: Locust's options for a light load of so many seconds."""

    def options(url: str, seconds: float = 2) -> list[str]:
        users = ["--users", "5", "--spawn-rate", "5"]
        return ["--headless", "--host", url, *users, "--run-time", f"{seconds}s"]

    return options


@pytest.fixture(scope="session")
def finished_run(
    trilat: RunTrilat,
    load: Callable[..., list[str]],
    example_service: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The directory of a run that passed its objective; tests must not change it."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    done = trilat(
        *("run", "-f", EXAMPLES / "locustfile_think_time.py", "--out", out),
        *("--slo", "p95<=5s", "--", *load(example_service.url)),
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return out
