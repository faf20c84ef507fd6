"""A worker's side of the reports: each request's histogram reaches the master exactly once.

What was attributed is packed into a parcel, and a parcel is sent with every report until the master
has confirmed it; only then comes the next one. So a report that is lost, or a master that drops its
connections, loses nothing, and a report holds one parcel, however long the master cannot be
reached: what comes meanwhile is added up where it always is. Only the last report of a run holds
whatever is left.

Packing takes milliseconds. So it is done between two reports, a page of about two milliseconds at a
time, and the report finds it done: no user waits for longer than that.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import gevent
from gevent.event import Event

from locust import runners
from trilat.correlator.sketches.book import SketchBook
from trilat.locust import faults
from trilat.locust.session import Session

from .reports import PROTOCOL, Parcel, Report

__all__ = ["Shipper"]

_AHEAD_S = 0.5  # packing begins so long before the next report


class Shipper:
    """Sends what a session attributes to the master.

    Args:
        session: a worker's part in a run.
        journals: the folder of its journal.
        shared: whether the master can read what this process writes.
    """

    def __init__(self, session: Session, journals: str, *, shared: bool) -> None:
        self._session = session
        self._journals = journals
        self._shared = shared
        self._sent: list[Parcel] = []
        self._ready: Parcel | None = None
        self._packing: SketchBook | None = None
        self._numbered = 0
        self._reported = 0
        self._carried = 0
        self._ended = False
        self._wake = Event()
        self._greenlet: Any = gevent.spawn(self._pack_ahead)

    @property
    def done(self) -> bool:
        """Whether all of an ended session has come to the master."""
        return self._ended and not self._sent

    @property
    def ended(self) -> bool:
        """Whether the last report of the session was sent."""
        return self._ended

    @property
    def session(self) -> Session:
        """Whose requests these are."""
        return self._session

    def report(self) -> dict[str, Any]:
        """What to tell the master now."""
        session = self._session
        if not session.active and not self._ended:
            self._end()
        if self._ready is not None:
            self._sent.append(self._ready)
            self._ready = None
        self._reported = session.recorded
        self._wake.set()
        cpu, pace = session.pulse.cpu, session.pace
        return Report(
            protocol=PROTOCOL,
            trilat=version("trilat"),
            run=session.settings.run_id,
            session=session.identity,
            host=session.host.name,
            host_identity=session.host.identity,
            pid=session.pid,
            journals=self._journals,
            shared=self._shared,
            epoch=session.epoch,
            requests=session.recorded - session.left_out,
            left_out=session.left_out,
            carried=self._carried,
            users=session.users_now,
            final=self._ended,
            cpu_s=cpu.total_s,
            elapsed_s=cpu.elapsed_s,
            cpu_highest=cpu.highest,
            cpu_latest=cpu.latest or 0.0,
            hub_lag_ms=session.pulse.latest.get("hub_lag_ms") or 0.0,
            wanted=pace.wanted,
            tasks=pace.run,
            missed=pace.missed,
            kernel_stamps=session.kernel_stamps,
            same_host=session.same_host,
            lost=session.lost,
            samples=[] if self._shared else session.pulse.take_fresh(),
            parcels=list(self._sent),
        ).to_wire()

    def taken(self, number: int) -> None:
        """The master has all parcels up to this one."""
        self._sent = [parcel for parcel in self._sent if parcel.number > number]
        self._wake.set()

    def start_anew(self, *, counted_late: bool) -> None:
        """The session has left out what came so far: none of it is sent any more.

        Args:
            counted_late: whether Locust still reports what it has not reported so far.
        """
        self._sent, self._ready, self._packing = [], None, None
        self._carried = max(self._session.recorded - self._reported, 0) if counted_late else 0

    def _end(self) -> None:
        """All that is left goes with the next report, and that is the last one."""
        self._ended = True
        self._greenlet.kill(block=False)  # no other report may come in between
        if self._ready is not None:
            self._sent.append(self._ready)
            self._ready = None
        book = self._take()
        self._packing = None
        self._sent.append(self._parcel(book, list(book.to_pages())))

    def _take(self) -> SketchBook:
        """What was attributed by now, with what a packing that was broken off had taken."""
        book = self._session.take_book()
        if self._packing is not None:
            book.merge(self._packing)
        self._packing = book
        return book

    def _parcel(self, book: SketchBook, pages: list[bytes]) -> Parcel:
        self._numbered += 1
        return Parcel(self._numbered, self._session.epoch, book.total().requests, pages)

    def pack(self) -> None:
        """Pack what is attributed by now, unless the master has yet to confirm what was sent.

        Other greenlets run between two pages.
        """
        if self._sent or self._ready is not None:
            return
        book = self._take()
        pages: list[bytes] = []
        for page in book.to_pages():
            pages.append(page)
            gevent.sleep(0)
            if self._packing is not book:  # it goes with the last report, or is left out
                return
        self._packing = None
        if pages:
            self._ready = self._parcel(book, pages)

    def _pack_ahead(self) -> None:
        while True:
            gevent.sleep(max(runners.WORKER_REPORT_INTERVAL - _AHEAD_S, 0.1))
            try:
                while self._sent:
                    self._wake.clear()
                    self._wake.wait()
                self.pack()
            except Exception as error:  # noqa: BLE001 - fails open
                faults.note("packing a report", error)
            while self._ready is not None:
                self._wake.clear()
                self._wake.wait()
