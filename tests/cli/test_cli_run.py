"""``trilat run``: real runs of Locust against a real service, and what stops one from starting."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from trilat.correlator.manifest import REBUILT_NOTE
from trilat.correlator.validate import check, result_schema

ROOT = Path(__file__).parents[2]
THINKING = ROOT / "examples/fastapi/locustfile_think_time.py"
TOKEN = "a-token-that-nobody-may-see"

TOKEN_SERVICE = f"""
from fastapi import FastAPI
from trilat.middleware import TrilatMiddleware

app = FastAPI()
app.add_middleware(TrilatMiddleware, token={TOKEN!r})


@app.get("/item/{{item_id}}")
async def item(item_id: int) -> dict[str, int]:
    return {{"id": item_id}}
"""

# A user that is not done when it is told to stop, so that Locust waits for it.
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


RAISING = """
from locust import HttpUser, constant, task


class Raising(HttpUser):
    wait_time = constant(0.2)

    @task
    def ask(self):
        self.client.get("/item/1", name="/item/[id]")
        raise ValueError("a mistake in the locustfile")
"""


def test_a_run_ends_with_its_report_and_its_verdict_as_exit_code(
    trilat: Any, load: Any, example_service: Any, tmp_path: Path
) -> None:
    """The report on standard output, all files in the directory, Locust's words in its log."""
    out = tmp_path / "run"
    command = ["run", "-f", THINKING, "--trilat-out", out, "--trilat-slo", "p95<=5s"]
    done = trilat(*command, "--", *load(example_service.url))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PASS")
    assert "GET /item/[id]" in done.stdout
    assert str(out / "result.json") in done.stdout
    assert str(out / "report.html") in done.stdout
    assert "Traceback" not in done.stderr
    assert "Shutting down" in (out / "locust.log").read_text()


def test_json_is_the_result_and_nothing_else(
    trilat: Any, load: Any, example_service: Any, tmp_path: Path
) -> None:
    """A program can read standard output as it is; a missed objective of the service is code 1."""
    done = trilat(
        *("run", "-f", THINKING, "--slo", "service.p50<=1ms", "--format", "json", "--"),
        *load(example_service.url),
        cwd=tmp_path,
    )
    assert done.returncode == 1
    result = json.loads(done.stdout)
    schema = result_schema()
    check(result, schema, schema, "stdout")
    assert result["verdict"]["cause"] == "service"
    (directory,) = (tmp_path / "trilat-runs").iterdir()
    assert directory.name.endswith(result["run"]["run_id"])
    assert result == json.loads((directory / "result.json").read_text())


def test_the_token_works_and_is_written_nowhere(
    trilat: Any, load: Any, start_service: Any, tmp_path: Path
) -> None:
    """From the environment to the requests, and into no file of the run directory."""
    app = tmp_path / "service.py"
    app.write_text(TOKEN_SERVICE)
    out = tmp_path / "run"
    with start_service(app) as service:
        done = trilat(
            *("run", "-f", THINKING, "--out", out, "--", *load(service.url)), TRILAT_TOKEN=TOKEN
        )
    result = json.loads((out / "result.json").read_text())
    assert result["total"]["matched"] == result["total"]["requests"] > 0
    assert TOKEN not in done.stdout + done.stderr
    for path in out.rglob("*"):
        assert path.is_dir() or TOKEN.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["-f", "nothere.py"], "nothere.py: no such locustfile"),
        (["--slo", "p95<=fast"], "p95"),
        (["--out", "full"], "full: not empty"),
        (["--target-rate", "0"], "--target-rate"),
        (["--headless"], "Locust's options go behind --"),
        (["--", "-f", "locustfile.py"], "-f stands behind --"),
        (["--", "--trilat-slo=p95<=1s"], "--trilat-slo stands behind --"),
        (["--", "--no-such-option"], "unrecognized arguments: --no-such-option"),
        (["--", "--headless", "--run-time", "soon"], "--run-time"),
        (["-f", "broken.py"], "broken.py, line 1: ModuleNotFoundError: No module named 'nothere'"),
        (["-f", "empty.py"], "No User class found!"),
        (["--token", ""], "--token: it must be of visible ASCII characters"),
        (["--token", "two words"], "--token: it must be"),
        (["--token", "Schlüssel"], "--token: it must be"),
        (["--", "--headless", "--run-time", "5s"], "You must specify the base host"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(
    arguments: list[str], part: str, trilat: Any, tmp_path: Path
) -> None:
    """Code 2, one line, no traceback, and no directory is left behind."""
    (tmp_path / "locustfile.py").write_text(LASTING)
    (tmp_path / "broken.py").write_text("import nothere\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("mine")
    done = trilat("run", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert part in lines[-1]
    assert lines[-1].startswith("trilat: error: ")
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "trilat-runs").glob("*")) == []


def test_locust_speaks_for_itself_where_there_is_no_run(trilat: Any, tmp_path: Path) -> None:
    """``trilat run -- --version`` is Locust's own answer."""
    (tmp_path / "locustfile.py").write_text(LASTING)
    assert trilat("run", "--", "--version", cwd=tmp_path).stdout.startswith("locust")
    assert "Lasting" in trilat("run", "--", "--list", cwd=tmp_path).stdout


def test_a_task_that_raises_is_told_by_the_exit_code(
    trilat: Any, load: Any, example_service: Any, tmp_path: Path
) -> None:
    """The verdict is about latency; a locustfile that is broken must not pass in CI."""
    (tmp_path / "locustfile.py").write_text(RAISING)
    done = trilat("run", "--slo", "p95<=5s", "--", *load(example_service.url), cwd=tmp_path)
    assert done.stdout.startswith("PASS"), done.stdout + done.stderr
    assert done.returncode == 1
    assert "trilat: Locust ended with code 1, and so does this run" in done.stderr.splitlines()


def test_a_reader_that_leaves_does_not_end_the_run(
    trilat_command: list[str], load: Any, example_service: Any, tmp_path: Path
) -> None:
    """``trilat run … 2>&1 | head -c 20``: the run ends in its time, with its result."""
    out = tmp_path / "run"
    command = [*trilat_command, "run", "-f", str(THINKING), "--out", str(out), "--"]
    with subprocess.Popen(
        [*command, *load(example_service.url, 7)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 141
    result = json.loads((out / "result.json").read_text())
    assert result["run"]["measured_s"] > 6
    assert REBUILT_NOTE not in result["run"]["notes"]


class _Started:
    """A run in the background that has made some requests."""

    def __init__(self, command: list[str], directory: Path, out: Path) -> None:
        self.out = out
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        ends = time.monotonic() + 60
        while time.monotonic() < ends and self._requests(out) < 10:
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.1)

    @property
    def locust(self) -> psutil.Process:
        (child,) = psutil.Process(self.process.pid).children()
        return child

    @staticmethod
    def _requests(out: Path) -> int:
        try:
            return int(json.loads((out / "live.json").read_text())["requests"])
        except (OSError, ValueError):
            return 0

    def clean_up(self) -> None:
        """End what a failed test left."""
        if self.process.poll() is None:
            for process in psutil.Process(self.process.pid).children(recursive=True):
                process.kill()
            self.process.kill()
            self.process.communicate()

    def end(self) -> tuple[int, str, str]:
        output, errors = self.process.communicate(timeout=60)
        return self.process.returncode, output, errors


@pytest.fixture
def started(
    trilat_command: list[str],
    load: Callable[..., list[str]],
    example_service: Any,
    tmp_path: Path,
) -> Iterator[Callable[..., _Started]]:
    """``started(*options)``: begin a run whose users do not end by themselves."""
    (tmp_path / "locustfile.py").write_text(LASTING)
    runs: list[_Started] = []

    def begin(*options: str) -> _Started:
        out = tmp_path / "run"
        command = [*trilat_command, "run", "--out", str(out), "--slo", "p95<=5s", "--"]
        runs.append(_Started([*command, *load(example_service.url, 60), *options], tmp_path, out))
        return runs[-1]

    yield begin
    for run in runs:
        run.clean_up()


def test_of_two_runs_with_one_directory_one_is_refused(
    started: Callable[..., _Started], trilat: Any
) -> None:
    """The second one is told, and the first one goes on untouched."""
    run = started()
    done = trilat("run", "--out", run.out, "--", "--headless", cwd=run.out.parent)
    assert done.returncode == 2
    assert "run: not empty" in done.stderr
    report = trilat("report", run.out)
    assert report.returncode == 2
    assert f"still running (process {run.locust.pid})" in report.stderr
    os.kill(run.process.pid, signal.SIGINT)
    code, output, errors = run.end()
    assert code == 0, output + errors


def test_locust_ends_where_its_parent_is_killed(started: Callable[..., _Started]) -> None:
    """``kill -9`` of the command: nobody could stop the load any more, so it stops by itself."""
    run = started()
    locust = run.locust
    run.process.kill()
    run.end()
    locust.wait(30)
    assert json.loads((run.out / "result.json").read_text())["total"]["requests"] > 0


def test_a_run_in_the_background_can_be_interrupted(started: Callable[..., _Started]) -> None:
    """A shell starts ``trilat run … &`` with SIGINT ignored; kill -INT stops it all the same."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run = started()
    finally:
        signal.signal(signal.SIGINT, before)
    os.kill(run.process.pid, signal.SIGINT)
    code, output, errors = run.end()
    assert code == 0, output + errors
    assert output.startswith("PASS")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_is_judged_by_what_there_is(
    number: signal.Signals, started: Callable[..., _Started]
) -> None:
    """Ctrl-C, or a CI that stops the job, still gives the report and the verdict's code."""
    run = started()
    os.kill(run.process.pid, number)
    code, output, errors = run.end()
    assert "stopping the load" in errors
    assert output.startswith("PASS"), output + errors
    assert code == 0


def test_a_second_interrupt_ends_locust_and_the_journals_give_the_result(
    started: Callable[..., _Started],
) -> None:
    """Locust waits for its users' tasks; who does not want to wait presses Ctrl-C again."""
    run = started("--stop-timeout", "60s")
    locust = run.locust
    os.kill(run.process.pid, signal.SIGINT)
    line = run.process.stderr.readline() if run.process.stderr is not None else ""
    while line and "stopping the load" not in line:
        line = run.process.stderr.readline() if run.process.stderr is not None else ""
    os.kill(run.process.pid, signal.SIGINT)
    code, output, errors = run.end()
    assert "ending Locust now" in errors
    assert "GET /item/[id]" in output
    assert "Traceback" not in errors
    assert code in (0, 5)
    assert not locust.is_running()


def test_a_killed_locust_leaves_a_result(started: Callable[..., _Started]) -> None:
    """``kill -9``, or the kernel short of memory: what was written survives."""
    run = started()
    run.locust.kill()
    code, output, errors = run.end()
    assert "GET /item/[id]" in output, errors
    assert "rebuilt from its journals" in (run_directory(output) / "run.json").read_text()
    assert code in (128 + signal.SIGKILL, 5)


def run_directory(output: str) -> Path:
    """The run directory that a report names."""
    line = next(line for line in output.splitlines() if line.startswith("Figures: "))
    return Path(line.removeprefix("Figures: ")).parent
