"""The child process: its output, what of it is shown, and what it died of."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from trilat.correlator.commands.child import LocustChild, diagnose, gave_up
from trilat.correlator.run.rundir import RunDirectory

LINE = "[2026-01-01 12:00:00,000] host/{}/locust.main: {}\n"
SLEEP = f"import time; print({LINE.format('WARNING', 'ready')!r}, flush=True); time.sleep(60)"


def _run(run: RunDirectory, code: str) -> tuple[int | None, LocustChild, list[str]]:
    """Run Python code as the child until it ends."""
    notices: list[str] = []
    with LocustChild([sys.executable, "-c", code], os.environ, run, notices.append) as child:
        return child.wait(30), child, notices


@contextmanager
def _ready(directory: Path, code: str) -> Iterator[LocustChild]:
    """Run Python code as the child from where it has logged a warning on."""
    ready = threading.Event()
    command = [sys.executable, "-c", code]
    with LocustChild(command, os.environ, RunDirectory(directory), lambda _: ready.set()) as child:
        assert ready.wait(30)
        yield child


def test_warnings_are_shown_once_and_the_rest_goes_to_the_log(tmp_path: Path) -> None:
    """A task that raises in each request must not flood the screen."""
    run = RunDirectory(tmp_path)
    run.manifest.write_text("{}")
    text = (
        LINE.format("INFO", "Starting Locust")
        + LINE.format("ERROR", "it broke") * 3
        + LINE.format("INFO", "Starting web interface at http://0.0.0.0:8089")
    )
    code, _, notices = _run(run, f"print({text!r}, end='')")
    assert code == 0
    assert notices == [
        "Locust error: it broke",
        "Locust: Starting web interface at http://0.0.0.0:8089",
    ]
    assert run.log.read_text() == text


def test_nothing_is_written_before_locust_has_taken_the_directory(tmp_path: Path) -> None:
    """Locust takes an empty directory only; a log in it would stop the run."""
    code, child, _ = _run(RunDirectory(tmp_path), "print('no run')")
    assert code == 0
    assert list(tmp_path.iterdir()) == []
    assert list(child.tail) == ["no run\n"]


def test_more_than_twenty_kinds_of_warning_end_in_one_pointer(tmp_path: Path) -> None:
    """The screen is bounded too."""
    run = RunDirectory(tmp_path)
    code = f"[print({LINE.format('WARNING', '{}')!r}.format(n), end='') for n in range(50)]"
    _, _, notices = _run(run, code)
    assert len(notices) == 21
    assert notices[-1] == f"more warnings are in {run.log}"


def test_a_second_interrupt_ends_a_child_that_does_not_listen(tmp_path: Path) -> None:
    """The first asks, the second kills, its own children included."""
    code = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        f"print({LINE.format('WARNING', 'ready')!r}, flush=True); time.sleep(60)"
    )
    with _ready(tmp_path, code) as child:
        child.interrupt()
        assert child.wait(0.2) is None
        child.interrupt()
        assert child.wait(30) == -signal.SIGKILL
        assert not child.reading


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_of_this_process_go_to_the_child(number: signal.Signals, tmp_path: Path) -> None:
    """As CI systems and a closed terminal send them; afterwards the handlers are as before."""
    before = signal.getsignal(number)
    with _ready(tmp_path, SLEEP) as child:
        os.kill(os.getpid(), number)
        assert child.wait(30) == -signal.SIGTERM
    assert child.interrupts == 1
    assert signal.getsignal(number) is before


def test_what_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    """Who started the run with nohup wants it to outlive the terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with _ready(tmp_path, SLEEP) as child:
            os.kill(os.getpid(), signal.SIGHUP)
            assert child.wait(0.2) is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_child_never_ignores_an_interrupt(tmp_path: Path) -> None:
    """A shell ignores SIGINT for what it starts in the background, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with _ready(tmp_path, SLEEP) as child:
            child.interrupt()
            assert child.wait(30) in (1, -signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


class _Surprise(BaseException):
    """Stands for anything that may end the waiting."""


def test_the_child_ends_with_what_ends_the_waiting(tmp_path: Path) -> None:
    """An error here leaves no load behind."""
    with pytest.raises(_Surprise), _ready(tmp_path, SLEEP) as child:
        raise _Surprise
    assert child.interrupts == 1
    assert not psutil.pid_exists(child.pid)


def test_a_log_that_cannot_be_written_is_told_once_and_holds_nothing_up(tmp_path: Path) -> None:
    """On a full disk the child's output is still read to its end: it would stand still else."""
    run = RunDirectory(tmp_path)
    run.manifest.write_text("{}")
    run.log.symlink_to("/dev/full")
    code, child, notices = _run(run, "[print('x' * 1000) for _ in range(1000)]")
    assert code == 0
    assert len(child.tail) == 1000
    assert notices == [f"{run.log}: No space left on device; Locust's output is not kept"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([("ERROR", "no host"), ("WARNING", "Stopping Locust...")], "no host"),
        ([("ERROR", "a task raised"), ("INFO", "Shutting down")], ""),
        ([("WARNING", "Stopping Locust...")], ""),
    ],
)
def test_locust_gave_up_where_it_says_so(lines: list[tuple[str, str]], reason: str) -> None:
    """An error that Locust lives with is no reason to throw a run away."""
    assert gave_up([LINE.format(*line) for line in lines]) == reason


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
