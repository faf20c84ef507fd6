"""What `trilat doctor` found: one record a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Outcome"]

Outcome = Literal["ok", "missing", "note"]
"""``missing`` costs a grade of evidence; ``note`` is worth knowing and costs none."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was tried.

    Attributes:
        id: short name, stable for programs.
        outcome: see `Outcome`.
        evidence: what was seen.
        cost: what a run here measures worse for it; empty where nothing.
        remedy: what to do about it; empty where nothing.
    """

    id: str
    outcome: Outcome
    evidence: str
    cost: str = ""
    remedy: str = ""
