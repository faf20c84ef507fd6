"""The run directory: all that is known of one run, complete in itself.

::

    run.json        the manifest, written when the load starts and again when it ends
    live.json       the state of the run, once a second while it runs
    journals/       every request, one file series a process
    samples/        series of CPU time, memory and lag
    workers/        what each worker sent of its requests, a file a process
    sketches.bin    the attributed histograms
    result.json     what came out
    report.html     the same for a person
    locust.log      what Locust said, where trilat started it
    .run            the id of the run that took the directory
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from trilat.agent.errors import InputError, UsageError
from trilat.correlator.sketches.book import SketchBook, read_book
from trilat.correlator.validate import check, load_json, result_schema

from .manifest import Manifest

__all__ = ["RUNS_FOLDER", "RunDirectory"]

RUNS_FOLDER = Path("trilat-runs")
"""Where run directories go when nobody says where, under the working directory."""

_WORKER_SUFFIX = ".bin"
_SESSION_MAX = 64


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """One run's directory.

    Attributes:
        path: the directory.
    """

    path: Path

    @classmethod
    def create(cls, path: Path | None, run_id: str, now: float) -> Self:
        """Make the directory of a new run, with its folders.

        It is claimed for this run by a file that only one process can create, so of two runs that
        are given the same place one is refused. Who knows the run's id comes in a second time: the
        process that `trilat run` starts.

        Args:
            path: where; None for ``trilat-runs/<UTC time>-<run id>``.
            run_id: the run's id.
            now: seconds since the epoch, for the name.

        Raises:
            UsageError: there is something at that place, or it cannot be made.
        """
        if path is None:
            started = datetime.fromtimestamp(now, tz=UTC)
            path = RUNS_FOLDER / f"{started:%Y%m%dT%H%M%SZ}-{run_id}"
        run = cls(path)
        try:
            if path.exists() and not path.is_dir():
                raise UsageError(f"{path}: a file is in the way; name another directory")
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
            # Looked at first, so that nothing is put into a directory that is somebody else's.
            if not run._is_free() or not run._claim(run_id):
                raise UsageError(
                    f"{path}: not empty; name a new directory, or remove this one first "
                    "(runs are never overwritten)"
                )
            for folder in (run.journals, run.samples):
                folder.mkdir(mode=0o755, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{path}: cannot be made a run directory: {error.strerror}; name another"
            ) from error
        return run

    @classmethod
    def open(cls, path: Path) -> Self:
        """The directory of a run that is there.

        Args:
            path: the directory, or a file in it such as ``result.json``.

        Raises:
            InputError: no such directory, or no run's; of a folder of runs the newest is named.
        """
        try:
            run = cls(path.parent if path.is_file() else path)
            if not run.path.is_dir():
                raise InputError(f"{path}: no such directory")
            if not run.manifest.is_file():
                newest = _newest_run(run.path)
                hint = "" if newest is None else f"; the newest run in it is {newest}"
                raise InputError(f"{run.path}: not a run directory, run.json is missing{hint}")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        return run

    @classmethod
    def newest(cls, folder: Path = RUNS_FOLDER) -> Self:
        """The run in a folder of runs that began last.

        Raises:
            UsageError: there is none.
        """
        newest = _newest_run(folder)
        if newest is None:
            raise UsageError(f"there is no run in {folder}; name the directory of one")
        return cls(newest)

    def discard(self, run_id: str) -> None:
        """Remove what a run of this id left that is not worth keeping, so its name is free again.

        Only files of a run are removed; where there is anything else, the directory stays.
        """
        if not self._is_claimed_by(run_id):
            return
        files = [self.manifest, self.live, self.sketches, self.result, self.report, self.log]
        files += (*self.journals.glob("*.trilat"), *self.samples.glob("*.jsonl"))
        with suppress(OSError):
            for file in (*files, *self.workers.glob(f"*{_WORKER_SUFFIX}")):
                file.unlink(missing_ok=True)
            for folder in (self.journals, self.samples, self.workers):
                if folder.exists():
                    folder.rmdir()
            self.claim.unlink(missing_ok=True)
            self.path.rmdir()

    def _is_free(self) -> bool:
        """Whether nothing would be lost: there are empty folders and a claim, or less."""
        return not any(
            any(each.iterdir()) if each.is_dir() else each != self.claim
            for each in self.path.iterdir()
        )

    def _claim(self, run_id: str) -> bool:
        """Take the directory for a run; False where another has it."""
        try:
            with self.claim.open("x", encoding="ascii") as file:
                file.write(run_id)
        except FileExistsError:
            return self._is_claimed_by(run_id)
        return True

    def belongs_to(self, run_id: str) -> bool:
        """Whether this is the directory of that run: there may be another of its name."""
        return self._is_claimed_by(run_id)

    def _is_claimed_by(self, run_id: str) -> bool:
        try:
            if not self.claim.is_file():
                return False
            with self.claim.open("rb") as file:
                return file.read(len(run_id) + 1) == run_id.encode()
        except OSError:
            return False

    @property
    def claim(self) -> Path:
        """The file that says which run took the directory."""
        return self.path / ".run"

    @property
    def manifest(self) -> Path:
        """The manifest's file."""
        return self.path / "run.json"

    @property
    def journals(self) -> Path:
        """The folder of the journals."""
        return self.path / "journals"

    @property
    def samples(self) -> Path:
        """The folder of the sampled series."""
        return self.path / "samples"

    @property
    def workers(self) -> Path:
        """The folder of what workers sent; only a master makes it."""
        return self.path / "workers"

    @property
    def result(self) -> Path:
        """The result's file."""
        return self.path / "result.json"

    @property
    def report(self) -> Path:
        """The report's file."""
        return self.path / "report.html"

    @property
    def sketches(self) -> Path:
        """The file of the attributed histograms."""
        return self.path / "sketches.bin"

    @property
    def live(self) -> Path:
        """The file with the state of the run while it runs."""
        return self.path / "live.json"

    @property
    def log(self) -> Path:
        """Where Locust's own log goes when trilat starts it."""
        return self.path / "locust.log"

    def write_json(self, path: Path, obj: Any) -> None:
        """Write a JSON file so that a reader sees the old one or the new one, never a part.

        Raises:
            ValueError: the object holds NaN or an infinite number.
            OSError: the file cannot be written.
        """
        text = json.dumps(obj, indent=1, ensure_ascii=False, allow_nan=False)
        # A lone surrogate, from bytes that were no UTF-8, has no place in a UTF-8 file.
        self.write_bytes(path, text.encode("utf-8", errors="replace") + b"\n")

    def write_bytes(self, path: Path, raw: bytes) -> None:
        """Write a file like `write_json`, from bytes.

        Raises:
            OSError: the file cannot be written.
        """
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(raw)
            temporary.chmod(0o644)  # mkstemp's 0o600 would keep a CI's collector out
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def read_manifest(self) -> Manifest:
        """The run's manifest.

        Raises:
            InputError: it is missing or damaged.
        """
        return Manifest.from_json(load_json(self.manifest), self.manifest)

    def read_result(self) -> dict[str, Any]:
        """The run's result, valid against its schema.

        Raises:
            InputError: it is missing or damaged.
        """
        result = load_json(self.result)
        schema = result_schema()
        check(result, schema, schema, str(self.result))
        assert isinstance(result, dict), "the schema says so"
        return result

    def read_book(self) -> SketchBook:
        """The run's attributed histograms.

        Raises:
            InputError: they are missing or damaged.
        """
        return read_book(self.sketches)

    def write_worker(self, session: str, book: SketchBook) -> None:
        """Keep what a worker sent of its requests.

        Args:
            session: the id of its part in the run.
            book: the requests.

        Raises:
            OSError: the file cannot be written.
        """
        self.workers.mkdir(mode=0o755, exist_ok=True)
        self.write_bytes(self._worker(session), book.to_bytes())

    def read_worker(self, session: str) -> SketchBook:
        """What a worker sent of its requests; empty where nothing was kept of it.

        Raises:
            InputError: it is damaged.
        """
        path = self._worker(session)
        return read_book(path) if path.is_file() else SketchBook()

    def _worker(self, session: str) -> Path:
        """The file of a worker; the id comes from outside, so no path may be made of it."""
        if not session.isalnum() or not session.isascii() or len(session) > _SESSION_MAX:
            raise InputError(f"{self.manifest}: {session[:40]!r} is no worker's id")
        return self.workers / f"{session}{_WORKER_SUFFIX}"


def _newest_run(folder: Path) -> Path | None:
    """The run directory in a folder that began last; None where there is none."""
    manifests = [each for each in folder.glob("*/run.json") if each.is_file()]
    newest = max(manifests, key=lambda each: each.stat().st_mtime_ns, default=None)
    return newest.parent if newest is not None else None
