"""What a check of a run is, and how grave what it saw is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from .cause import Cause
    from .verdict import Verdict

__all__ = ["Check", "CheckOutcome", "check", "weight"]

CheckOutcome = Literal["ok", "warn", "fail", "skipped"]


class Check(TypedDict):
    """One check as ``result.json`` holds it; ``remedy`` is empty where there is nothing to do."""

    id: str
    title: str
    outcome: CheckOutcome
    evidence: str
    remedy: str


def check(
    identity: str, title: str, outcome: CheckOutcome, evidence: str, remedy: str = ""
) -> Check:
    """A check; what is well, or was not looked at, needs no remedy."""
    settled = outcome in ("ok", "skipped")
    return {
        "id": identity,
        "title": title,
        "outcome": outcome,
        "evidence": evidence,
        "remedy": "" if settled else remedy,
    }


def weight(verdict: Verdict, *causes: Cause) -> CheckOutcome:
    """How grave something odd is: a failure if it decided the verdict, else a warning."""
    return "fail" if verdict.cause in causes else "warn"
