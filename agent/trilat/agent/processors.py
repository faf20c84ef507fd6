"""How busy the host's processors are, and what its hypervisor took of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from .procfs import read_file, whole

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CoreTimes", "HostUse", "Processors", "kernel_times", "portable_times"]

_MAX_CORES = 8192  # CONFIG_NR_CPUS of the largest kernels
_STAT_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class CoreTimes:
    """What one processor did since the system's start, in seconds.

    Attributes:
        idle: had nothing to do, or waited for a disk.
        busy: all else, what the hypervisor took included: neither was there to be used.
        stolen: what the hypervisor gave to others; None where the system does not tell.
    """

    idle: float
    busy: float
    stolen: float | None


@dataclass(frozen=True, slots=True)
class HostUse:
    """The host's processors between two readings.

    Attributes:
        busy_percent: for each processor by its number how much of its time it was busy; None for
            one that was off, new, or whose time did not advance.
        stolen_percent: what the hypervisor took of the time of all; None where not known.
        stolen_s: what it took of all since the system's start; None where not known.
    """

    busy_percent: list[float | None]
    stolen_percent: float | None
    stolen_s: float | None


class Processors:
    """Compares the processors' times with those of the last reading.

    Args:
        times: gives each processor's times by its number.
    """

    def __init__(self, times: Callable[[], dict[int, CoreTimes]]) -> None:
        self._times = times
        self._last: dict[int, CoreTimes] = {}

    def read(self) -> HostUse:
        """What they did since the last reading; at the first one there is nothing to compare.

        Raises:
            OSError: the times cannot be read.
            ValueError: they are damaged.
        """
        now, before = self._times(), self._last
        self._last = now
        percents: list[float | None] = [None] * (max(now, default=-1) + 1)
        span = taken = 0.0
        for core in now.keys() & before.keys():
            # The kernel's idle times may go back by a tick.
            idle = max(now[core].idle - before[core].idle, 0.0)
            busy = max(now[core].busy - before[core].busy, 0.0)
            if idle + busy > 0:
                percents[core] = round(100 * busy / (idle + busy), 1)
            span += idle + busy
            taken += max((now[core].stolen or 0.0) - (before[core].stolen or 0.0), 0.0)
        stolen = [core.stolen for core in now.values() if core.stolen is not None]
        return HostUse(
            percents,
            round(100 * min(taken / span, 1.0), 2) if stolen and span > 0 else None,
            round(sum(stolen), 3) if stolen else None,
        )


def kernel_times(proc: Path = Path("/proc")) -> dict[int, CoreTimes]:
    """Times by processor from ``/proc/stat`` (proc_stat(5)).

    Its columns are user, nice, system, idle, iowait, irq, softirq, steal; then guest and
    guest_nice, which user and nice contain. Older kernels have fewer.

    Raises:
        OSError: there is none.
        ValueError: it is damaged.
    """
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    found: dict[int, CoreTimes] = {}
    for line in read_file(proc / "stat", _STAT_BYTES).split(b"\n"):
        if not line.startswith(b"cpu"):
            break  # the processors come first
        name, *columns = line.split()
        if name == b"cpu":
            continue  # all of them together
        core = whole(name[3:])
        if core >= _MAX_CORES:
            raise ValueError(f"processor {core}")
        ticks = [whole(column) for column in columns[:8]]
        idle = sum(ticks[3:5])
        found[core] = CoreTimes(
            idle / ticks_per_s,
            (sum(ticks) - idle) / ticks_per_s,
            ticks[7] / ticks_per_s if len(ticks) > 7 else None,
        )
    return found


def portable_times() -> dict[int, CoreTimes]:
    """Times by processor as psutil gives them on any system.

    Raises:
        psutil.Error: the system refuses them.
    """
    found = {}
    for core, times in enumerate(psutil.cpu_times(percpu=True)):
        idle = times.idle + getattr(times, "iowait", 0.0)
        guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
        found[core] = CoreTimes(idle, sum(times) - idle - guests, getattr(times, "steal", None))
    return found
