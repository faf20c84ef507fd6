"""When the whole process stood still: suspended, stopped by a signal, or held by a debugger.

An event loop's timer is overdue after that as it is after a block, but nothing in the service was
slow. What tells the two apart is a second thread (see `trilat.agent.observer`) that sleeps for a
known time. Where it woke much too late, there are three reasons:

- the process did not run: it used no CPU time, and the thread was not scheduled even once;
- another thread held the interpreter: the thread woke every few milliseconds to ask for it
  (``sys.getswitchinterval``), which the kernel counts as so many turns on a processor;
- the machine was too busy: the kernel counts how long the thread waited for a processor.

Only the first is a pause. The kernel's counts are those of ``/proc/<pid>/task/<tid>/schedstat``
(time on a processor, time waiting for one in nanoseconds, turns; see
https://docs.kernel.org/scheduler/sched-stats.html). Where there is no such file, CPU time decides
alone.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import native

__all__ = ["GAP_NS", "Stillness", "ThreadTurns", "Turns"]

GAP_NS = 100_000_000
"""A thread that wakes less than this late tells nothing."""

_BUSY_SHARE = 0.1  # of the gap; a process that stands still uses nothing, its end and start a bit
_SHORT_NS = 125_000_000
_KEPT = 64
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Turns:
    """What the kernel knows of one thread.

    Attributes:
        waited_ns: how long it was ready to run, and waited for a processor.
        count: how often it got one.
    """

    waited_ns: int
    count: int


class ThreadTurns:
    """The kernel's counts of one thread of this process, until closed.

    The file stays open: it is read ten times a second, and each system call is one more moment at
    which the event loop has to give the interpreter up.

    Args:
        thread: its native id.
        proc: where procfs is.
    """

    def __init__(self, thread: int, proc: Path = _PROC) -> None:
        self._file = -1
        with suppress(OSError):
            self._file = os.open(f"{proc}/self/task/{thread}/schedstat", os.O_RDONLY)

    def read(self) -> Turns | None:
        """The counts, or None where they are not to be had."""
        if self._file < 0:
            return None
        with suppress(OSError, ValueError):
            _, waited, count = os.pread(self._file, 100, 0).split()
            return Turns(int(waited), int(count))
        return None

    def close(self) -> None:
        """Close the file; from now on nothing is known."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@dataclass(frozen=True, slots=True)
class _Sleep:
    """A sleep of the watching thread: start, planned end, and the counts at its start."""

    since_ns: int
    until_ns: int
    cpu_ns: int
    turns: Turns | None


class Stillness:
    """Intervals in which the process stood still; written and read by any thread.

    Args:
        cpu_ns: CPU time of the process in nanoseconds.
        turns: the watching thread's counts, None where they are not known.
    """

    def __init__(
        self,
        cpu_ns: Callable[[], int] = time.process_time_ns,
        turns: Callable[[], Turns | None] = lambda: None,
    ) -> None:
        self._cpu_ns = cpu_ns
        self._turns = turns
        self._sleep: _Sleep | None = None
        self._pauses: deque[tuple[int, int]] = deque(maxlen=_KEPT)
        self._held_since: int | None = None
        # Both the watching thread and the event loop's look at a gap: who comes first takes it.
        self._lock = native.lock()

    def asleep(self, now_ns: int, wait_ns: int) -> None:
        """The watching thread goes to sleep for ``wait_ns`` nanoseconds."""
        # At rest the file is read from cold caches, which takes 0.1 ms, and there is little to be
        # told apart: CPU time decides alone.
        turns = None if wait_ns > _SHORT_NS else self._turns()
        sleep = _Sleep(now_ns, now_ns + wait_ns, self._cpu_ns(), turns)
        with self._lock:
            self._sleep = sleep

    def awake(self, now_ns: int) -> None:
        """The watching thread has woken."""
        with self._lock:
            self._look(now_ns)
            self._sleep = None

    def between(self, since_ns: int, until_ns: int) -> int:
        """For how many nanoseconds between two monotonic instants the process stood still.

        Args:
            since_ns: the first instant.
            until_ns: the second; the present, or shortly before.
        """
        with self._lock:
            self._look(until_ns)
            pauses = list(self._pauses)
            if self._held_since is not None:
                pauses.append((self._held_since, until_ns))
        # They overlap only where a debugger held a process that was stopped besides.
        total, reached = 0, since_ns
        for start, end in sorted(pauses):
            first, last = max(start, reached), min(end, until_ns)
            if last > first:
                total += last - first
                reached = last
        return total

    @property
    def held(self) -> bool:
        """Whether a debugger has the process, as far as is known."""
        return self._held_since is not None

    def hold(self, since_ns: int) -> None:
        """A debugger has had the process since this instant, and has it until `release`."""
        with self._lock:
            if self._held_since is None:
                self._held_since = since_ns

    def release(self, now_ns: int) -> None:
        """No debugger has the process any longer."""
        with self._lock:
            if self._held_since is not None:
                self._pauses.append((self._held_since, now_ns))
                self._held_since = None

    def _look(self, now: int) -> None:
        """Take the watching thread's sleep for a pause if it was one."""
        sleep = self._sleep
        if sleep is None or now - sleep.until_ns < GAP_NS:
            return
        late = now - sleep.until_ns
        cpu = self._cpu_ns()
        if cpu - sleep.cpu_ns > late * _BUSY_SHARE:
            return
        turns = None if sleep.turns is None else self._turns()
        if turns is not None and sleep.turns is not None:
            if turns.waited_ns - sleep.turns.waited_ns > late / 2:
                return
            # A quarter of the turns that asking for the interpreter takes is far more than the
            # few that falling asleep, being stopped and waking take.
            asking = late / (sys.getswitchinterval() * 1e9) / 4
            if turns.count - sleep.turns.count > asking:
                return
        self._pauses.append((sleep.since_ns, now))
        self._sleep = _Sleep(now, now, cpu, turns)
