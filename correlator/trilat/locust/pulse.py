"""Once a second: what the generator's process does, into the run's samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import gevent

from trilat.agent.samples import SampleWriter
from trilat.agent.vitals import Vitals

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
        path: where the samples go (`SampleWriter`).
        facts: what the samples' first line says beside what it always says.
        beat: called with the seconds since the last call; what it returns joins the sample.
    """

    def __init__(
        self, path: Path, facts: Mapping[str, Any], beat: Callable[[float], dict[str, Any]]
    ) -> None:
        self.cpu = CpuUse()
        self._beat = beat
        self._vitals = Vitals(thorough=False)
        self._samples = SampleWriter(path, {"side": "generator", **facts})
        self._greenlet: Any = gevent.spawn(self._run)

    def stop(self) -> None:
        """Take the last sample and close the file."""
        self._greenlet.kill()
        self.sample()
        self._samples.close()
        self._vitals.close()
        if self._samples.lost:
            faults.counts["samples"] += self._samples.lost

    def sample(self) -> None:
        """Take a sample now; it covers the time since the last one."""
        try:
            window = self.cpu.sample()
            latest = self.cpu.latest
            sample = {
                **self._vitals.read(),
                "cpu_percent": None if latest is None else round(latest, 1),
                **self._beat(window),
            }
            self._samples.write("vitals", sample)
        except Exception as error:  # noqa: BLE001 - fails open
            faults.note("sampling", error)

    def _run(self) -> None:
        while True:
            gevent.sleep(1)
            self.sample()
