"""Once a second: what the generator's process does, into the run's samples."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time, time
from typing import Any, TextIO

import gevent
import psutil

from . import faults

__all__ = ["CpuUse", "Pulse"]


@dataclass(slots=True)
class CpuUse:
    """CPU of one process over windows of about a second, in per cent of one core."""

    total_s: float = 0.0
    elapsed_s: float = 0.0
    highest: float = 0.0
    latest: float | None = None
    _cpu: float = field(default_factory=process_time)
    _wall: float = field(default_factory=perf_counter)

    def sample(self) -> float:
        """Close a window; its length in seconds."""
        cpu, wall = process_time(), perf_counter()
        used, window = cpu - self._cpu, wall - self._wall
        self._cpu, self._wall = cpu, wall
        self.total_s += used
        self.elapsed_s += window
        if window > 0.2:  # the last window of a run may be a sliver
            self.latest = 100 * used / window
            self.highest = max(self.highest, self.latest)
        return window

    @property
    def mean(self) -> float:
        """Over all windows."""
        return 100 * self.total_s / self.elapsed_s if self.elapsed_s else 0.0


class Pulse:
    """Calls back once a second and writes the process' samples, until stopped.

    Args:
        path: JSON lines file for the samples.
        beat: called with the seconds since the last call; what it returns joins the sample.
    """

    def __init__(self, path: Path, beat: Callable[[float], dict[str, Any]]) -> None:
        self.cpu = CpuUse()
        self._beat = beat
        self._process = psutil.Process()
        self._file: TextIO | None = None
        try:
            self._file = path.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            faults.note("samples", error)
        self._greenlet: Any = gevent.spawn(self._run)

    def stop(self) -> None:
        """Take the last sample and close the file."""
        self._greenlet.kill()
        self.sample()
        if self._file is not None:
            self._file.close()
            self._file = None

    def sample(self) -> None:
        """Take a sample now; it covers the time since the last one."""
        try:
            window = self.cpu.sample()
            sample = {
                "wall_s": round(time(), 3),
                "cpu_percent": None if self.cpu.latest is None else round(self.cpu.latest, 1),
                "rss_bytes": self._process.memory_info().rss,
                **self._beat(window),
            }
            if self._file is not None:
                self._file.write(json.dumps(sample) + "\n")
        except Exception as error:  # noqa: BLE001 - fails open
            faults.note("sampling", error)

    def _run(self) -> None:
        while True:
            gevent.sleep(1)
            self.sample()
