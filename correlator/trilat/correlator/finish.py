"""The end of a run: what was measured becomes a result, a report and an exit code.

Files are written one after the other, each whole or not at all, and in an order in which a run that
is cut off between two of them can be taken up again: the manifest, the sketches, the result, and
last the report, which is drawn from the result alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil

from trilat.agent.errors import InputError, UsageError
from trilat.agent.host import host_identity
from trilat.correlator.judge.objective import Objective, parse
from trilat.correlator.report.html import render
from trilat.correlator.run.gathering import Gathered, gather
from trilat.correlator.run.manifest import REBUILT_NOTE
from trilat.correlator.samples.sampled import Sampled, Window, read_sampled

from .reading import number
from .result import build_result
from .validate import load_json

if TYPE_CHECKING:
    from pathlib import Path

    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.run.rundir import RunDirectory
    from trilat.correlator.sketches.book import SketchBook

__all__ = ["finish", "has_own_end", "rebuild", "recover", "regather"]

_NAMED_MAX = 3
_CLOCK_STEP_S = 60.0  # a wall clock that is set during a run moves a process' start time by that


def finish(rundir: RunDirectory, manifest: Manifest, book: SketchBook) -> dict[str, Any]:
    """Judge a run and write all that is known of it into its directory.

    Args:
        rundir: the run's directory.
        manifest: the run's facts, with its end.
        book: its attributed histograms.

    Returns:
        The result, as ``result.json`` holds it.

    Raises:
        InputError: an objective in the manifest cannot be read.
        OSError: a file cannot be written.
    """
    objectives = _objectives(manifest, rundir.manifest)
    result = build_result(manifest, book, objectives, _sampled(rundir, manifest, book))
    rundir.write_json(rundir.manifest, manifest.to_json())
    rundir.write_bytes(rundir.sketches, book.to_bytes())
    rundir.write_json(rundir.result, result)
    rundir.write_bytes(rundir.report, render(result).encode("utf-8", errors="replace"))
    return result


def rebuild(rundir: RunDirectory) -> dict[str, Any]:
    """Finish a run that ended before its result was written: by Ctrl-C, a kill or a full disk.

    Returns:
        The result, as ``result.json`` holds it.

    Raises:
        InputError: as `recover`.
        OSError: a file cannot be written.
    """
    return finish(rundir, *recover(rundir))


def recover(rundir: RunDirectory) -> tuple[Manifest, SketchBook]:
    """Read what was measured in a run, however it ended; nothing is written.

    Where the run itself did not write its end, what that would have told (when it was, how many
    users there were) is taken from the requests and from the last state that was shown.

    Returns:
        The run's facts, with its end, and its attributed histograms.

    Raises:
        InputError: the run still goes on, the manifest is damaged, or there is neither a sketch
            nor a journal to read.
    """
    manifest = rundir.read_manifest()
    if _is_complete(rundir, manifest):
        return manifest, rundir.read_book()
    manifest, found = regather(rundir)
    return manifest, found.book


def regather(rundir: RunDirectory) -> tuple[Manifest, Gathered]:
    """Read the journals of a run again, however it ended; nothing is written.

    Of workers whose journals are elsewhere, what they sent is taken.

    Returns:
        The run's facts, with its end and with what was found, and what was found.

    Raises:
        InputError: as `recover`.
    """
    manifest = rundir.read_manifest()
    complete = _is_complete(rundir, manifest)
    if not complete and (pid := _writing_process(manifest)) is not None:
        raise InputError(f"{rundir.path}: still running (process {pid}); stop it or wait")
    if not has_own_end(manifest):  # what an earlier rebuilding guessed is guessed again
        manifest = replace(manifest, ended_wall_ns=None, measured_s=None)
    found = gather(rundir, manifest, whole=rundir.read_book() if complete else None)
    if not found.parts and not found.from_sketches:
        what = f" ({found.unreadable[0]})" if found.unreadable else ""
        raise InputError(f"{rundir.journals}: no journal of this run to rebuild it from{what}")
    if not complete:
        manifest = _ended(manifest, found, _last_state(rundir))
    if manifest.reset is not None:
        left_out = max(manifest.reset["left_out"], found.left_out)
        manifest = replace(manifest, reset={**manifest.reset, "left_out": left_out})
    return replace(manifest, crew=found.crew), found


def _is_complete(rundir: RunDirectory, manifest: Manifest) -> bool:
    """Whether the run itself wrote what it measured."""
    return has_own_end(manifest) and rundir.sketches.is_file()


def has_own_end(manifest: Manifest) -> bool:
    """Whether the run's own process wrote its end, and not a rebuilding from its journals."""
    return manifest.ended_wall_ns is not None and REBUILT_NOTE not in manifest.notes


def _writing_process(manifest: Manifest) -> int | None:
    """The process that will write the run's result, where it lives on this host; else None.

    A process that began after the run did is another one, with a number that was used before.
    """
    if manifest.pid is None or manifest.host.get("identity") != host_identity():
        return None
    try:
        process = psutil.Process(manifest.pid)
        alive = process.status() != psutil.STATUS_ZOMBIE
        older = process.create_time() <= manifest.started_wall_ns / 1e9 + _CLOCK_STEP_S
    except (psutil.Error, ValueError, OverflowError):
        return None
    return manifest.pid if alive and older else None


def _sampled(rundir: RunDirectory, manifest: Manifest, book: SketchBook) -> Sampled:
    """The samples of a run; where its end is not known, up to its last request."""
    ended_ns = manifest.ended_wall_ns or book.total().last_wall_ns or manifest.started_wall_ns
    window = Window(manifest.started_wall_ns / 1e9, ended_ns / 1e9)
    return read_sampled(rundir.samples, window)


def _objectives(manifest: Manifest, path: Path) -> list[Objective]:
    try:
        return [parse(text) for text in manifest.objectives]
    except UsageError as error:
        raise InputError(f"{path}.objectives: {error}") from error


def _whole(value: object) -> int:
    return value if isinstance(value, int) and 0 < value < 2**63 else 0


def _last_state(rundir: RunDirectory) -> dict[str, Any]:
    """The last state that was shown while the run lasted; empty where there is none."""
    try:
        state = load_json(rundir.live)
    except InputError:
        return {}
    return state if isinstance(state, dict) else {}


def _ended(manifest: Manifest, journals: Gathered, state: dict[str, Any]) -> Manifest:
    """The manifest with what the run's end would have told."""
    total = journals.book.total()
    notes = [*manifest.notes, REBUILT_NOTE]
    if journals.unreadable:
        named = "; ".join(journals.unreadable[:_NAMED_MAX])
        notes.append(f"{len(journals.unreadable)} journal files could not be read: {named}")
    changes: dict[str, Any] = {"notes": list(dict.fromkeys(notes))}
    if total.requests and manifest.ended_wall_ns is None:
        changes["ended_wall_ns"] = total.last_wall_ns
    if total.requests and manifest.measured_s is None:
        changes["measured_s"] = max(total.last_wall_ns - total.first_wall_ns, 0) / 1e9
    if manifest.same_host is None:
        changes["same_host"] = journals.same_host
    if not manifest.users:
        changes["users"] = _whole(state.get("users"))
    wanted = number(state.get("target_rate_per_s"))
    if manifest.target_rate_per_s is None and wanted is not None and wanted > 0:
        changes |= {"target_rate_per_s": wanted, "target_rate_source": "wait_time"}
    if journals.dropped:
        already = manifest.lost.get("journal_dropped", 0)
        changes["lost"] = {
            **manifest.lost,
            "journal_dropped": max(already, journals.dropped),
        }
    return replace(manifest, **changes)
