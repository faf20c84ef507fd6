"""Masters and workers in processes of their own, on one host or on several."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from trilat.agent.host import host_identity
from trilat.agent.segment import journal_files, read_segment
from trilat.correlator.requests.pipeline import Attributor
from trilat.correlator.run.rundir import RunDirectory
from trilat.correlator.sketches.book import SketchBook

from ...servers import free_port

_WITHIN_S = 90.0  # a busy machine may take long; nothing is slower for a generous limit

# Each process writes down what it sees: events of its own, and in a master what workers report.
_LOCUSTFILE = """
import json, os, signal
import trilat.locust
from locust import FastHttpUser, constant, events, runners, task

# A shell starts what runs in its background with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
runners.WORKER_REPORT_INTERVAL = 1.0

def _note(**what):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(json.dumps({"pid": os.getpid(), **what}) + "\\n")

@events.worker_report.add_listener
def _report(client_id, data):
    for said in data.get("trilat", []):
        came = sum(parcel["requests"] for parcel in said["parcels"])
        _note(worker=client_id, reported=said["requests"], came=came, of=said["pid"])

@events.quit.add_listener
def _quit(exit_code):
    if ENVIRONMENT:
        _note(locusts=ENVIRONMENT[0].stats.total.num_requests)

ENVIRONMENT = []

@events.init.add_listener
def _init(environment, **_):
    ENVIRONMENT.append(environment)

class Shopper(FastHttpUser):
    wait_time = constant(0.05)

    @task
    def item(self):
        self.client.get("/item/1", name="/item/[id]")

    @task
    def health(self):
        self.client.get("/health")
"""


@dataclass(slots=True)
class Locust:
    """One Locust process.

    Attributes:
        process: it.
        output: what it says goes to this file.
    """

    process: subprocess.Popen[bytes]
    output: Path

    @property
    def said(self) -> str:
        """What it has said so far."""
        return self.output.read_text(errors="replace")

    def wait(self) -> int:
        """Until it has ended; its exit code."""
        return self.process.wait(_WITHIN_S)

    def interrupt(self) -> None:
        """As Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)


@dataclass(slots=True)
class Fleet:
    """Locust processes of one test, with a locustfile and a port of their own.

    Attributes:
        folder: where the locustfile is, and the run directory ``run``.
        port: the master's.
    """

    folder: Path
    port: int
    started: list[Locust] = field(default_factory=list)

    @property
    def run(self) -> RunDirectory:
        """The run directory."""
        return RunDirectory(self.folder / "run")

    @property
    def result(self) -> dict[str, Any]:
        """What came out."""
        return self.run.read_result()

    @property
    def notes(self) -> list[dict[str, Any]]:
        """What the processes wrote down so far."""
        path = self.folder / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def start(
        self, *options: str, within: tuple[str, ...] = (), folder: Path | None = None
    ) -> Locust:
        """Start a Locust process.

        Args:
            options: Locust's.
            within: a command that runs the one that follows it, such as ``ip netns exec``.
            folder: its working directory.
        """
        number = len(self.started)
        output = self.folder / f"output-{number}"
        command = [sys.executable, "-m", "locust", "-f", str(self.folder / "locustfile.py")]
        with output.open("wb") as file:
            process = subprocess.Popen(
                [*within, *command, *options],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=folder or self.folder,
                env={**os.environ, "NOTES": str(self.folder / "notes")},
            )
        self.started.append(Locust(process, output))
        return self.started[-1]

    def start_master(self, url: str, *options: str, within: tuple[str, ...] = ()) -> Locust:
        """Start a master whose run goes to `run`."""
        return self.start(
            *("--master", "--master-bind-port", str(self.port), "--host", url),
            *("--trilat-out", str(self.run.path), "--only-summary"),
            *options,
            within=within,
        )

    def until(self, happened: Callable[[], object], what: str) -> None:
        """Wait until something has happened."""
        gives_up = time.monotonic() + _WITHIN_S
        while not happened():
            said = "\n".join(each.said for each in self.started)
            assert time.monotonic() < gives_up, f"{what}:\n{said}"
            time.sleep(0.05)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Locust processes that are gone after the test."""
    (tmp_path / "locustfile.py").write_text(textwrap.dedent(_LOCUSTFILE))
    processes = Fleet(tmp_path, free_port())
    yield processes
    for locust in processes.started:
        locust.process.kill()
        locust.process.wait()


def attribute_journals(folder: Path) -> dict[str, SketchBook]:
    """The requests in a folder of journals by process, since the last reset of all of them.

    Done here step by step, and not by the code that is tested.
    """
    books: dict[str, SketchBook] = {}
    segments = [read_segment(path) for path in journal_files(folder)]
    newest = max((int(segment.facts["epoch"]) for segment in segments), default=0)
    for session in dict.fromkeys(str(segment.facts["session"]) for segment in segments):
        attributor = Attributor(host_identity())
        for segment in segments:
            if segment.facts["session"] == session:
                attributor.feed(segment.records)
                if segment.facts["epoch"] < newest:
                    attributor.flush()
                    attributor.take_book()
        attributor.flush()
        books[session] = attributor.book
    return books


def merged(books: dict[str, SketchBook]) -> SketchBook:
    """All of them together."""
    whole = SketchBook()
    for book in books.values():
        whole.merge(book)
    return whole
