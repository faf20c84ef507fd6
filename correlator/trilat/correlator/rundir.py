"""The run directory: all that is known of one run, complete in itself.

::

    run.json        the manifest, written when the load starts and again when it ends
    live.json       the state of the run, once a second while it runs
    journals/       every request, one file series a process
    samples/        series of CPU time, memory and lag
    sketches.bin    the attributed histograms
    result.json     what came out
    report.html     the same for a person
    locust.log      what Locust said, where trilat started it
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from trilat.agent.errors import InputError, UsageError

from .book import SketchBook
from .manifest import Manifest
from .validate import check, load_json, result_schema

__all__ = ["RUNS_FOLDER", "RunDirectory"]

RUNS_FOLDER = Path("trilat-runs")
"""Where run directories go when nobody says where, under the working directory."""

_SKETCHES_BYTES_MAX = 2**30


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
            if path.is_dir() and not _holds_only_empty_folders(path):
                raise UsageError(
                    f"{path}: not empty; name a new directory, or remove this one first "
                    "(runs are never overwritten)"
                )
            for folder in (path, run.journals, run.samples):
                folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{path}: cannot be made a run directory: {error.strerror}; name another"
            ) from error
        return run

    @classmethod
    def open(cls, path: Path) -> Self:
        """The directory of a run that is there.

        Raises:
            InputError: no such directory, or no run's.
        """
        run = cls(path)
        try:
            if not path.is_dir():
                raise InputError(f"{path}: no such directory")
            if not run.manifest.is_file():
                raise InputError(f"{path}: not a run directory, run.json is missing")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        return run

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
        try:
            if not self.sketches.is_file():
                raise InputError(f"{self.sketches}: no such file")
            if self.sketches.stat().st_size > _SKETCHES_BYTES_MAX:
                raise InputError(f"{self.sketches}: larger than a run's sketches can be")
            raw = self.sketches.read_bytes()
        except OSError as error:
            raise InputError(f"{self.sketches}: {error.strerror}") from error
        try:
            return SketchBook.from_bytes(raw)
        except InputError as error:
            raise InputError(f"{self.sketches}: {error}") from error


def _holds_only_empty_folders(path: Path) -> bool:
    """Whether nothing would be lost: `trilat run` makes the directory before Locust's process."""
    return not any(not each.is_dir() or any(each.iterdir()) for each in path.iterdir())
