"""``trilat demo``: the whole story on one machine, and a service that always stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from trilat.agent.errors import InputError
from trilat.correlator.commands.hosting import example_service
from trilat.correlator.examples import examples_folder


@pytest.mark.alone
def test_the_demo_tells_two_verdicts_apart(trilat: Any, tmp_path: Path) -> None:
    """Both runs are there, and the code is 0 exactly when the verdicts are as announced.

    Which verdicts a busy machine gives is not for a test to say.
    """
    out = tmp_path / "demo"
    done = trilat("demo", "--out", out, "--seconds", "8")
    codes = []
    for name in ("httpuser", "fasthttpuser"):
        run = sorted(out.glob(f"{name}*"))[-1]  # made again where the first one was disturbed
        result = json.loads((run / "result.json").read_text())
        codes.append(result["verdict"]["exit_code"])
        assert str(run / "report.html") in done.stdout
        assert (run / "report.html").is_file()
    assert done.returncode == (0 if codes == [3, 0] else 1), done.stderr
    assert "Asked for the same" in done.stdout


def test_a_demo_that_is_interrupted_leaves_no_service(
    trilat_command: list[str], tmp_path: Path
) -> None:
    """Ctrl-C ends the service by its process id."""
    with subprocess.Popen(
        [*trilat_command, "demo", "--out", str(tmp_path / "demo")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        service = _wait_for_child(process.pid, "uvicorn")
        _wait_for_child(process.pid, "trilat.locust")
        while process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
            time.sleep(0.5)
    assert not service.is_running() or service.status() == psutil.STATUS_ZOMBIE


def _wait_for_child(pid: int, part: str) -> psutil.Process:
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        for child in psutil.Process(pid).children():
            if any(part in word for word in child.cmdline()):
                return child
        time.sleep(0.05)
    raise AssertionError(f"no child with {part}")


def test_the_demo_refuses_a_directory_with_something_in_it(trilat: Any, tmp_path: Path) -> None:
    """Runs are never overwritten."""
    (tmp_path / "file").write_text("mine")
    done = trilat("demo", "--out", tmp_path)
    assert done.returncode == 2
    assert "not empty" in done.stderr


def test_a_service_that_does_not_start_is_told_by_its_last_line(tmp_path: Path) -> None:
    """Its own words, not a time-out."""
    (tmp_path / "service.py").write_text("raise RuntimeError('no database')\n")
    log = tmp_path / "log"
    with pytest.raises(InputError, match="no database"), example_service(tmp_path, log):
        pass


def test_examples_lie_in_the_wheel_or_in_the_checkout(tmp_path: Path) -> None:
    """The first place that has them; a line that says so where none has."""
    assert (examples_folder() / "fastapi/locustfile.py").is_file()
    with pytest.raises(InputError, match="missing from this installation"):
        examples_folder((tmp_path,))
