"""The end of a run, however it comes: a result, or what a result can be made of again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from trilat.agent.errors import InputError
from trilat.agent.host import host_identity
from trilat.correlator.finish import finish, rebuild, recover
from trilat.correlator.run.manifest import REBUILT_NOTE
from trilat.correlator.run.rundir import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.sketches.book import SketchBook

_GROUPS = (
    {"n": 300, "service": 20.0, "network": 1.0, "generator": 2.0},
    {"n": 100, "name": "/slow", "service": 90.0, "network": 1.0, "read": 3.0},
)


@pytest.fixture
def rundir(tmp_path: Path) -> RunDirectory:
    """A fresh run directory."""
    return RunDirectory.create(tmp_path / "run", "0123456789ab", 0.0)


def test_finish_writes_all_files(
    rundir: RunDirectory,
    make_book: Callable[..., SketchBook],
    make_manifest: Callable[..., Manifest],
) -> None:
    """Manifest, sketches, result and report are there and fit each other."""
    manifest, book = make_manifest(objectives=["p95<=200ms"]), make_book(*_GROUPS)
    result = finish(rundir, manifest, book)
    assert rundir.read_manifest() == manifest
    assert rundir.read_book().to_bytes() == book.to_bytes()
    assert rundir.read_result() == result
    assert "<html" in rundir.report.read_text(encoding="utf-8")
    assert result["objectives"][0]["holds"] is True


class _CutOff(BaseException):
    """Stands for a kill between two files."""


@pytest.mark.parametrize("writes", range(4))
def test_a_run_cut_off_anywhere_can_be_finished(  # noqa: PLR0917
    writes: int,
    rundir: RunDirectory,
    make_book: Callable[..., SketchBook],
    make_manifest: Callable[..., Manifest],
    write_journal: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After any number of written files, rebuilding gives the same figures."""
    end = make_manifest(objectives=["p95<=200ms"])
    start = replace(end, ended_wall_ns=None, measured_s=None, generator_cpu_percent=None)
    rundir.write_json(rundir.manifest, start.to_json())
    write_journal(rundir.journals, *_GROUPS)
    book = make_book(*_GROUPS)
    whole, left = RunDirectory.write_bytes, [None] * writes

    def write(self: RunDirectory, path: Path, raw: bytes) -> None:
        if not left:
            raise _CutOff
        left.pop()
        whole(self, path, raw)

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "write_bytes", write)
        with pytest.raises(_CutOff):
            finish(rundir, end, book)
    result = rebuild(RunDirectory.open(rundir.path))
    assert rundir.read_result() == result
    figures = ("requests", "response_time_ms", "service_ms", "shares", "makeup")
    sound = finish(
        RunDirectory.create(rundir.path.parent / "sound", "0123456789ab", 0.0), end, book
    )
    assert {key: result["total"][key] for key in figures} == {
        key: sound["total"][key] for key in figures
    }
    assert (REBUILT_NOTE in result["run"]["notes"]) == (writes < 2)


def test_rebuilding_from_journals(
    rundir: RunDirectory,
    make_manifest: Callable[..., Manifest],
    write_journal: Callable[..., None],
) -> None:
    """Several processes' journals in several files give one book; the end is read off the rows."""
    start = make_manifest(ended_wall_ns=None, measured_s=None, users=0, notes=["kept"])
    rundir.write_json(rundir.manifest, start.to_json())
    rundir.write_json(rundir.live, {"users": 40, "target_rate_per_s": 1e6})
    write_journal(rundir.journals, _GROUPS[0], process=1, segment_bytes=40_000)
    write_journal(rundir.journals, _GROUPS[1], _GROUPS[0], process=2)
    assert len(list(rundir.journals.iterdir())) > 2
    result = rebuild(rundir)
    counts = {each["name"]: each["requests"] for each in result["endpoints"]}
    assert counts == {"/items": 600, "/slow": 100}
    run = result["run"]
    assert run["notes"] == ["kept", REBUILT_NOTE]
    assert run["measured_s"] == pytest.approx(10.0, abs=0.2)
    assert run["ended_wall_ns"] == pytest.approx(start.started_wall_ns + 10**10, abs=2 * 10**8)
    assert run["users"] == 40
    assert run["target_rate_per_s"] == 1e6
    assert "The rate was" in result["verdict"]["reasons"][0]
    assert rebuild(rundir)["run"]["notes"] == ["kept", REBUILT_NOTE]


@pytest.mark.parametrize(
    "state", [b"", b"[1]", b'{"users": "many", "target_rate_per_s": []}', b'{"users": 1e400}']
)
def test_a_damaged_last_state_is_left_out(
    state: bytes,
    rundir: RunDirectory,
    make_manifest: Callable[..., Manifest],
    write_journal: Callable[..., None],
) -> None:
    """What the progress file holds is taken only where it is sound."""
    start = make_manifest(ended_wall_ns=None, measured_s=None, users=0)
    rundir.write_json(rundir.manifest, start.to_json())
    rundir.live.write_bytes(state)
    write_journal(rundir.journals, _GROUPS[0])
    run = rebuild(rundir)["run"]
    assert (run["users"], run["target_rate_per_s"]) == (0, None)


def test_journals_that_cannot_be_read_are_told(
    rundir: RunDirectory,
    make_manifest: Callable[..., Manifest],
    write_journal: Callable[..., None],
) -> None:
    """Damaged and foreign journals are left out with a note, a service's own without."""
    start = make_manifest(ended_wall_ns=None, measured_s=None)
    rundir.write_json(rundir.manifest, start.to_json())
    write_journal(rundir.journals, _GROUPS[0])
    write_journal(rundir.journals, _GROUPS[0], process=2, facts={"run": "other"})
    write_journal(rundir.journals, _GROUPS[0], process=3, facts={"side": "service"})
    (rundir.journals / "generator-9-0001.trilat").write_bytes(b"\x00" * 5000)
    result = rebuild(rundir)
    assert result["total"]["requests"] == 300
    (note,) = [each for each in result["run"]["notes"] if "could not be read" in each]
    assert note.startswith("2 journal files could not be read: ")


def test_dropped_files_are_counted(
    rundir: RunDirectory,
    make_manifest: Callable[..., Manifest],
    write_journal: Callable[..., None],
) -> None:
    """Journal files that were dropped at the size limit stand among what was lost."""
    start = make_manifest(ended_wall_ns=None, measured_s=None, lost={"unmarked": 2})
    rundir.write_json(rundir.manifest, start.to_json())
    write_journal(rundir.journals, _GROUPS[0], segment_bytes=20_000, max_segments=2)
    lost = rebuild(rundir)["run"]["lost"]
    assert lost["unmarked"] == 2
    assert lost["journal_dropped"] >= 1


def test_nothing_to_rebuild_from(
    rundir: RunDirectory, make_manifest: Callable[..., Manifest]
) -> None:
    """Without a journal, or with damaged ones only, the message names the folder."""
    rundir.write_json(rundir.manifest, make_manifest(ended_wall_ns=None).to_json())
    with pytest.raises(InputError, match="no journal of this run to rebuild it from"):
        rebuild(rundir)
    (rundir.journals / "generator-1-0001.trilat").write_bytes(b"not a journal")
    with pytest.raises(InputError, match="not a trilat journal"):
        rebuild(rundir)


def test_a_wrong_objective_in_a_manifest_is_damage(
    rundir: RunDirectory,
    make_book: Callable[..., SketchBook],
    make_manifest: Callable[..., Manifest],
) -> None:
    """The manifest's file is named, and nothing is written."""
    with pytest.raises(InputError, match=r"run\.json\.objectives: p95"):
        finish(rundir, make_manifest(objectives=["p95"]), make_book())
    assert not rundir.result.exists()


def test_hostile_names_stay_text(
    rundir: RunDirectory,
    make_book: Callable[..., SketchBook],
    make_manifest: Callable[..., Manifest],
) -> None:
    """An endpoint named like a script or a terminal escape is data in the result and the report."""
    name = "</script><script>alert(1)</script>\x1b[2J"
    book = make_book({"n": 10, "service": 90.0, "name": name, "failed": True})
    result: dict[str, Any] = finish(rundir, make_manifest(), book)
    assert json.loads(rundir.result.read_text(encoding="utf-8")) == result
    assert "<script>alert" not in rundir.report.read_text(encoding="utf-8")
    assert all(reason.isprintable() for reason in result["verdict"]["reasons"])


def test_a_run_that_goes_on_is_left_alone(
    rundir: RunDirectory,
    make_manifest: Callable[..., Manifest],
    write_journal: Callable[..., None],
) -> None:
    """While the process that writes the result lives, nobody else writes one; afterwards they do.

    A number of another host, or of a process that began later, says nothing.
    """
    here = {**make_manifest().host, "identity": host_identity()}
    facts = {"ended_wall_ns": None, "measured_s": None, "host": here}
    write_journal(rundir.journals, _GROUPS[0])

    def begin(**changes: Any) -> None:
        manifest = make_manifest(**{**facts, "started_wall_ns": time.time_ns(), **changes})
        rundir.write_json(rundir.manifest, manifest.to_json())

    begin(pid=os.getpid())
    before = sorted(rundir.path.rglob("*"))
    with pytest.raises(InputError, match=rf"still running \(process {os.getpid()}\)"):
        rebuild(rundir)
    assert sorted(rundir.path.rglob("*")) == before
    begin(pid=os.getpid(), host={**here, "identity": host_identity() ^ 1})
    assert recover(rundir)[1].total().requests == 300
    begin(pid=os.getpid(), started_wall_ns=make_manifest().started_wall_ns)
    assert recover(rundir)[1].total().requests == 300
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(60)
    begin(pid=process.pid)
    assert rebuild(rundir)["total"]["requests"] == 300


def test_what_was_rebuilt_too_early_is_rebuilt_again(
    rundir: RunDirectory,
    make_manifest: Callable[..., Manifest],
    write_journal: Callable[..., None],
) -> None:
    """A rebuilding does not stand in the way of the journals that came after it."""
    start = make_manifest(ended_wall_ns=None, measured_s=None)
    rundir.write_json(rundir.manifest, start.to_json())
    write_journal(rundir.journals, _GROUPS[0])
    assert rebuild(rundir)["total"]["requests"] == 300
    write_journal(rundir.journals, _GROUPS[1], process=2)
    assert rebuild(rundir)["total"]["requests"] == 400
