"""Workers that went missing: what is unknown because of them, and what load nobody made.

A pass needs evidence for nearly all requests that were made, and requests that nobody can tell of
are without evidence. It also needs the load that was asked for: a worker takes its users along, and
Locust starts no others in their place (unless ``--enable-rebalancing`` is given).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.correlator.run.crew import missing_of
from trilat.correlator.text import clean, count, percent

from .cause import COVERAGE_MIN, Cause, Finding, coverage
from .checking import Check, check, weight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilat.correlator.run.crew import CrewFacts, WorkerFacts
    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.sketches.sketch import Sketch

    from .verdict import Verdict

__all__ = ["absence_cautions", "absence_findings", "crew_checks", "reset_notes"]

_LOAD_MISSING_MAX = 0.05
"""As for a rate: a run that makes less than 95 % of its load is another run."""

_NAMED_MAX = 3
_NAME_MAX = 80


def absence_findings(manifest: Manifest, total: Sketch) -> list[Finding]:
    """What keeps a run from passing because workers went missing."""
    crew = manifest.crew
    if crew is None:
        return []
    findings = []
    if crew["load_missing"] > _LOAD_MISSING_MAX:
        findings.append(
            Finding(
                Cause.GENERATOR,
                f"{_lost(crew)}: {percent(crew['load_missing'])} of the load that was asked for "
                "was not made",
            )
        )
    absent = _absent(crew)
    made = total.requests + absent
    # Where even the requests that were counted have too little evidence, that is told already.
    if absent and total.matched / made < COVERAGE_MIN <= coverage(total):
        findings.append(
            Finding(
                Cause.EVIDENCE,
                f"{_unknown(crew)}, {percent(absent / made)} of all: at least "
                f"{percent(COVERAGE_MIN)} must have evidence; {_remedy(crew)}",
            )
        )
    return findings


def absence_cautions(manifest: Manifest, findings: Sequence[Finding]) -> list[str]:
    """What a reader has to know of missing workers where it does not decide."""
    crew = manifest.crew
    if crew is None or not (crew["lost"] or crew["strangers"]):
        return []
    told = " ".join(finding.reason for finding in findings)
    warnings = []
    if crew["lost"] and _lost(crew) not in told:
        missing = crew["load_missing"]
        load = f": {percent(missing)} of the load was not made" if missing else ""
        warnings.append(f"{_lost(crew)}{load}.")
    if _absent(crew) and _unknown(crew) not in told:
        warnings.append(f"{_unknown(crew)}: no figure holds them. To do: {_remedy(crew)}.")
    return warnings


def crew_checks(manifest: Manifest, verdict: Verdict) -> list[Check]:
    """Did all workers take part to the end, and is all of theirs in the figures?

    Returns:
        One check; none for a run without workers.
    """
    crew = manifest.crew
    return [] if crew is None else [_crew_check(crew, verdict)]


def _crew_check(crew: CrewFacts, verdict: Verdict) -> Check:
    title = "Workers"
    seen = "1 worker took part" if crew["seen"] == 1 else f"{count(crew['seen'])} workers took part"
    if not crew["lost"] and not _absent(crew):
        return check("G020", title, "ok", f"{seen}, and all of them reported to the end")
    evidence = [seen]
    evidence += [_fate(worker) for worker in crew["workers"] if not _is_sound(worker)][:_NAMED_MAX]
    evidence += [
        f"{clean(each['name'], _NAME_MAX)} {clean(each['why'])}: {count(each['requests'])} "
        "requests that are in Locust's figures only"
        for each in crew["strangers"][:_NAMED_MAX]
    ]
    if crew["load_missing"]:
        evidence.append(f"{percent(crew['load_missing'])} of the load was not made")
    outcome = weight(verdict, Cause.GENERATOR, Cause.EVIDENCE)
    return check("G020", title, outcome, "; ".join(evidence), _remedy(crew))


def reset_notes(manifest: Manifest) -> list[str]:
    """What a reset of Locust's statistics left out."""
    reset = manifest.reset
    if reset is None:
        return []
    once = "" if reset["times"] == 1 else f" the last of {count(reset['times'])} times"
    late = (
        f" Locust's own figures hold {count(reset['counted_late'])} requests more, which workers "
        "reported after the reset."
        if reset["counted_late"]
        else ""
    )
    return [
        f"Locust's statistics were reset{once} while the run went on, and these figures with them: "
        f"{count(reset['left_out'])} requests before that are left out.{late}"
    ]


def _absent(crew: CrewFacts) -> int:
    """Requests that no figure holds: known ones and estimated ones."""
    return crew["missing_requests"] + crew["missing_estimate"]


def _is_sound(worker: WorkerFacts) -> bool:
    return worker["ended"] and not missing_of(worker)


def _lost(crew: CrewFacts) -> str:
    names = [clean(name, _NAME_MAX) for name in crew["lost"][:_NAMED_MAX]]
    more = len(crew["lost"]) - len(names)
    if more:
        names.append(f"{count(more)} more")
    what = "Worker" if len(crew["lost"]) == 1 else "Workers"
    return f"{what} {', '.join(names)} went missing"


def _unknown(crew: CrewFacts) -> str:
    known, estimate = crew["missing_requests"], crew["missing_estimate"]
    if not estimate:
        return f"{count(known)} requests of workers are unknown"
    if not known:
        return f"About {count(estimate)} requests of workers are unknown"
    return (
        f"{count(known)} requests that workers told of, and about {count(estimate)} after their "
        "last reports, are unknown"
    )


def _fate(worker: WorkerFacts) -> str:
    """What became of one worker, in words."""
    name = clean(worker["name"], _NAME_MAX)
    told = f"{name} told of {count(worker['requests'])} requests"
    if worker["source"] == "journal":
        found = f"{name} went missing; its journal has {count(worker['received'])} requests"
        missing = missing_of(worker)
        return f"{found}, {count(missing)} less than it told of" if missing else f"{found}, all"
    lasted = "" if worker["ended"] else f" and was last heard {_ago(worker)} after its last report"
    came = f"{count(missing_of(worker))} of them never came" if missing_of(worker) else "all came"
    about = f" (and about {count(worker['estimate'])} after that)" if worker["estimate"] else ""
    return f"{told}{lasted}; {came}{about}"


def _ago(worker: WorkerFacts) -> str:
    return f"{max(worker['heard_wall_ns'] - worker['reported_wall_ns'], 0) / 1e9:.1f} s"


def _remedy(crew: CrewFacts) -> str:
    parts = []
    elsewhere = [
        worker
        for worker in crew["workers"]
        if worker["source"] == "reports" and (missing_of(worker) or worker["estimate"])
    ]
    if elsewhere:
        brought = [worker for worker in elsewhere if not worker["shared"]]
        places = [
            f"{clean(each['host'], _NAME_MAX)}:{clean(each['journals'])}"
            for each in brought[:_NAMED_MAX]
        ]
        parts.append(
            f"bring the journal of {', '.join(places)} into the run's and run trilat correlate"
            if places
            else "run trilat correlate, which takes them from the worker's journal"
        )
    if crew["strangers"]:
        parts.append("import trilat.locust on every worker, of the master's version")
    if crew["lost"]:
        parts.append("see the worker's log and the kernel's (out of memory?) for why it ended")
    return "; ".join(parts)
