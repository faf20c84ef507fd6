"""All requests of a run, gathered from what its processes left: each process once.

A process' requests are in its journal; what a worker sent of them lies beside it, as histograms
(`RunDirectory.workers`). Both hold the same requests in the same order, so the one that holds more
of them is taken: the journal of a worker that was killed knows what its reports did not, and the
histograms know what was in journal files that were dropped or never came here.

Where Locust's statistics were reset, files say since which reset they are; earlier ones are left
out, as they were while the run lasted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trilat.agent.errors import InputError
from trilat.agent.segment import SegmentHead, journal_files, read_head, read_segment
from trilat.correlator.requests.pipeline import Attributor
from trilat.correlator.sketches.book import SketchBook

from .crew import CrewFacts, WorkerFacts, crew_facts

if TYPE_CHECKING:
    from .manifest import Manifest
    from .rundir import RunDirectory

__all__ = ["Gathered", "Part", "gather"]


@dataclass(frozen=True, slots=True)
class _File:
    """One journal file that is of this run, and of a generator."""

    head: SegmentHead
    session: str
    segment: int
    epoch: int


@dataclass(slots=True)
class Part:
    """What one process recorded, from its journal.

    Attributes:
        session: the id of the process' part in the run; of a process that has none, its files'.
        host: its host's name.
        pid: its process number.
        book: its requests since the last reset.
        left_out: requests before that.
        dropped: journal files that were dropped at the size limit.
        same_host: whether its services ran on its host; None: none was seen.
    """

    session: str
    host: str = ""
    pid: int = 0
    book: SketchBook = field(default_factory=SketchBook)
    left_out: int = 0
    dropped: int = 0
    same_host: bool | None = None

    @property
    def requests(self) -> int:
        """How many requests the journal holds since the last reset."""
        return self.book.total().requests


@dataclass(slots=True)
class Gathered:
    """What was found of a run.

    Attributes:
        book: all requests since the last reset.
        left_out: requests before that, as far as they are known.
        parts: the journals, by process.
        crew: the run's workers, with what was found of them; None where there were none.
        from_journals: requests that were read from journals.
        from_sketches: requests that are known from histograms only.
        unreadable: what was left out, and why.
        dropped: journal files that were dropped at their size limit.
        same_host: whether generators and services share a host; None: not known.
    """

    book: SketchBook = field(default_factory=SketchBook)
    left_out: int = 0
    parts: dict[str, Part] = field(default_factory=dict)
    crew: CrewFacts | None = None
    from_journals: int = 0
    from_sketches: int = 0
    unreadable: list[str] = field(default_factory=list)
    dropped: int = 0
    same_host: bool | None = None

    def take(self, part: Part) -> None:
        """Count a process' requests as its journal has them."""
        self.book.merge(part.book)
        self.from_journals += part.requests
        if part.same_host is not None:
            self.same_host = part.same_host and self.same_host is not False

    def take_sketches(self, book: SketchBook) -> None:
        """Count requests that are known from histograms."""
        self.book.merge(book)
        self.from_sketches += book.total().requests


def gather(rundir: RunDirectory, manifest: Manifest, *, whole: SketchBook | None) -> Gathered:
    """Gather a run's requests; nothing is written.

    Args:
        rundir: the run's directory.
        manifest: its facts.
        whole: the histograms that the run itself wrote of all its requests; None where it did not
            come to that.

    Returns:
        What was found; ``parts`` is empty where there is no journal that can be read.
    """
    found = Gathered(crew=manifest.crew)
    files = list(_files(rundir.journals, manifest.run_id, found.unreadable))
    resets = manifest.reset["times"] if manifest.reset is not None else 0
    epoch = max([resets, *(file.epoch for file in files)])
    host = manifest.host.get("identity")
    groups: dict[str, dict[int, _File]] = {}
    for file in files:
        known = groups.setdefault(file.session, {})
        if file.segment not in known or known[file.segment].head.count < file.head.count:
            known[file.segment] = file  # a file that was copied here twice counts once
    for session, segments in groups.items():
        ordered = [segments[number] for number in sorted(segments)]
        part = _part(session, ordered, epoch, host if isinstance(host, int) else 0, found)
        if part is not None:
            found.parts[session] = part
            found.left_out += part.left_out
            found.dropped += part.dropped
    if manifest.crew is None:
        _settle_alone(found, whole)
    else:
        _settle_crew(found, manifest.crew, rundir)
    return found


def _files(directory: Path, run_id: str, unreadable: list[str]) -> Iterator[_File]:
    for path in journal_files(directory):
        try:
            head = read_head(path)
        except InputError as error:
            unreadable.append(str(error))
            continue
        facts = head.facts
        if facts.get("run", run_id) != run_id:
            unreadable.append(f"{path}: of another run")
        elif facts.get("side", "generator") == "generator":
            stem, _, number = path.stem.rpartition("-")
            segment = _whole(facts.get("segment")) or _whole_of(number)
            session = facts.get("session")
            yield _File(
                head,
                session if isinstance(session, str) and session else stem,
                segment,
                _whole(facts.get("epoch")),
            )


def _part(
    session: str, files: Sequence[_File], epoch: int, host: int, found: Gathered
) -> Part | None:
    """Attribute one process' files; None where none of them can be read."""
    facts = files[0].head.facts
    name = facts.get("host_name")
    part = Part(session, name if isinstance(name, str) else "", _whole(facts.get("pid")))
    attributor = Attributor(_whole(facts.get("host")) or host)
    read = 0
    before = files[0].epoch
    for file in files:
        try:
            segment = read_segment(file.head.path)
        except InputError as error:
            found.unreadable.append(str(error))
            continue
        if file.epoch != before:  # as the process itself did at the reset
            attributor.flush()
            part.left_out += attributor.take_book().total().requests
            before = file.epoch
        attributor.feed(segment.records)
        part.dropped = max(part.dropped, _whole(segment.facts.get("dropped_segments")))
        read += 1
    attributor.flush()
    if before < epoch:
        part.left_out += attributor.take_book().total().requests
    part.book, part.same_host = attributor.book, attributor.same_host
    return part if read else None


def _settle_alone(found: Gathered, whole: SketchBook | None) -> None:
    """A run of one process, or one whose master did not come to write of its workers."""
    from_journals = sum(part.requests for part in found.parts.values())
    if whole is not None and whole.total().requests > from_journals:
        found.take_sketches(whole)
        return
    for part in found.parts.values():
        found.take(part)


def _settle_crew(found: Gathered, crew: CrewFacts, rundir: RunDirectory) -> None:
    """Each worker from its journal or from what it sent; and who left a journal only."""
    settled: list[WorkerFacts] = []
    for worker in crew["workers"]:
        part = found.parts.get(worker["session"])
        sent = _sent(rundir, worker["session"], found)
        if part is not None and part.requests >= sent.total().requests:
            found.take(part)
            settled.append(_from_journal(worker, part))
        else:
            found.take_sketches(sent)
            requests = sent.total().requests
            settled.append({**worker, "received": requests, "source": "reports"})
    known = {worker["session"] for worker in crew["workers"]}
    for session, part in found.parts.items():
        if session not in known:
            found.take(part)
            settled.append(_unheard(part))
    found.crew = crew_facts(
        settled,
        crew["strangers"],
        at_once=crew["at_once"],
        load_missing=crew["load_missing"],
    )


def _sent(rundir: RunDirectory, session: str, found: Gathered) -> SketchBook:
    try:
        return rundir.read_worker(session)
    except InputError as error:
        found.unreadable.append(str(error))
        return SketchBook()


def _from_journal(worker: WorkerFacts, part: Part) -> WorkerFacts:
    """A worker's facts where its journal is here; one cut short still leaves something missing."""
    whole = part.requests >= worker["requests"]
    return {
        **worker,
        "requests": max(worker["requests"], part.requests),
        "received": part.requests,
        "estimate": 0 if whole else worker["estimate"],
        "source": "journal",
    }


def _unheard(part: Part) -> WorkerFacts:
    """A worker that the master heard nothing of before it went."""
    total = part.book.total()
    return {
        "session": part.session,
        "name": f"{part.host or 'a worker'} (process {part.pid})",
        "host": part.host,
        "pid": part.pid,
        "trilat": "",
        "users": 0,
        "requests": total.requests,
        "received": total.requests,
        "estimate": 0,
        "source": "journal",
        "ended": False,
        "reported_wall_ns": 0,
        "heard_wall_ns": total.last_wall_ns,
        "journals": "",
        "shared": True,
    }


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and 0 < value < 2**63 else 0


def _whole_of(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0
