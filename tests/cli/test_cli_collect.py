"""``trilat collect``: from a running service into the directory of a run that is over."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from trilat.agent.layout import Kind, ServedFlag
from trilat.agent.samples import read_samples
from trilat.agent.segment import journal_files, read_segment
from trilat.correlator import cli
from trilat.correlator.records.frames import SERVED_DTYPE

TOKEN = "only-for-collectors"
SERVICE = """
import os
from fastapi import FastAPI
from trilat.middleware import CollectApp, TrilatMiddleware

app = FastAPI()
app.add_middleware(TrilatMiddleware, journal=os.environ["KEPT"])
app.mount("/trilat", CollectApp(os.environ["COLLECTORS"]))

@app.get("/items/{item}")
async def item(item: int) -> dict[str, int]:
    return {"item": item}
"""
LOCUSTFILE = """
from locust import HttpUser, constant, task

class Visitor(HttpUser):
    wait_time = constant(0.05)

    @task
    def look(self):
        self.client.get("/items/7", name="/items/{item}")
"""


class Ran(NamedTuple):
    """A run that is over, and the service that it was made on, which still runs."""

    path: Path
    url: str


@pytest.fixture(scope="module")
def ran(
    trilat: Callable[..., subprocess.CompletedProcess[str]],
    load: Callable[..., list[str]],
    start_service: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Ran]:
    """A run on a service that keeps journals; tests must not change its directory."""
    place = tmp_path_factory.mktemp("collected")
    (place / "service.py").write_text(SERVICE)
    (place / "locustfile.py").write_text(LOCUSTFILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEPT", str(place / "kept"))
        patch.setenv("COLLECTORS", TOKEN)
        patch.setenv("TRILAT_STATE", str(place / "state"))
        with start_service(place / "service.py") as service:
            done = trilat(
                *("run", "-f", place / "locustfile.py", "--out", place / "run"),
                *("--slo", "p95<=5s", "--", *load(service.url)),
            )
            assert done.returncode == 0, done.stderr + done.stdout
            yield Ran(place / "run", f"{service.url}/trilat")


@pytest.fixture
def run(ran: Ran, tmp_path: Path) -> Path:
    """A copy of the run's directory."""
    copy = tmp_path / "run"
    shutil.copytree(ran.path, copy)
    return copy


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token is where it is looked for; no proxy of the machine is asked."""
    monkeypatch.setenv("TRILAT_COLLECT_TOKEN", TOKEN)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def result_of(run: Path) -> Any:
    """The result in a run's directory."""
    return json.loads((run / "result.json").read_text())


def test_what_a_service_recorded_comes_into_the_run(
    ran: Ran, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every request of the run is in the service's journal, and the report tells of the service."""
    before = result_of(run)
    page = (run / "report.html").read_text()
    assert before["service"] is None
    assert cli.run(["collect", ran.url, "--into", str(run)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(f"{ran.url}: 1 journal and 1 file of samples, ")
    assert out.endswith(f"report: {run / 'report.html'}\n")
    after = result_of(run)
    assert len(after["service"]["instances"]) == 1
    assert after["total"] == before["total"]
    assert (run / "report.html").read_text() != page
    # When Locust stops its five users, it forgets the request that each may wait for.
    recorded = count_of_run(run, before["run"]["run_id"])
    assert 0 <= recorded - before["total"]["requests"] <= 5
    (samples,) = (run / "samples").glob("service-*.jsonl")
    assert read_samples(samples).facts["side"] == "service"


def count_of_run(run: Path, run_id: str) -> int:
    """How many marked requests of a run the service's journals hold."""
    found = 0
    for path in journal_files(run / "journals"):
        segment = read_segment(path)
        if segment.facts["side"] == "service":
            rows = np.frombuffer(segment.records, SERVED_DTYPE)
            marked = (rows["kind"] == Kind.SERVED) & (rows["flags"] & ServedFlag.MARKED != 0)
            found += int((marked & (rows["run"] == int(run_id, 16))).sum())
    return found


def test_once_is_enough(ran: Ran, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second time says what was there; the directory holds nothing twice."""
    command = ["collect", ran.url, "--into", str(run), "--format", "json"]
    assert cli.run(command) == 0
    first = json.loads(capsys.readouterr().out)
    assert {file["outcome"] for file in first["services"][0]["files"]} == {"fetched"}
    there = sorted(path.name for path in run.rglob("*"))
    assert cli.run(command) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["schema"] == "trilat.collect/1"
    assert again["run"] == str(run)
    assert again["report"] == str(run / "report.html")
    (service,) = again["services"]
    assert (service["url"], service["errors"], service["remarks"]) == (ran.url, [], [])
    # The service still runs, so that its files may have grown since.
    assert {file["outcome"] for file in service["files"]} <= {"present", "resumed"}
    assert sorted(path.name for path in run.rglob("*")) == there


def test_the_newest_run_is_the_one_that_is_meant(
    ran: Ran,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where no run is named; and where there is none, one line says so."""
    monkeypatch.chdir(tmp_path)
    assert cli.run(["collect", ran.url]) == cli.EXIT_USAGE
    assert "there is no run in trilat-runs" in capsys.readouterr().err
    for name, seconds in (("older", 10**9), ("newest", 2 * 10**9)):
        shutil.copytree(run, tmp_path / "trilat-runs" / name)
        os.utime(tmp_path / "trilat-runs" / name / "run.json", (seconds, seconds))
    assert cli.run(["collect", ran.url]) == 0
    assert "trilat-runs/newest/report.html" in capsys.readouterr().out


def test_one_service_of_two_is_better_than_none(
    ran: Ran, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What came is in the report; the exit code and a line say that some did not."""
    missing = f"{ran.url}/nowhere"
    assert cli.run(["collect", missing, ran.url, "--into", str(run)]) == cli.EXIT_USAGE
    out, err = capsys.readouterr()
    assert err == (
        f"trilat: error: {missing}: nothing is collected there (404);"
        " name the URL at which CollectApp is mounted\n"
    )
    assert out.startswith(f"{ran.url}: 1 journal")
    assert result_of(run)["service"] is not None


def test_nothing_is_changed_where_nothing_came(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A service that is not there leaves the run as it was."""
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert cli.run(["collect", "http://127.0.0.1:1", "--into", str(run)]) == cli.EXIT_USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert "cannot be reached" in err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["http://127.0.0.1:1", "--token-env", "NO_SUCH_NAME"], "NO_SUCH_NAME is not set"),
        (["http://127.0.0.1:1", "--token-env", "SPACED"], "SPACED holds no token"),
        (["http://127.0.0.1:1", "--margin", "soon"], "'soon' is not a time; write it as 5s"),
        (["http://127.0.0.1:1", "--margin", "-5s"], "is not a time"),
        (["127.0.0.1:8000"], "not a URL"),
        (["http://xn--a/"], "not a URL"),
        (["http://127.0.0.1:99999/"], "not a URL"),
        ([], "URL"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str],
    told: str,
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It says what to do, and does not repeat a secret."""
    monkeypatch.setenv("SPACED", "a secret")
    assert cli.run(["collect", *arguments, "--into", str(run)]) == cli.EXIT_USAGE
    err = capsys.readouterr().err
    assert told in err
    assert "a secret" not in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["5s", "5", "0.5m", "500ms", "1h"])
def test_margins_are_times(
    text: str, ran: Ran, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With their unit; seconds without one."""
    assert cli.run(["collect", ran.url, "--into", str(run), "--margin", text]) == 0


def test_an_interrupt_says_how_to_go_on(run: Path, trilat_command: list[str]) -> None:
    """A service that does not answer can be left; what came before is kept."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        silent.settimeout(60)
        process = subprocess.Popen(
            [*trilat_command, "collect", url, "--into", str(run)],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == cli.EXIT_INTERRUPTED
    assert err == (
        "what came is kept; the same command goes on from there\ntrilat: error: interrupted\n"
    )
