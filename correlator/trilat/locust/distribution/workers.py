"""A master's side of the reports: who takes part, and what came of whom.

Merging is addition, so the master's total is the sum of the parcels that came, each counted once.
Counters are cumulative: of each worker the latest count.

A worker process is told from another by its session's id and not by its name at the master: one
that is started again has another name, and one that only lost its connection keeps both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from importlib.metadata import version
from time import time_ns
from typing import Any

from trilat.agent.errors import TrilatError
from trilat.correlator.run.crew import CrewFacts, StrangerFacts, crew_facts
from trilat.correlator.sketches.book import SketchBook
from trilat.locust.session import Session

from .member import Member
from .reports import Parcel, Report

__all__ = ["SILENT_S", "Crew"]

logger = logging.getLogger("trilat.locust")

SILENT_S = 4.5
"""A worker that was not heard for so long is gone: it sends a heartbeat a second, and Locust itself
takes it for missing after four without one."""

_WITHOUT = "runs without trilat"


class Crew:
    """What the master knows of its workers in one run.

    Args:
        session: the run in the master; its ``book`` is what all parcels add up to.
        confirm: tells a worker (by its id at the master) up to which parcel of a session the master
            has taken them.
        keep_samples: writes a worker's samples where its own file of them cannot be read.
        now_ns: the wall clock.
    """

    def __init__(
        self,
        session: Session,
        confirm: Callable[[str, str, int], None],
        keep_samples: Callable[[Report], None],
        now_ns: Callable[[], int] = time_ns,
    ) -> None:
        self.members: dict[str, Member] = {}
        self.at_once = 0
        self._session = session
        self._confirm = confirm
        self._keep_samples = keep_samples
        self._now_ns = now_ns
        self._strangers: dict[str, StrangerFacts] = {}
        self._expected: dict[str, int] = {}
        self._late = 0
        self._user_s = 0.0
        self._missing_user_s = 0.0

    def __len__(self) -> int:
        return self.at_once

    def receive(self, client_id: str, said: Any, locusts: int) -> None:
        """Take in what one worker says of this run.

        Args:
            client_id: the worker, as the master knows it.
            said: its `Report` on the wire; None where it says nothing of this run.
            locusts: requests in Locust's part of the report.
        """
        if said is None:
            self._expected.pop(client_id, None)  # it has nothing to tell of this run
            if locusts and not any(m.name == client_id for m in self.members.values()):
                self._meet(client_id, locusts, _WITHOUT)
            return
        try:
            report = Report.from_wire(said)
            member = self._member(client_id, report)
            member.name = client_id
            self._back(member)
            for parcel in report.parcels:
                self._take(member, parcel)
        except TrilatError as error:
            self._expected.pop(client_id, None)
            self._meet(client_id, locusts, f"sends what cannot be read ({error})")
            return
        if report.final:
            self._expected.pop(client_id, None)
        if report.samples:
            self._keep_samples(report)
        report.parcels.clear()
        report.samples.clear()
        member.hear(report, self._now_ns())
        if report.epoch < self._session.epoch:
            self._late += locusts  # made before the reset, and counted by Locust after it
        self._confirm(client_id, report.session, member.taken)
        self.at_once = max(self.at_once, len(self.present))

    def heard(self, client_id: str) -> None:
        """A worker gave a sign of life."""
        if client_id in self._expected:
            self._expected[client_id] = self._now_ns()
        for member in self.members.values():
            if member.name == client_id and not member.said.final:
                self._back(member)
                member.heard_ns = self._now_ns()

    def start_anew(self) -> None:
        """What came so far is left out: Locust's statistics were reset."""
        self._late = 0
        for member in self.members.values():
            member.book = SketchBook()

    def tick(self, seconds: float, users: int, wanted: int) -> None:
        """Look who is gone.

        Args:
            seconds: since the last look.
            users: that run now.
            wanted: that are to run.
        """
        now = self._now_ns()
        self._user_s += users * seconds
        missing = [member for member in self.members.values() if member.gone]
        if missing:
            self._missing_user_s += max(wanted - users, 0) * seconds
        for member in self.members.values():
            silent_s = (now - member.heard_ns) / 1e9
            if not (member.gone or member.said.final) and silent_s > SILENT_S:
                member.gone = True
                # Locust still counted its users until now.
                self._user_s -= member.users * min(silent_s, SILENT_S)
                self._missing_user_s += member.users * silent_s
                self._tell_gone(member, silent_s)

    def _back(self, member: Member) -> None:
        """A worker that was missing is there again; its users went on all the time."""
        if member.gone:
            member.gone = False
            there = member.users * (self._now_ns() - member.heard_ns) / 1e9
            self._user_s += there
            self._missing_user_s = max(self._missing_user_s - there, 0.0)

    @property
    def present(self) -> list[Member]:
        """Workers that take part now."""
        return [m for m in self.members.values() if not (m.gone or m.said.final)]

    def expect(self, client_ids: Iterable[str]) -> None:
        """The load has ended: each of these workers will report a last time.

        In a short run that is the first time that they report at all.
        """
        over = {member.name for member in self.members.values() if member.said.final}
        now = self._now_ns()
        self._expected = {client_id: now for client_id in client_ids if client_id not in over}

    @property
    def is_awaiting(self) -> bool:
        """Whether last reports may still come."""
        alive_ns = self._now_ns() - SILENT_S * 1e9
        heard = (*self._expected.values(), *(member.heard_ns for member in self.present))
        return any(heard_ns > alive_ns for heard_ns in heard)

    @property
    def requests(self) -> int:
        """Requests that all workers recorded, also those before a reset."""
        return sum(m.said.requests + m.said.left_out for m in self.members.values())

    @property
    def left_out(self) -> int:
        """Requests before the last reset."""
        current = self._session.epoch
        return sum(
            m.said.left_out + (m.said.requests if m.said.epoch < current else 0)
            for m in self.members.values()
        )

    @property
    def counted_late(self) -> int:
        """Requests before the last reset that Locust counted after it."""
        return self._late + sum(m.said.carried for m in self._reports())

    @property
    def wanted(self) -> float:
        """Tasks that all workers' schedules wanted since the last reset."""
        return sum(m.said.wanted for m in self._reports())

    @property
    def tasks(self) -> int:
        """Tasks that all workers ran since then."""
        return sum(m.said.tasks for m in self._reports())

    @property
    def missed(self) -> int:
        """Tasks that were due since then and never started."""
        return sum(m.said.missed for m in self._reports())

    @property
    def cpu(self) -> tuple[float, float] | None:
        """Mean and highest CPU of the busiest worker, per cent of one core."""
        said = [m.said for m in self.members.values()]
        means = [100 * each.cpu_s / each.elapsed_s for each in said if each.elapsed_s > 0]
        return (max(means), max(each.cpu_highest for each in said)) if means else None

    @property
    def kernel_stamps(self) -> bool:
        """Whether all workers take receive stamps."""
        return all(m.said.kernel_stamps for m in self.members.values())

    @property
    def same_host(self) -> bool | None:
        """Whether every worker runs on its services' host; None: no worker saw a service."""
        known = [m.said.same_host for m in self.members.values()]
        seen = [same for same in known if same is not None]
        return all(seen) if seen else None

    @property
    def lost(self) -> dict[str, int]:
        """Sum of the workers' counters of missing evidence."""
        total: dict[str, int] = {}
        for member in self.members.values():
            for name, number in member.said.lost.items():
                total[name] = total.get(name, 0) + number
        return total

    def facts(self) -> CrewFacts:
        """What the manifest tells of all."""
        missing = self._missing_user_s + self._just_gone()
        wanted = self._user_s + self._missing_user_s
        workers = [member.facts() for member in self.members.values()]
        for worker, member in zip(workers, self.members.values(), strict=True):
            if member.said.epoch < self._session.epoch:  # all it told of is left out
                worker["requests"] = worker["received"]
        return crew_facts(
            workers,
            list(self._strangers.values()),
            at_once=self.at_once,
            load_missing=missing / wanted if wanted > 0 else 0.0,
        )

    def _just_gone(self) -> float:
        """User-seconds of those who went so late that nobody noticed before the end."""
        end = self._session.ended_wall_ns or 0
        return sum(max(end - m.heard_ns, 0) / 1e9 * m.users for m in self.present)

    def _reports(self) -> list[Member]:
        """Those whose counters are since the last reset."""
        return [m for m in self.members.values() if m.said.epoch == self._session.epoch]

    def _member(self, client_id: str, report: Report) -> Member:
        member = self.members.get(report.session)
        if member is None:
            member = self.members[report.session] = Member(client_id, report)
            ours = version("trilat")
            if report.trilat != ours:
                logger.warning(
                    "worker %s runs trilat %s and this master %s: give all of them one version",
                    *(client_id, report.trilat, ours),
                )
        return member

    def _take(self, member: Member, parcel: Parcel) -> None:
        """Count a parcel, once.

        Raises:
            InputError: it cannot be read; nothing of it is counted then.
        """
        if parcel.number <= member.taken:
            return
        if parcel.epoch == self._session.epoch and parcel.pages:
            book = SketchBook.from_pages(parcel.pages)
            member.book.merge(book)
            self._session.book.merge(book)
        member.taken = parcel.number

    def _meet(self, name: str, requests: int, why: str) -> None:
        known = self._strangers.get(name)
        if known is None:
            known = self._strangers[name] = {"name": name, "requests": 0, "why": why}
            logger.warning(
                "worker %s %s: its requests are in Locust's figures only; import trilat.locust "
                "there, of the same version as here",
                *(name, why),
            )
        known["requests"] += requests

    def _tell_gone(self, member: Member, silent_s: float) -> None:
        logger.warning(
            "worker %s was last heard %.0f s ago, with %d users: what it did after its last report "
            "is in its journal only (%s:%s)",
            *(member.name, silent_s, member.users, member.said.host, member.said.journals),
        )
