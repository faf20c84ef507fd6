"""Two hosts with two workers each: one joins late, one is killed, and nothing is lost for good."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from trilat.correlator.cli import run as trilat
from trilat.correlator.run.crew import missing_of

from ...conftest import ROOT
from .conftest import Fleet, Locust, attribute_journals, merged
from .hosts import Host, two_hosts, why_not

WHY_NOT = why_not()


@contextmanager
def service_on(host: Host) -> Iterator[str]:
    """The example service on a host; its address."""
    command = [sys.executable, "-m", "uvicorn", "--host", host.address, "--port", "8000"]
    command += ["--no-access-log", "--app-dir", str(ROOT / "examples/fastapi"), "service:app"]
    process = subprocess.Popen(
        [*host.within, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "running on" in line:
                break
        yield f"http://{host.address}:8000"
    finally:
        process.kill()
        process.communicate()


def heard_of(fleet: Fleet) -> set[int]:
    """The processes of the workers from which histograms of requests have come."""
    return {note["of"] for note in fleet.notes if note.get("came")}


def correlate(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    """``trilat correlate`` on the run: its result, and what the command said."""
    capsys.readouterr()
    assert trilat(["correlate", str(fleet.run.path)]) == 0
    return fleet.result, capsys.readouterr().out


def lose_a_worker(fleet: Fleet, there: Path) -> tuple[Locust, list[Locust]]:
    """A run of two hosts with two workers each, of which one joins late and one is killed.

    Args:
        fleet: its processes.
        there: a folder of the second host.

    Returns:
        The worker that was killed, and the others.
    """
    fleet.run.path.mkdir()
    with two_hosts(hidden=fleet.run.path) as (here, other), service_on(here) as url:
        to_master = ("--worker", "--master-host", here.address, "--master-port", str(fleet.port))
        master = fleet.start_master(
            *(url, "--headless", "-u", "12", "-r", "12", "--expect-workers", "3"),
            within=here.within,
        )
        near = fleet.start(*to_master, within=here.within)
        far, killed = (fleet.start(*to_master, within=other.within, folder=there) for _ in range(2))
        fleet.until(lambda: "Sending spawn jobs" in master.said, "the run to begin")
        late = fleet.start(*to_master, within=here.within)
        all_four = {worker.process.pid for worker in (near, far, killed, late)}
        fleet.until(lambda: all_four <= heard_of(fleet), "reports of all")
        killed.process.kill()
        fleet.until(lambda: "was last heard" in master.said, "its absence to be noticed")
        master.interrupt()
        assert master.wait() != 0, master.said
        for worker in (near, far, late):
            worker.wait()
    return killed, [near, far, late]


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there can be hosts")
def test_a_killed_worker_is_told_of_and_its_journal_brings_all_back(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the end the figures are those of all journals, to the last bit."""
    there = tmp_path / "there"
    there.mkdir()
    killed, living = lose_a_worker(fleet, there)
    told = fleet.result
    crew = told["run"]["crew"]
    by_pid = {worker["pid"]: worker for worker in crew["workers"]}
    gone = by_pid[killed.process.pid]
    assert crew["seen"] == 4
    assert crew["lost"] == [gone["name"]]
    assert gone["host"].endswith("-b")
    assert (gone["shared"], gone["ended"]) == (False, False)
    assert crew["missing_requests"] == missing_of(gone)
    assert crew["load_missing"] > 0
    text = " ".join((*told["verdict"]["reasons"], *told["verdict"]["warnings"]))
    assert gone["name"] in text
    (check,) = [check for check in told["checks"] if check["title"] == "Workers"]
    assert check["outcome"] in ("warn", "fail")
    assert gone["name"] in check["evidence"]
    # What came is what those who lived to the end hold, and what the killed one had sent.
    sent = {
        worker["session"]: fleet.run.read_worker(worker["session"]) for worker in by_pid.values()
    }
    assert merged(sent).to_bytes() == fleet.run.read_book().to_bytes()

    result, said = correlate(fleet, capsys)
    assert "what it sent" in said
    assert result["total"]["requests"] == told["total"]["requests"]

    for journal in there.glob("trilat-runs/worker-*/journals/*"):
        shutil.copy(journal, fleet.run.journals)
    result, said = correlate(fleet, capsys)
    assert "what it sent" not in said
    books = attribute_journals(fleet.run.journals)
    assert len(books) == 4
    for worker in living:
        session = by_pid[worker.process.pid]["session"]
        assert books[session].to_bytes() == sent[session].to_bytes()
    assert merged(books).to_bytes() == fleet.run.read_book().to_bytes()
    assert books[gone["session"]].total().requests >= gone["requests"]
    crew = result["run"]["crew"]
    assert crew["missing_requests"] == crew["missing_estimate"] == 0
    assert crew["lost"] == [gone["name"]]
    assert result["total"]["requests"] == sum(book.total().requests for book in books.values())
    again, _ = correlate(fleet, capsys)
    assert again == result
