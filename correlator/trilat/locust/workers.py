"""Workers attribute their own requests and ship sketches in Locust's own reports to the master.

Merging is addition, so a report holds what came in since the last one, and the master's total is
the sum of what arrived. Counters are cumulative: the master keeps each worker's latest.
"""

from __future__ import annotations

from typing import Any

from trilat.agent.errors import TrilatError
from trilat.correlator.book import SketchBook

from . import faults
from .session import Session

__all__ = ["KEY", "Crew", "report"]

KEY = "trilat"
"""Our entry in the data of a worker report; only types that msgpack knows go in."""


def report(session: Session) -> dict[str, Any]:
    """What a worker says of itself in one report."""
    recorder, cpu = session.recorder, session.pulse.cpu
    book = recorder.take_book() if recorder is not None else SketchBook()
    return {
        "run": session.settings.run_id,
        "book": book.to_bytes(),
        "requests": recorder.requests if recorder is not None else 0,
        "cpu_s": cpu.total_s,
        "elapsed_s": cpu.elapsed_s,
        "cpu_highest": cpu.highest,
        "wanted": session.pace.wanted,
        "tasks": session.pace.run,
        "kernel_stamps": session.kernel_stamps,
        "same_host": session.same_host,
        "lost": session.lost,
    }


class Crew:
    """What the master knows of its workers in one run."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._latest: dict[str, dict[str, Any]] = {}

    def __len__(self) -> int:
        return len(self._latest)

    def receive(self, client_id: str, data: dict[str, Any]) -> None:
        """Take a worker's report in; one that cannot be read is counted, not raised."""
        said = data.pop(KEY, None)
        try:
            if not isinstance(said, dict) or said["run"] != self._session.settings.run_id:
                return
            self._session.book.merge(SketchBook.from_bytes(said.pop("book")))
            self._latest[client_id] = said
        except (TrilatError, KeyError, TypeError, ValueError) as error:
            faults.note("a worker's report", error)

    @property
    def requests(self) -> int:
        """Requests that all workers recorded."""
        return sum(int(said["requests"]) for said in self._latest.values())

    @property
    def wanted(self) -> float:
        """Tasks that all workers' schedules wanted so far."""
        return sum(float(said["wanted"]) for said in self._latest.values())

    @property
    def tasks(self) -> int:
        """Tasks that all workers ran."""
        return sum(int(said["tasks"]) for said in self._latest.values())

    @property
    def cpu(self) -> tuple[float, float] | None:
        """Mean and highest CPU of the busiest worker, per cent of one core."""
        means = [
            100 * said["cpu_s"] / said["elapsed_s"]
            for said in self._latest.values()
            if said["elapsed_s"] > 0
        ]
        highest = [said["cpu_highest"] for said in self._latest.values()]
        return (max(means), max(highest)) if means else None

    @property
    def kernel_stamps(self) -> bool:
        """Whether all workers take receive stamps."""
        return all(said["kernel_stamps"] for said in self._latest.values())

    @property
    def same_host(self) -> bool | None:
        """Whether every worker runs on its services' host; None: no worker saw a service."""
        known = [said["same_host"] for said in self._latest.values()]
        seen = [same for same in known if same is not None]
        return all(seen) if seen else None

    @property
    def lost(self) -> dict[str, int]:
        """Sum of the workers' counters of missing evidence."""
        total: dict[str, int] = {}
        for said in self._latest.values():
            for name, number in said["lost"].items():
                total[name] = total.get(name, 0) + number
        return total
