"""What tests of every side need: real services, each in a process of its own."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from .servers import started

# A busy machine is slow: how long an example takes says nothing.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("patient")

# How wide a terminal is there, or what pytest-xdist says it is, must not count.
os.environ.pop("COLUMNS", None)

ROOT = Path(__file__).parents[1]
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
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    with (
        tempfile.TemporaryDirectory() as directory,
        started(
            [*command, *uvicorn_args, *target], Path(directory) / "service.log", env=environment
        ) as server,
    ):
        found = server.when_says(_RUNNING)
        yield Service(found[1], int(found[2]), server.process.pid, server.log)


@pytest.fixture(scope="session")
def start_service() -> StartService:
    """``start_service(app, *uvicorn_args)``: a context manager that gives a `Service`."""
    return _start_service


@pytest.fixture(scope="session")
def example_service() -> Iterator[Service]:
    """The service of ``examples/fastapi``, running for the whole session."""
    with _start_service(ROOT / "examples/fastapi/service.py") as service:
        yield service
