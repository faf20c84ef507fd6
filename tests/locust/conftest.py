"""Real Locust processes, as its users run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilat.agent.host import host_identity
from trilat.agent.layout import Kind
from trilat.agent.segment import journal_files, read_segment
from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import Attributed, attribute
from trilat.correlator.attribution.chains import joined, unfolded
from trilat.correlator.attribution.cuts import cut
from trilat.correlator.records.frames import split_records

from ..servers import own_ports

_PRELUDE = """
import json, os, signal
import trilat.locust
from locust import FastHttpUser, HttpUser, User, constant, constant_throughput, events, task

# A shell starts what runs in its background with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
SEEN = open(os.environ["SEEN"] + f".{os.getpid()}", "w", buffering=1)

@events.request.add_listener
def _see(request_type, name, response_time, exception, **_):
    SEEN.write(json.dumps([request_type, name, response_time, bool(exception)]) + "\\n")
"""


def exchanges_of(directory: Path) -> Any:
    """The rows of all exchanges of a run, those before the last one of a request behind it."""
    files = journal_files(directory / "journals")
    read = (split_records(read_segment(file).records, earlier=True)[0] for file in files)
    return np.concatenate(list(read))


def attribute_rows(rows: Any) -> Attributed:
    """Attribute them: one result for each request."""
    chains = unfolded(rows)
    cuts = cut(rows if chains is None else chains.rows)
    attributed = attribute(cuts, Aligner(host_identity()).align(cuts))
    return attributed if chains is None else joined(attributed, chains)


@dataclass(frozen=True, slots=True)
class Run:
    """What a Locust process left behind.

    Attributes:
        code: its exit code.
        output: standard output and error.
        directory: the run directory.
        seen: what the ``request`` event said, as a listener of the locustfile's wrote it down:
            method, name, response time in milliseconds, failed.
    """

    code: int
    output: str
    directory: Path
    seen: list[list[Any]]

    @property
    def result(self) -> dict[str, Any]:
        """What ``result.json`` says."""
        found: dict[str, Any] = json.loads((self.directory / "result.json").read_text())
        return found

    @property
    def rows(self) -> Any:
        """The records of all requests in all journals, in order of their files."""
        rows = exchanges_of(self.directory)
        return rows[rows["kind"] == Kind.EXCHANGE]

    @property
    def attributed(self) -> Attributed:
        """The same requests, attributed."""
        return attribute_rows(exchanges_of(self.directory))


RunLocust = Callable[..., Run]


def _seen(folder: Path) -> list[list[Any]]:
    """What the locustfiles' listeners wrote down so far, whole lines."""
    return [
        json.loads(line)
        for file in sorted(folder.glob("seen.*"))
        for line in file.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    ]


@pytest.fixture
def run_locust(tmp_path: Path) -> RunLocust:
    """``run_locust(users, *options)``: run a locustfile whose users are given as source.

    With ``interrupt_after=n`` it is interrupted after n requests.
    """

    def run(
        users: str,
        *options: str,
        interrupt_after: int | None = None,
        environment: dict[str, str] | None = None,
    ) -> Run:
        locustfile = tmp_path / "locustfile.py"
        locustfile.write_text(_PRELUDE + textwrap.dedent(users))
        out = tmp_path / "run"
        child = subprocess.Popen(
            [
                *(sys.executable, "-m", "locust", "-f", str(locustfile), "--headless"),
                *("--trilat-out", str(out)),
                *options,
                *own_ports(options),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "SEEN": str(tmp_path / "seen"), **(environment or {})},
        )
        try:
            if interrupt_after is not None:
                gives_up = time.monotonic() + 60
                while child.poll() is None and len(_seen(tmp_path)) < interrupt_after:
                    assert time.monotonic() < gives_up, "too few requests"
                    time.sleep(0.05)
                child.send_signal(signal.SIGINT)
            output, _ = child.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            child.kill()
            pytest.fail(f"Locust did not end:\n{child.communicate()[0]}")
        finally:
            child.kill()
        return Run(child.returncode, output, out, _seen(tmp_path))

    return run
