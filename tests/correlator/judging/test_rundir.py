"""The run directory: nothing is overwritten, nothing half written, nothing damaged read."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trilat.agent.errors import InputError, UsageError
from trilat.correlator.result import build_result
from trilat.correlator.run.rundir import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.sketches.book import SketchBook

_NOW = 1_700_000_000.9


@pytest.fixture
def rundir(tmp_path: Path) -> RunDirectory:
    """A fresh run directory."""
    return RunDirectory.create(tmp_path / "run", "0123456789ab", _NOW)


def test_the_default_name_says_when_and_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a path the directory is named by the UTC time and the run's id."""
    monkeypatch.chdir(tmp_path)
    run = RunDirectory.create(None, "0123456789ab", _NOW)
    assert run.path == Path("trilat-runs/20231114T221320Z-0123456789ab")
    assert run.journals.is_dir()
    assert run.samples.is_dir()


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    """A directory that exists and is empty may become a run's, also a second time."""
    RunDirectory.create(tmp_path, "0123456789ab", _NOW)
    assert RunDirectory.create(tmp_path, "0123456789ab", _NOW).journals.is_dir()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A directory with anything in it is refused, and the message says what to do."""
    (tmp_path / "run.json").touch()
    with pytest.raises(UsageError, match="not empty; name a new directory, or remove this one"):
        RunDirectory.create(tmp_path, "0123456789ab", _NOW)


def test_a_journal_is_not_overwritten_either(rundir: RunDirectory) -> None:
    """A folder with a file in it is not empty, though the directory holds folders only."""
    (rundir.journals / "a.trilat").touch()
    with pytest.raises(UsageError, match="not empty"):
        RunDirectory.create(rundir.path, "0123456789ab", _NOW)


def test_of_many_runs_one_gets_the_directory(tmp_path: Path) -> None:
    """Runs that start at once with one directory: one is let in, and a second time; no other."""
    ids = [f"{number:012x}" for number in range(16)]

    def create(run_id: str) -> str | None:
        try:
            RunDirectory.create(tmp_path / "run", run_id, _NOW)
        except UsageError as error:
            assert "not empty" in str(error)  # noqa: PT017 - in a thread
            return None
        return run_id

    with ThreadPoolExecutor(8) as pool:
        (winner,) = filter(None, pool.map(create, ids))
    assert [each for each in ids if create(each)] == [winner]


def test_a_discarded_directory_is_free_again(rundir: RunDirectory) -> None:
    """A run that never began goes without a trace, but only by its own id."""
    rundir.write_json(rundir.manifest, {})
    (rundir.journals / "a.trilat").touch()
    rundir.discard("ba9876543210")
    assert rundir.manifest.exists()
    rundir.discard("0123456789ab")
    assert not rundir.path.exists()
    RunDirectory.create(rundir.path, "ba9876543210", _NOW)


def test_what_is_no_runs_stays(rundir: RunDirectory) -> None:
    """A file that somebody else put into the directory is not removed with it."""
    mine = rundir.path / "mine"
    mine.touch()
    rundir.discard("0123456789ab")
    assert mine.exists()


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_file_in_the_way_is_named(tmp_path: Path, place: str) -> None:
    """Where no directory can be made, the message names the place."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="name another"):
        RunDirectory.create(tmp_path / place, "0123456789ab", _NOW)


def test_only_a_run_directory_opens(tmp_path: Path, rundir: RunDirectory) -> None:
    """A missing directory and one without a manifest are no runs."""
    with pytest.raises(InputError, match="no such directory"):
        RunDirectory.open(tmp_path / "missing")
    with pytest.raises(InputError, match=r"run\.json is missing"):
        RunDirectory.open(rundir.path)
    rundir.manifest.touch()
    assert RunDirectory.open(rundir.path) == rundir


def test_a_file_of_a_run_opens_its_directory(rundir: RunDirectory) -> None:
    """Who completes a path one step too far is understood."""
    rundir.manifest.touch()
    rundir.result.touch()
    assert RunDirectory.open(rundir.result) == rundir


def test_in_a_folder_of_runs_the_newest_is_named(tmp_path: Path) -> None:
    """Who names the folder above learns what to name."""
    for age, name in enumerate(("newest", "older", "oldest")):
        run = RunDirectory.create(tmp_path / name, "0123456789ab", _NOW)
        run.manifest.touch()
        os.utime(run.manifest, (_NOW - age, _NOW - age))
    with pytest.raises(InputError, match=rf"the newest run in it is {tmp_path}/newest$"):
        RunDirectory.open(tmp_path)


def test_json_is_written_whole_or_not_at_all(rundir: RunDirectory) -> None:
    """What cannot be written leaves the old file and nothing beside it."""
    rundir.write_json(rundir.live, {"a": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        rundir.write_json(rundir.live, {"a": float("nan")})
    assert json.loads(rundir.live.read_text(encoding="utf-8")) == {"a": 1}
    assert sorted(each.name for each in rundir.path.iterdir()) == [
        *(".run", "journals", "live.json", "samples")
    ]


def test_a_failed_rename_leaves_nothing(rundir: RunDirectory) -> None:
    """Where the file cannot take its place, the temporary one is gone."""
    (rundir.path / "live.json" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        rundir.write_json(rundir.live, {})
    assert [each.name for each in rundir.path.glob(".*")] == [".run"]


def test_files_can_be_read_by_others(rundir: RunDirectory) -> None:
    """Files have ordinary rights, not those of a temporary file."""
    rundir.write_json(rundir.live, {})
    assert stat.S_IMODE(rundir.live.stat().st_mode) == 0o644


def test_text_that_is_no_unicode_is_written(rundir: RunDirectory) -> None:
    """A lone surrogate, from an argument that was no UTF-8, does not stop the manifest."""
    rundir.write_json(rundir.live, {"a": "\udcff"})
    assert json.loads(rundir.live.read_text(encoding="utf-8")) == {"a": "?"}


def test_what_was_written_is_read(
    rundir: RunDirectory,
    make_book: Callable[..., SketchBook],
    make_manifest: Callable[..., Manifest],
) -> None:
    """Manifest, result and book come back as they were."""
    manifest, book = make_manifest(), make_book({"n": 10, "service": 5.0})
    result = build_result(manifest, book, [])
    rundir.write_json(rundir.manifest, manifest.to_json())
    rundir.write_json(rundir.result, result)
    rundir.write_bytes(rundir.sketches, book.to_bytes())
    assert rundir.read_manifest() == manifest
    assert rundir.read_result() == result
    assert rundir.read_book().to_bytes() == book.to_bytes()


def test_damage_is_named_with_its_file(rundir: RunDirectory) -> None:
    """Each damaged file is an InputError of one line that begins with its path."""
    readers = [
        (rundir.manifest, rundir.read_manifest),
        (rundir.result, rundir.read_result),
        (rundir.sketches, rundir.read_book),
    ]
    for path, read in readers:
        with pytest.raises(InputError, match="no such file"):
            read()
        for raw in (b"", b"{}", b"[1, 2", b"\x00\xff" * 50, b'{"schema": NaN}'):
            path.write_bytes(raw)
            with pytest.raises(InputError) as caught:
                read()
            assert str(caught.value).startswith(f"{path}: ")
            assert "\n" not in str(caught.value)
