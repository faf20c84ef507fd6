"""``trilat run``: runs that are interrupted, killed or left alone, and what they leave."""

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
    lasting: Path,
) -> Iterator[Callable[..., _Started]]:
    """``started(*options)``: begin a run whose users do not end by themselves."""
    runs: list[_Started] = []

    def begin(*options: str) -> _Started:
        out = lasting.with_name("run")
        command = [*trilat_command, "run", "--out", str(out), "--slo", "p95<=5s", "--"]
        runs.append(
            _Started([*command, *load(example_service.url, 60), *options], lasting.parent, out)
        )
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
