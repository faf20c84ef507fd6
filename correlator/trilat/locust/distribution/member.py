"""One worker process in one run, as its master knows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from locust.runners import HEARTBEAT_INTERVAL
from trilat.correlator.run.crew import WorkerFacts
from trilat.correlator.sketches.book import SketchBook

from .reports import Report

__all__ = ["Member"]


@dataclass(slots=True)
class Member:
    """One worker process in one run.

    Attributes:
        name: its id at the master.
        said: its latest report; its parcels are not kept.
        book: its requests since the last reset.
        taken: the number of the last parcel that was taken.
        heard_ns: wall clock at its last sign of life.
        reported_ns: wall clock at its last report.
        before: time and requests of the report before that; for its rate.
        users: how many it ran when it last told.
        gone: whether it is missing.
    """

    name: str
    said: Report
    book: SketchBook = field(default_factory=SketchBook)
    taken: int = 0
    heard_ns: int = 0
    reported_ns: int = 0
    before: tuple[int, int] = (0, 0)
    users: int = 0
    gone: bool = False

    @property
    def rate_per_s(self) -> float:
        """Requests per second between its last two reports."""
        seconds = (self.reported_ns - self.before[0]) / 1e9
        return max(self._told - self.before[1], 0) / seconds if seconds > 0 else 0.0

    @property
    def _told(self) -> int:
        return self.said.requests + self.said.left_out

    def facts(self) -> WorkerFacts:
        """What a manifest tells of it."""
        silent_s = 0.0
        if not self.said.final:  # and it may have gone on until the next heartbeat
            silent_s = max(self.heard_ns - self.reported_ns, 0) / 1e9 + HEARTBEAT_INTERVAL / 2
        return {
            "session": self.said.session,
            "name": self.name,
            "host": self.said.host,
            "pid": self.said.pid,
            "trilat": self.said.trilat,
            "users": self.users,
            "requests": self.said.requests,
            "received": self.book.total().requests,
            "estimate": round(self.rate_per_s * silent_s),
            "source": "reports",
            "ended": self.said.final,
            "reported_wall_ns": self.reported_ns,
            "heard_wall_ns": self.heard_ns,
            "journals": self.said.journals,
            "shared": self.said.shared,
        }

    def hear(self, report: Report, now_ns: int) -> None:
        """Take the counters of a report; its parcels go another way."""
        if self.reported_ns:
            self.before = (self.reported_ns, self._told)
        elif report.elapsed_s:
            self.before = (now_ns - round(report.elapsed_s * 1e9), 0)
        self.said = report
        self.reported_ns = self.heard_ns = now_ns
        self.users = self.users if report.final else report.users
