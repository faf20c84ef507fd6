"""Which process: numbers are given out again, and what has ended is not alive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trilat.agent.processes import ProcessId, find_process, is_alive, process_namespace

GONE = 2**22 + 1
"""Above the largest number that Linux gives out."""


def stat_line(pid: int, name: str, state: str, start: int) -> str:
    """A line as in ``/proc/PID/stat``: 52 fields."""
    rest = [str(number) for number in range(4, 53)]
    rest[22 - 4] = str(start)
    return f"{pid} ({name}) {state} {' '.join(rest)}\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc with a process that sleeps, a zombie, and one that cannot be read."""
    lines = {
        "self": stat_line(10, "python", "R", 100),
        str(GONE): stat_line(GONE, "a) R (b", "S", 12345),
        str(GONE + 1): stat_line(GONE + 1, "zombie", "Z", 1),
        str(GONE + 2): "nonsense",
    }
    for name, line in lines.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "stat").write_text(line, encoding="ascii")
    return tmp_path


def test_a_process_is_its_number_and_its_start(proc: Path) -> None:
    """A name with brackets does not confuse the reader."""
    assert find_process(GONE, proc) == ProcessId(GONE, 12345)


def test_what_has_ended_is_not_found(proc: Path) -> None:
    """A zombie has ended, though its number is taken; others are not there at all."""
    assert find_process(GONE + 1, proc) is None
    assert find_process(GONE + 2, proc) is None
    assert find_process(GONE + 3, proc) is None


def test_a_process_that_the_kernel_hides_is_there(proc: Path) -> None:
    """Where only the number is known, that must do."""
    assert find_process(os.getpid(), proc) == ProcessId(os.getpid(), 0)
    assert is_alive(ProcessId(os.getpid(), 77), proc)


def test_a_number_given_out_again_is_another_process(proc: Path) -> None:
    """The start tells two processes with one number apart."""
    assert is_alive(ProcessId(GONE, 12345), proc)
    assert not is_alive(ProcessId(GONE, 12344), proc)
    assert not is_alive(ProcessId(GONE + 3, 1), proc)


def test_this_process_is_alive() -> None:
    """The real /proc, or psutil's figures, tell of this process and of one that is killed."""
    me = find_process(os.getpid())
    assert me is not None
    assert is_alive(me)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        it = find_process(child.pid)
        assert it is not None
        assert is_alive(it)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
        assert not is_alive(it)


def test_without_proc_psutil_tells(tmp_path: Path) -> None:
    """Other systems have no /proc."""
    me = find_process(os.getpid(), tmp_path)
    assert me is not None
    assert me.start > 0
    assert is_alive(me, tmp_path)
    assert find_process(GONE, tmp_path) is None
    assert process_namespace(tmp_path) == 0
