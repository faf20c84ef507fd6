"""Which process: its number and when it started, as numbers are given out again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["ProcessId", "find_process", "is_alive", "process_namespace"]

_PROC = Path("/proc")


class ProcessId(NamedTuple):
    """A process of this host.

    Attributes:
        pid: its number.
        start: when it started, in units of the platform (Linux: ticks since boot); 0 where the
            process belongs to somebody else and the kernel does not tell.
    """

    pid: int
    start: int


def find_process(pid: int, proc: Path = _PROC) -> ProcessId | None:
    """The process that has a number now; None where there is none, or only its exit code is left.

    The state and the start are the 3rd and 22nd field of ``/proc/PID/stat`` (proc_pid_stat(5)).
    """
    if not (proc / "self/stat").exists():
        return _find_without_proc(pid)
    try:
        stat = (proc / str(pid) / "stat").read_bytes()
        # The 2nd field is a name in brackets that may hold anything.
        fields = stat[stat.rindex(b")") + 2 :].split()
        if fields[0] in {b"Z", b"X"}:
            return None
        return ProcessId(pid, int(fields[19]))
    except (OSError, ValueError, IndexError):
        return ProcessId(pid, 0) if _has_number(pid) else None


def is_alive(process: ProcessId, proc: Path = _PROC) -> bool:
    """Whether the process runs; where its start is not known, whether its number is taken."""
    found = find_process(process.pid, proc)
    if found is None:
        return False
    return found.start == process.start or 0 in {found.start, process.start}


def process_namespace(proc: Path = _PROC) -> int:
    """Which numbering of processes this one belongs to; 0 where the system has only one."""
    try:
        return (proc / "self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _has_number(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is not ours to signal
        return True
    return True


def _find_without_proc(pid: int) -> ProcessId | None:
    import psutil  # noqa: PLC0415 - not needed, and not loaded, on Linux

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return ProcessId(pid, round(process.create_time() * 1000))
    except psutil.NoSuchProcess:
        return None
    except psutil.Error:
        return ProcessId(pid, 0)
