"""Writes the tables of ``docs/accuracy.md`` from what a run of the lab left."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .processes import LabError
from .results import Results
from .scenarios import SCENARIOS
from .summary import Outcome
from .tables import TABLES

__all__ = ["write_docs"]

_BLOCK = re.compile(r"(<!-- lab: ([a-z-]+) -->\n).*?(<!-- /lab -->)", re.DOTALL)


def write_docs(results: Path, page: Path) -> list[str]:
    """Put new tables between the page's marks.

    Args:
        results: the directory of a run of the lab.
        page: the page to write.

    Returns:
        The names of the tables that were written.

    Raises:
        LabError: there is no result, or the page has no mark.
    """
    outcomes, facts = Results.read(results)
    # What was measured stands in the results; why it is so, in the scenarios as they are now.
    why = {scenario.name: scenario.off for scenario in SCENARIOS}
    outcomes = [{**each, "off": why.get(each["name"], each["off"])} for each in outcomes]
    if not outcomes:
        raise LabError(f"{results}: no scenario was made")
    written: list[str] = []

    def fill(found: re.Match[str]) -> str:
        name = found.group(2)
        written.append(name)
        text = _facts(facts, outcomes) if name == "run" else TABLES[name](outcomes)
        return f"{found.group(1)}\n{text}\n\n{found.group(3)}"

    text = _BLOCK.sub(fill, page.read_text(encoding="utf-8"))
    if not written:
        raise LabError(f"{page}: no place for tables (<!-- lab: goals -->)")
    page.write_text(text, encoding="utf-8")
    return written


def _facts(facts: dict[str, object], outcomes: Sequence[Outcome]) -> str:
    """One sentence on the run that the tables come from."""
    requests = sum(o["score"]["joined"] for o in outcomes)
    late = [o["link"]["late_us"] for o in outcomes if o["link"]]
    link = ""
    if late:
        p50 = sorted(each["p50"] for each in late)[len(late) // 2]
        p99 = sorted(each["p99"] for each in late)[len(late) // 2]
        link = (
            f" The link's carrier wrote a packet {p50:.0f} µs after it was due at the median and"
            f" {p99:.0f} µs at p99 (medians of {len(late)} scenarios); that is in the captures too."
        )
    return (
        f"{len(outcomes)} scenarios, {requests:,} requests, on {facts['date']}:"
        f" {facts['processors']} processors, {facts['system']}, Python {facts['python']},"
        f" Locust {facts['locust']}, gevent {facts['gevent']}, uvicorn {facts['uvicorn']},"
        f" trilat {facts['trilat']}.{link}"
    )
