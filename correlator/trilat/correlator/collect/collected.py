"""`Collected`: what one service gave to `trilat collect`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["COLLECT_SCHEMA", "Collected", "CollectedFile", "Outcome"]

COLLECT_SCHEMA = "trilat.collect/1"
"""Name and version of what `Collected.to_json` gives, in a list."""
Outcome = Literal["fetched", "resumed", "present"]


@dataclass(frozen=True, slots=True)
class CollectedFile:
    """One file that was offered.

    Attributes:
        name: of the file.
        kind: ``journal`` or ``samples``.
        bytes: of it in the run's directory.
        outcome: ``resumed`` where a part of it was there before.
    """

    name: str
    kind: str
    bytes: int
    outcome: Outcome


@dataclass(slots=True)
class Collected:
    """What one service gave.

    Attributes:
        url: which.
        files: what is in the run's directory of it, by name.
        errors: what was not to be had: one line each.
        remarks: what is worth knowing.
        ahead_ns: its wall clock minus ours; None where it did not answer.
    """

    url: str
    files: dict[str, CollectedFile] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    ahead_ns: int | None = None

    def add(self, file: CollectedFile) -> None:
        """Note a file, in the place of an older one of its name."""
        self.files[file.name] = file

    def to_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "url": self.url,
            "files": [
                {name: getattr(file, name) for name in ("name", "kind", "bytes", "outcome")}
                for file in self.files.values()
            ],
            "errors": self.errors,
            "remarks": self.remarks,
            "clock_ahead_ms": None if self.ahead_ns is None else self.ahead_ns / 1e6,
        }
