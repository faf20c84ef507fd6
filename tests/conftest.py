"""What tests of every side need: real services, each in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is slow: how long an example takes says nothing.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("patient")

ROOT = Path(__file__).parents[1]
_STARTS_WITHIN_S = 60.0  # a busy machine may take long; nothing is slower for a generous limit
_STOPS_WITHIN_S = 20.0
_RUNNING = re.compile(r"Uvicorn running on (\w+://[\w.\[\]:]+:(\d+)) ")


@dataclass(frozen=True, slots=True)
class Service:
    """A uvicorn process that is ready for requests.

    Attributes:
        url: its address, without a slash at the end.
        port: on 127.0.0.1.
        pid: the process.
        log: what it has written so far is in this file.
    """

    url: str
    port: int
    pid: int
    log: Path


StartService = Callable[..., AbstractContextManager[Service]]


@contextmanager
def _start_service(app: str | Path, *uvicorn_args: str) -> Iterator[Service]:
    """Start uvicorn on a free port, and end it with the block.

    Args:
        app: ``module:attribute``, or the path of a file (with ``:attribute``, else ``app``).
        uvicorn_args: options for uvicorn.
    """
    place, _, attribute = str(app).rpartition(":") if ":" in str(app) else (str(app), "", "app")
    if place.endswith(".py"):
        path = Path(place).resolve()
        target = ["--app-dir", str(path.parent), f"{path.stem}:{attribute}"]
    else:
        target = [f"{place}:{attribute}"]
    command = [sys.executable, "-m", "uvicorn", "--port", "0", "--no-access-log"]
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "service.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, *uvicorn_args, *target],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )
        try:
            yield _when_running(process, log)
        finally:
            _stop(process)


def _when_running(process: subprocess.Popen[bytes], log: Path) -> Service:
    gives_up = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < gives_up and process.poll() is None:
        if found := _RUNNING.search(log.read_text(errors="replace")):
            return Service(found[1], int(found[2]), process.pid, log)
        time.sleep(0.02)
    raise RuntimeError(f"the service did not start:\n{log.read_text(errors='replace')}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOPS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def start_service() -> StartService:
    """``start_service(app, *uvicorn_args)``: a context manager that gives a `Service`."""
    return _start_service


@pytest.fixture(scope="session")
def example_service() -> Iterator[Service]:
    """The service of ``examples/fastapi``, running for the whole session."""
    with _start_service(ROOT / "examples/fastapi/service.py") as service:
        yield service
