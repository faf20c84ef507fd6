"""Once a second: what the generator's process does, into the run's samples."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, perf_counter_ns, process_time, time_ns
from typing import Any

import gevent

from trilat.agent.ports import LocalPorts
from trilat.agent.samples import SampleWriter
from trilat.agent.vitals import VITALS, Vitals
from trilat.locust import faults

from .hub import HubWatch
from .pools import waits

__all__ = ["HEALTH", "CpuUse", "Pulse"]

HEALTH: Mapping[str, str] = {
    **{key: text for key, text in VITALS.items() if key not in ("uss_bytes", "listeners")},
    "hub_lag_ms": "how long something that became ready in this second had to wait for the hub, on"
    " average",
    "hub_lag_max_ms": "the latest that the hub's timer came",
    "hub_lag_spans_ms": "list: time by how long one would have waited, in the buckets of"
    " trilat.correlator.samples.lag_histogram, milliseconds",
    "hub_blocked_ms": "for how long the hub's timer was overdue",
    "hub_paused_ms": "for how long the process stood still (SIGSTOP, a debugger); not in the lag",
    "cpu_wait_ms": "for how long the hub's thread was ready to run, and waited for a processor",
    "pool_waits": "requests that had to wait for a free connection of a bounded pool",
    "pool_wait_ms": "how long they waited together",
    "pool_wait_max_ms": "how long one of them waited, at most",
    "ports_taken": "local ports taken, at most: TCP sockets of the network namespace",
    "ports_time_wait": "those in TIME_WAIT",
    "ports_available": "ports that the kernel gives to outgoing connections",
    "connections_opened": "connections begun in the network namespace",
}
"""The keys of a sample and what they mean; `Pulse` adds what its owner tells. Where not said
otherwise, since the last sample; any value may be None: not known here."""

_SHIPPED_LINES = 240
_SHIPPED_BYTES = 64 * 2**10  # of one report


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

    Attributes:
        cpu: CPU time of the process.
        latest: the latest sample, with the keys of `HEALTH` and what ``beat`` returned; empty
            before the first one.

    Args:
        path: where the samples go (`SampleWriter`).
        facts: what the samples' first line says beside what it always says.
        beat: called with the seconds since the last call; what it returns joins the sample.
        hub: the watch over the hub, which is read and in the end stopped; None where the process
            runs no users.
    """

    def __init__(
        self,
        path: Path,
        facts: Mapping[str, Any],
        beat: Callable[[float], dict[str, Any]],
        hub: HubWatch | None = None,
    ) -> None:
        self.cpu = CpuUse()
        self.latest: dict[str, Any] = {}
        self._beat = beat
        self._hub = hub
        self._vitals = Vitals(thorough=False)
        self._ports = LocalPorts()
        self._opened: int | None = None
        self._read_ports()
        waits.read()  # those of an earlier run
        self._samples = SampleWriter(path, {"side": "generator", **facts})
        self._fresh: deque[str] = deque(maxlen=_SHIPPED_LINES)
        self._greenlet: Any = gevent.spawn(self._run)

    def stop(self) -> None:
        """Take the last sample and close the file."""
        self._greenlet.kill()
        if self._hub is not None:
            self._hub.stop()
            if self._hub.errors:
                faults.counts["watching the hub"] += self._hub.errors
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
            self.latest = {
                **{key: value for key, value in self._vitals.read().items() if key in HEALTH},
                "cpu_percent": None if latest is None else round(latest, 1),
                **(self._hub.read() if self._hub is not None else {}),
                **waits.read(),
                **self._read_ports(),
                **self._beat(window),
            }
            self._write("vitals", self.latest)
            for line in self._hub.blocked() if self._hub is not None else ():
                self._write("blocked", line)
        except Exception as error:  # noqa: BLE001 - fails open
            faults.note("sampling", error)

    def take_fresh(self) -> list[str]:
        """The samples since the last call, for a master that cannot read this process' file.

        Returns:
            JSON objects, the oldest first; where they are more than 64 KB together, the latest.
        """
        taken: list[str] = []
        size = 0
        while self._fresh and size + len(self._fresh[-1]) <= _SHIPPED_BYTES:
            taken.append(self._fresh.pop())
            size += len(taken[-1])
        self._fresh.clear()
        return taken[::-1]

    def _write(self, kind: str, values: Mapping[str, Any]) -> None:
        now = {"wall_s": time_ns() / 1e9, "monotonic_s": perf_counter_ns() / 1e9}
        self._samples.write(kind, {**now, **values})
        self._fresh.append(json.dumps({"kind": kind, **now, **values}, separators=(",", ":")))

    def _read_ports(self) -> dict[str, Any]:
        """The local ports; nothing where the system does not tell."""
        with suppress(OSError, ValueError):
            use = self._ports.read()
            before, self._opened = self._opened, use.opened
            return {
                "ports_taken": use.taken,
                "ports_time_wait": use.time_wait,
                "ports_available": use.available,
                "connections_opened": None if before is None else use.opened - before,
            }
        return {}

    def _run(self) -> None:
        while True:
            gevent.sleep(1)
            self.sample()
