"""A run's requests from what its processes left: each process once, whatever is there of it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from trilat.agent.errors import InputError
from trilat.correlator.cli import run as trilat
from trilat.correlator.finish import finish, regather
from trilat.correlator.run.crew import crew_facts
from trilat.correlator.run.gathering import gather
from trilat.correlator.run.rundir import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trilat.correlator.run.crew import WorkerFacts
    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.sketches.book import SketchBook

_MANY = {"n": 300, "service": 20.0, "network": 1.0, "generator": 2.0}
_FEW = {"n": 100, "name": "/slow", "service": 90.0, "network": 1.0}
RESET = {"times": 1, "wall_ns": 1, "left_out": 0, "counted_late": 0}


@pytest.fixture
def rundir(tmp_path: Path) -> RunDirectory:
    """A fresh run directory."""
    return RunDirectory.create(tmp_path / "run", "0123456789ab", 0.0)


def worker(session: str, **changes: Any) -> WorkerFacts:
    """The facts of a worker that told of 300 requests and reported all of them."""
    facts: dict[str, Any] = {
        "session": session,
        "name": f"host_{session}",
        "host": "host",
        "pid": 7,
        "trilat": "0.1.0",
        "users": 10,
        "requests": 300,
        "received": 300,
        "estimate": 0,
        "source": "reports",
        "ended": True,
        "reported_wall_ns": 2,
        "heard_wall_ns": 2,
        "journals": "/there/journals",
        "shared": False,
    }
    return {**facts, **changes}  # type: ignore[typeddict-item]


def crewed(manifest: Manifest, *workers: WorkerFacts) -> Manifest:
    """The manifest of a run with these workers."""
    crew = crew_facts(workers, [], at_once=len(workers), load_missing=0.0)
    return replace(manifest, run_mode="master", workers=len(workers), crew=crew)


@pytest.fixture
def lost_one(
    rundir: RunDirectory,
    make_manifest: Callable[..., Manifest],
    make_book: Callable[..., SketchBook],
) -> Manifest:
    """A finished run of two workers; of the second 100 of 300 requests came, then it was gone."""
    books = {"a1": make_book(_MANY), "b2": make_book({**_MANY, "n": 100})}
    total = make_book()
    for session, book in books.items():
        rundir.write_worker(session, book)
        total.merge(book)
    gone = worker("b2", received=100, estimate=30, ended=False)
    manifest = crewed(make_manifest(), worker("a1"), gone)
    finish(rundir, manifest, total)
    return manifest


def test_what_workers_sent_counts_where_their_journals_are_elsewhere(
    rundir: RunDirectory, lost_one: Manifest
) -> None:
    """Nothing is there but histograms; what never came is still missing."""
    manifest, found = regather(rundir)
    assert found.book.total().requests == found.from_sketches == 400
    assert not found.parts
    assert manifest.crew is not None
    assert (manifest.crew["missing_requests"], manifest.crew["missing_estimate"]) == (200, 30)


def test_a_journal_knows_what_was_never_sent(
    rundir: RunDirectory, lost_one: Manifest, write_journal: Callable[..., None]
) -> None:
    """The lost worker's journal brings all of its requests; the other's histograms stay."""
    write_journal(rundir.journals, _MANY, _FEW, process=2, facts={"session": "b2"})
    manifest, found = regather(rundir)
    assert (found.from_journals, found.from_sketches) == (400, 300)
    assert manifest.crew is not None
    assert manifest.crew["missing_requests"] == manifest.crew["missing_estimate"] == 0
    one, other = manifest.crew["workers"]
    assert (one["source"], other["source"]) == ("reports", "journal")
    assert (other["requests"], other["received"]) == (400, 400)
    assert manifest.crew["lost"] == ["host_b2"]


def test_a_journal_that_came_in_part_does_not_take_anything_away(
    rundir: RunDirectory, lost_one: Manifest, write_journal: Callable[..., None]
) -> None:
    """Of journal and histograms the one with more requests is taken."""
    write_journal(rundir.journals, {**_MANY, "n": 50}, process=1, facts={"session": "a1"})
    write_journal(rundir.journals, {**_MANY, "n": 150}, process=2, facts={"session": "b2"})
    manifest, found = regather(rundir)
    assert (found.from_journals, found.from_sketches) == (150, 300)
    assert manifest.crew is not None
    assert (manifest.crew["missing_requests"], manifest.crew["missing_estimate"]) == (150, 30)


def test_a_file_that_was_copied_twice_counts_once(
    rundir: RunDirectory, lost_one: Manifest, write_journal: Callable[..., None]
) -> None:
    """Whatever the copy is called."""
    write_journal(rundir.journals, _MANY, process=2, facts={"session": "b2"}, segment_bytes=40_000)
    files = sorted(rundir.journals.iterdir())
    assert len(files) > 1
    shutil.copy(files[0], rundir.journals / "copy of it.trilat")
    assert regather(rundir)[1].from_journals == 300


def test_a_worker_that_the_master_never_heard_of_counts_too(
    rundir: RunDirectory, lost_one: Manifest, write_journal: Callable[..., None]
) -> None:
    """It went before its first report."""
    facts = {"session": "c3", "pid": 99, "host_name": "other-host"}
    write_journal(rundir.journals, _FEW, process=3, facts=facts)
    manifest, found = regather(rundir)
    assert found.book.total().requests == 500
    assert manifest.crew is not None
    assert manifest.crew["workers"][2]["name"] == "other-host (process 99)"


def test_what_came_before_a_reset_is_left_out(
    rundir: RunDirectory,
    make_manifest: Callable[..., Manifest],
    make_book: Callable[..., SketchBook],
    write_journal: Callable[..., None],
) -> None:
    """Of a process that went before the reset everything is."""
    manifest = make_manifest(reset=RESET)
    finish(rundir, manifest, make_book(_MANY))
    anew = {"facts": {"epoch": 1}}
    write_journal(rundir.journals, _FEW, anew, _MANY, process=1, facts={"session": "a1"})
    write_journal(rundir.journals, _FEW, process=2, facts={"session": "b2"})
    manifest, found = regather(rundir)
    assert found.book.to_bytes() == make_book(_MANY).to_bytes()
    assert manifest.reset is not None
    assert manifest.reset["left_out"] == found.left_out == 200


def test_a_run_of_one_process_keeps_what_its_journal_dropped(
    rundir: RunDirectory,
    make_manifest: Callable[..., Manifest],
    make_book: Callable[..., SketchBook],
    write_journal: Callable[..., None],
) -> None:
    """The histograms hold all, the journal the last part."""
    finish(rundir, make_manifest(), make_book(_MANY))
    write_journal(rundir.journals, _MANY, segment_bytes=20_000, max_segments=2)
    found = regather(rundir)[1]
    assert (found.from_journals, found.from_sketches) == (0, 300)
    assert found.dropped > 0


def test_hostile_ids_are_no_paths(
    rundir: RunDirectory, make_manifest: Callable[..., Manifest]
) -> None:
    """A worker's id in a manifest from elsewhere reads no file outside the run."""
    for session in ("../../secret", "", "a" * 100, "ä"):
        manifest = crewed(make_manifest(), worker(session))
        found = gather(rundir, manifest, whole=None)
        assert "is no worker's id" in found.unreadable[0]
        assert found.book.total().requests == 0


def test_a_damaged_file_of_a_worker_is_told(rundir: RunDirectory, lost_one: Manifest) -> None:
    """The rest is read."""
    (rundir.workers / "a1.bin").write_bytes(b"trilat-book 2\n")
    found = regather(rundir)[1]
    assert found.book.total().requests == 100
    assert "a1.bin" in found.unreadable[0]


def test_the_command_writes_it_and_says_where_the_requests_are_from(
    rundir: RunDirectory,
    lost_one: Manifest,
    write_journal: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In lines for a person, or as the result; twice gives the same."""
    assert trilat(["correlate", str(rundir.path)]) == 0
    told = capsys.readouterr().out
    assert "host_b2: 100 requests from what it sent; about 230 more are missing" in told
    write_journal(rundir.journals, _MANY, process=2, facts={"session": "b2"})
    (rundir.journals / "torn.trilat").write_bytes(b"no journal")
    assert trilat(["correlate", str(rundir.path)]) == 0
    told = capsys.readouterr().out
    assert "host_b2: 300 requests from its journal\n" in told
    assert "all: 300 requests from 1 journals, 300 from what was sent" in told
    assert "left out: " in told
    result = rundir.read_result()
    assert result["total"]["requests"] == 600
    assert trilat(["correlate", str(rundir.path), "--format", "json"]) == 0
    assert capsys.readouterr().out == rundir.result.read_text(encoding="utf-8")
    assert rundir.read_result() == result


def test_nothing_to_correlate(
    rundir: RunDirectory,
    make_manifest: Callable[..., Manifest],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line, exit code 2, and nothing is written."""
    rundir.write_json(rundir.manifest, make_manifest(ended_wall_ns=None).to_json())
    with pytest.raises(InputError, match="no journal of this run"):
        regather(rundir)
    assert trilat(["correlate", str(rundir.path)]) == 2
    assert "no journal of this run" in capsys.readouterr().err
    assert not rundir.result.exists()
