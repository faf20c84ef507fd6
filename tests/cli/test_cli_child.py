"""The child process: its output, what of it is shown, and what it died of."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from trilat.correlator.commands.child import LocustChild, diagnose
from trilat.correlator.rundir import RunDirectory

LINE = "[2026-01-01 12:00:00,000] host/{}/locust.main: {}\n"


def _child(run: RunDirectory, code: str) -> tuple[LocustChild, list[str]]:
    notices: list[str] = []
    return LocustChild([sys.executable, "-c", code], os.environ, run, notices.append), notices


def test_warnings_are_shown_once_and_the_rest_goes_to_the_log(tmp_path: Path) -> None:
    """A task that raises in each request must not flood the screen."""
    run = RunDirectory(tmp_path)
    run.manifest.write_text("{}")
    text = (
        LINE.format("INFO", "Starting Locust")
        + LINE.format("ERROR", "it broke") * 3
        + LINE.format("INFO", "Starting web interface at http://0.0.0.0:8089")
    )
    child, notices = _child(run, f"print({text!r}, end='')")
    assert child.wait(30) == 0
    assert notices == [
        "Locust error: it broke",
        "Locust: Starting web interface at http://0.0.0.0:8089",
    ]
    assert run.log.read_text() == text


def test_nothing_is_written_before_locust_has_taken_the_directory(tmp_path: Path) -> None:
    """Locust takes an empty directory only; a log in it would stop the run."""
    child, _ = _child(RunDirectory(tmp_path), "print('no run')")
    assert child.wait(30) == 0
    assert list(tmp_path.iterdir()) == []
    assert list(child.tail) == ["no run\n"]


def test_more_than_twenty_kinds_of_warning_end_in_one_pointer(tmp_path: Path) -> None:
    """The screen is bounded too."""
    run = RunDirectory(tmp_path)
    code = f"[print({LINE.format('WARNING', '{}')!r}.format(n), end='') for n in range(50)]"
    child, notices = _child(run, code)
    child.wait(30)
    assert len(notices) == 21
    assert notices[-1] == f"more warnings are in {run.log}"


def test_a_second_interrupt_ends_a_child_that_does_not_listen(tmp_path: Path) -> None:
    """The first asks, the second kills, its own children included."""
    code = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        f"print({LINE.format('WARNING', 'ready')!r}, flush=True); time.sleep(60)"
    )
    ready = threading.Event()
    child = LocustChild(
        [sys.executable, "-c", code], os.environ, RunDirectory(tmp_path), lambda _: ready.set()
    )
    assert ready.wait(30)
    child.interrupt()
    assert child.wait(0.2) is None
    child.interrupt()
    assert child.wait(30) == -signal.SIGKILL
    assert not child.reading


def test_signals_of_this_process_go_to_the_child(tmp_path: Path) -> None:
    """SIGTERM too, as CI systems send it; afterwards the handlers are as before."""
    before = signal.getsignal(signal.SIGTERM)
    code = f"import time; print({LINE.format('WARNING', 'ready')!r}, flush=True); time.sleep(60)"
    ready = threading.Event()
    child = LocustChild(
        [sys.executable, "-c", code], os.environ, RunDirectory(tmp_path), lambda _: ready.set()
    )
    with child.forwarding_signals():
        assert ready.wait(30)
        os.kill(os.getpid(), signal.SIGTERM)
        assert child.wait(30) == -signal.SIGTERM
    assert child.interrupts == 1
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("", ""),
        ("locust: error: unrecognized arguments: --nope\nDid you mean '--otel'?\n",
         "unrecognized arguments: --nope"),
        (LINE.format("INFO", "Starting Locust") + LINE.format("ERROR", "No User class found!"),
         "No User class found!"),
        ('Traceback (most recent call last):\n  File "<frozen runpy>", line 1, in x\n'
         '  File "/home/me/load.py", line 3, in <module>\n    import nothere\n'
         "ModuleNotFoundError: No module named 'nothere'\n",
         "load.py, line 3: ModuleNotFoundError: No module named 'nothere'"),
        ("Killed\n", "Killed"),
    ],
)  # fmt: skip
def test_the_line_that_matters_is_found(output: str, reason: str) -> None:
    """argparse, Locust's own checks, a broken locustfile, or whatever came last."""
    assert diagnose(output.splitlines(keepends=True)) == reason
