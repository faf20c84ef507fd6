"""The directory that a run of the lab leaves: facts, an outcome a line, and the tables."""

from __future__ import annotations

import json
import os
import platform
import shutil
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .processes import LabError
from .summary import Outcome
from .tables import whole

__all__ = ["Results", "machine_facts"]

_PACKAGES = ("trilat", "locust", "gevent", "uvicorn", "numpy")


class Results:
    """Where a run of the lab writes.

    Args:
        path: the directory; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.outcomes: list[Outcome] = []
        self.failures: dict[str, str] = {}
        self._write("facts.json", json.dumps(machine_facts(), indent=2))

    def folder(self, name: str) -> Path:
        """An empty folder for a scenario's files."""
        folder = self.path / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def add(self, outcome: Outcome) -> None:
        """A scenario was made."""
        self.outcomes.append(outcome)
        with (self.path / "scenarios.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(outcome) + "\n")

    def fail(self, name: str, why: str) -> None:
        """A scenario could not be made."""
        self.failures[name] = why
        self._write("failures.json", json.dumps(self.failures, indent=2))

    def finish(self) -> str:
        """Write the tables; their text."""
        text = whole(self.outcomes)
        self._write("tables.md", text + "\n")
        return text

    def _write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    @staticmethod
    def read(path: Path) -> tuple[list[Outcome], dict[str, Any]]:
        """The outcomes and the facts of an earlier run.

        Raises:
            LabError: that is no directory of the lab's.
        """
        try:
            lines = (path / "scenarios.jsonl").read_text(encoding="utf-8").splitlines()
            facts = json.loads((path / "facts.json").read_text(encoding="utf-8"))
            return [json.loads(line) for line in lines], facts
        except (OSError, ValueError) as error:
            raise LabError(f"{path}: not what a run of the lab leaves ({error})") from error


def machine_facts() -> dict[str, Any]:
    """What a figure is worth nothing without."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processors": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "from a checkout"
