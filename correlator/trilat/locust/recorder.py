"""The recorder: from Locust's ``request`` event to a record in the journal, and on to the sketches.

The event handler packs one fixed-width record and returns; all arithmetic happens later, in
batches, on the journal's own bytes. So the live figures and those made from a journal afterwards
come from the same code and the same data.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import Any

import gevent
from greenlet import getcurrent

from trilat.agent.journal import JournalWriter
from trilat.agent.layout import Kind, MarkFlag
from trilat.agent.records import UNKNOWN
from trilat.agent.stamp import EMPTY, find
from trilat.correlator.requests.pipeline import Attributor
from trilat.correlator.sketches.book import SketchBook
from trilat.locust.health.heartbeat import Heartbeat
from trilat.locust.marks.earlier import records
from trilat.locust.marks.heads import server_timing
from trilat.locust.marks.timeline import Due, Timeline

from . import faults

__all__ = ["Recorder"]

_EXCHANGE = int(Kind.EXCHANGE)
_FAILED = int(MarkFlag.FAILED)
_UNMARKED = int(MarkFlag.UNMARKED)
_FIRST = int(MarkFlag.FIRST)
_MAX_NAMES = 10_000
_BATCH_SECONDS = 0.25
_STATUSES = 65536


class Recorder:
    """Records the requests of one process in one run.

    Args:
        journals: directory for this process' journal.
        stem: start of the journal's file names, unique to this process.
        facts: what the journal's header says of the run.
        host_identity: `trilat.agent.host.host_identity` of this host.
        heartbeat: estimates the hub's lag where the kernel gives no receive stamps.
    """

    def __init__(
        self,
        journals: Path,
        stem: str,
        facts: dict[str, Any],
        host_identity: int,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self._journal = JournalWriter(journals, stem, facts)
        self._attributor = Attributor(host_identity)
        self._heartbeat = heartbeat
        self._taken: deque[bytes] = deque()
        self._name_ids: dict[tuple[Any, Any], int] = {}
        self._greenlet = gevent.spawn(self._work)
        self.requests = 0
        self.unmarked = 0
        self.without_time = 0
        self.foreign_stamps = 0

    @property
    def book(self) -> SketchBook:
        """What has been attributed so far."""
        return self._attributor.book

    @property
    def same_host(self) -> bool | None:
        """Whether the services seen so far run on this host; None: none was seen."""
        return self._attributor.same_host

    @property
    def lost(self) -> dict[str, int]:
        """Counters of what is missing from the evidence; all 0 on a healthy run."""
        return {
            "journal_dropped": self._journal.dropped_segments,
            "journal_untaken": self._journal.dropped_untaken,
            "journal_lost_to_disk": self._journal.lost_to_disk,
            "unmarked": self.unmarked,
            "without_time": self.without_time,
            "foreign_stamps": self.foreign_stamps,
            "errors_inside": sum(faults.counts.values()),
        }

    def listen(self, event: Any) -> None:
        """Take part in Locust's ``request`` event, before all other listeners.

        One of them may fire an event with the same response for itself, or stop the user; then
        Locust calls no more of them.
        """
        event.add_listener(self.on_request)
        event._handlers.insert(0, event._handlers.pop())

    def on_request(
        self,
        request_type: Any,
        name: Any,
        response_time: float | None,
        exception: Any = None,
        response: Any = None,
        start_time: float | None = None,
        context: Any = None,  # noqa: ARG002 - this and the next two: see below
        url: Any = None,  # noqa: ARG002
        response_length: Any = None,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Locust's ``request`` event; nothing gets out of here.

        All that Locust says is named, used or not: what is not named goes into a dictionary, which
        takes longer than anything else here.
        """
        try:
            if response_time is None:
                self.without_time += 1
                return
            timeline = getattr(response, "trilat_timeline", None)
            failed = _FAILED if exception else 0
            if (
                timeline is None
                or timeline.recorded
                or (
                    (meta := getattr(response, "request_meta", None)) is not None
                    and _is_anothers(meta, name, response_time)
                )
            ):
                self._write_unmarked(request_type, name, response_time, failed, start_time)
            else:
                self._write(timeline, request_type, name, response_time, failed, response)
            self.requests += 1
        except Exception as error:  # noqa: BLE001 - fails open
            faults.note("recording a request", error)

    def take_book(self) -> SketchBook:
        """What was attributed since the last call; for a worker's report."""
        return self._attributor.take_book()

    def start_anew(self, epoch: int) -> None:
        """Leave out what was recorded so far; the journal keeps it, in files of its own.

        Args:
            epoch: what the next files say; `trilat.correlator.run.gathering` leaves out those of
                lower ones.
        """
        self._journal.begin_file({"epoch": epoch})
        self._feed()
        self._attributor.flush()
        self._attributor.take_book()

    def stop(self) -> None:
        """Attribute what is left and close the journal."""
        self._greenlet.kill()
        self._journal.close()
        self._feed()
        self._attributor.flush()

    def _write(
        self,
        timeline: Timeline,
        method: Any,
        name: Any,
        response_time: float,
        failed: int,
        response: Any,
    ) -> None:
        timeline.recorded = True  # a locustfile may fire an event of its own with this response
        started = timeline.started
        sent, connect_ns, exchanges = timeline.sent, timeline.connect_ns, timeline.exchanges
        response_ns = round(response_time * 1e6)
        if sent < 0:  # nothing went out: the generator's part ends where it began to connect
            sent = timeline.connect_began if timeline.connect_began >= 0 else started
            connect_ns, exchanges = 0, exchanges - 1
        stamp = timeline.stamp
        if stamp is EMPTY and (headers := response.headers) is not None:
            stamp = self._look_again(headers, timeline.span)
        read, first = timeline.last_read, timeline.first_read
        wall = timeline.read_wall
        status = response.status_code
        due = timeline.due
        late, missed = UNKNOWN, 0
        if due is not None:
            failed |= _FIRST
            late, missed = _lateness(due, started)
        started_wall = wall - (read - started) if read >= 0 else _wall_of(started)
        name_id = self._name_ids.get((method, name))
        if name_id is None:
            name_id = self._name_id(method, name)
        hub_lag_ns = UNKNOWN if self._heartbeat is None else self._heartbeat.lag_ns
        journal = self._journal
        journal_at = journal.ready()
        journal.pack_into(
            journal.buffer,
            journal_at,
            _EXCHANGE,
            timeline.flags | failed,
            name_id,
            timeline.trace_high,
            timeline.trace_low,
            timeline.span,
            started_wall,
            started,
            response_ns,
            connect_ns,
            sent - started,
            first - started if first >= 0 else UNKNOWN,
            timeline.first_lay,
            read - started if read >= 0 else UNKNOWN,
            timeline.last_lay,
            wall,
            timeline.prior_ns,
            hub_lag_ns,
            late,
            missed,
            stamp,
            status if status and 0 < status < _STATUSES else 0,
            exchanges,
            journal.commit,
        )
        journal.wrote()
        if timeline.exchanges > 1:
            for values in records(
                timeline.earlier, response, name_id, started_wall, started, hub_lag_ns
            ):
                journal.append(*values)

    def _write_unmarked(
        self, method: Any, name: Any, response_time: float, failed: int, start_time: float | None
    ) -> None:
        self.unmarked += 1
        response_ns = round(response_time * 1e6)
        now = perf_counter_ns()
        wall = round(start_time * 1e9) if start_time else _wall_of(now) - response_ns
        # Attribution goes by windows of this clock: without a start these rows would never end one.
        started = now - min(max(response_ns, 0), now)
        times = (wall, started, response_ns, 0, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, 0, 0)
        flags, late, missed = _UNMARKED | failed, UNKNOWN, 0
        greenlet: Any = getcurrent()
        if (due := getattr(greenlet, "trilat_due", None)) is not None:
            greenlet.trilat_due = None
            flags |= _FIRST
            late, missed = _lateness(due, started)
        self._journal.append(
            _EXCHANGE,
            flags,
            self._name_id(method, name),
            0,
            0,
            0,
            *times,
            UNKNOWN,
            late,
            missed,
            EMPTY,
            0,
            0,
        )

    def _look_again(self, headers: Any, span: int) -> bytes:
        """The stamp was not in the first bytes read: a head in several pieces, or none at all."""
        text = server_timing(headers)
        stamp = find(text, span)
        if stamp is EMPTY and b"trilat;" in text:
            self.foreign_stamps += 1
        return stamp

    def _name_id(self, method: Any, name: Any) -> int:
        known = self._name_ids.get((method, name))
        if known is None:
            known = self._journal.name_id(f"{method}\t{name}")
            if len(self._name_ids) < _MAX_NAMES:
                self._name_ids[method, name] = known
        return known

    def _work(self) -> None:
        while True:
            gevent.sleep(_BATCH_SECONDS)
            try:
                self._taken.extend(self._journal.take_new())
                while self._taken:
                    for _ in self._attributor.steps(self._taken.popleft()):
                        gevent.sleep(0)  # users who are ready come first
            except Exception as error:  # noqa: BLE001 - fails open
                faults.note("attributing", error)

    def _feed(self) -> None:
        self._taken.extend(self._journal.take_new())
        while self._taken:
            self._attributor.feed(self._taken.popleft())


def _is_anothers(meta: dict[str, Any], name: Any, response_time: float) -> bool:
    """Whether the event is one that a locustfile fires for itself, with a response of a request's.

    That is known where a response carries what its own event will say.
    """
    return bool(meta.get("response_time") != response_time or meta.get("name") != name)


def _lateness(due: Due, started: int) -> tuple[int, int]:
    """How much later than intended a request began, and the tasks missed; as in the record."""
    intended = due.intended_ns
    return (UNKNOWN if intended < 0 else max(started - intended, 0)), due.missed


def _wall_of(monotonic_ns: int) -> int:
    return time_ns() - (perf_counter_ns() - monotonic_ns)
