"""A worker of a service for the tests: counts what it is told to, and says what all counted.

Run as ``worker_process.py BASE PARENT_PID PARENT_START``. Each line on stdin is a command: a number
to count, ``sum`` to print the requests and the workers of the group, ``gauge`` to set the gauge of
requests in flight to 1, ``die-writing`` and ``die-folding`` to be killed while folding: before the
new sum takes the place of the old one, and after that, before files are removed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from unittest.mock import patch

from trilat.agent.families import HTTP, PROCESS
from trilat.agent.processes import ProcessId
from trilat.agent.workers import GroupSnapshot, WorkerGroup

__all__ = ["in_flight", "requests"]


def requests(snapshot: GroupSnapshot) -> int:
    """What all workers counted."""
    return sum(one.numbers[0] for one in snapshot.series if one.block is HTTP)


def in_flight(snapshot: GroupSnapshot) -> int:
    """The gauge over all workers."""
    return sum(one.numbers[0] for one in snapshot.series if one.block is PROCESS)


def _die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_at_a_workers_file(path: Path, *, missing_ok: bool = False) -> None:
    if path.name.startswith("worker-"):
        _die()
    assert missing_ok


def _main() -> None:
    base, pid, start = sys.argv[1:]
    group = WorkerGroup(Path(base), parent=ProcessId(int(pid), int(start)))
    counters = group.enter()
    at = counters.block(HTTP, ("GET", "/", "200"))
    print("ready", counters.path, flush=True)
    for line in sys.stdin:
        command = line.strip()
        if command == "sum":
            snapshot = group.snapshot()
            print(requests(snapshot), snapshot.workers, in_flight(snapshot), flush=True)
        elif command == "gauge":
            counters.view[counters.block(PROCESS, ())] = 1
            print("set", flush=True)
        elif command == "die-writing":
            with patch.object(Path, "replace", _die):
                group.snapshot()
        elif command == "die-folding":
            with patch.object(Path, "unlink", _die_at_a_workers_file):
                group.snapshot()
        else:
            counters.view[at] += int(command)
            print("counted", flush=True)


if __name__ == "__main__":
    _main()
