"""The verdict on a run: pass, fail or invalid, with the reasons in sentences.

``docs/verdict.md`` tells the order of the decision and why it is so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

from trilat.correlator.text import clean, count, percent, rate

from .absent import absence_findings
from .cause import COVERAGE_MIN, Cause, Finding, coverage, without_evidence
from .caution import both_slow, cautions, cut_off_after, notes
from .judgement import Judgement, Run, assess, too_slow_for
from .rate import pace_of, room_ns
from .remedy import UNANSWERED_REMEDY, coverage_remedy, error_texts, unanswered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.samples.generator import GeneratorFigures
    from trilat.correlator.sketches.book import SketchBook

    from .objective import Objective

__all__ = ["ExitCode", "Outcome", "Verdict", "judge"]


class Outcome(StrEnum):
    """What a verdict comes to."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    INVALID = "invalid"


class ExitCode(IntEnum):
    """The exit codes of a judged run; 2 is for wrong usage and unreadable input."""

    PASS = 0
    FAIL = 1
    GENERATOR = 3
    NETWORK = 4
    EVIDENCE = 5


_EXITS = {
    Cause.ERRORS: (Outcome.FAIL, ExitCode.FAIL),
    Cause.SERVICE: (Outcome.FAIL, ExitCode.FAIL),
    Cause.GENERATOR: (Outcome.INVALID, ExitCode.GENERATOR),
    Cause.NETWORK: (Outcome.INVALID, ExitCode.NETWORK),
    Cause.EVIDENCE: (Outcome.INVALID, ExitCode.EVIDENCE),
}
_ORDER = tuple(Cause)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run comes to.

    Attributes:
        outcome: pass, fail or invalid.
        cause: who or what is answerable for it; None for a pass.
        exit_code: what a command ends with.
        reasons: sentences, the one that decided first.
        warnings: sentences that do not change the outcome and have to be known.
        notes: sentences on how the load was made; no fault of the run.
        judgements: the objectives, each with its own figures, in the order given.
    """

    outcome: Outcome
    cause: Cause | None
    exit_code: ExitCode
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    judgements: tuple[Judgement, ...]


def judge(
    book: SketchBook,
    objectives: Sequence[Objective],
    manifest: Manifest,
    generator: GeneratorFigures | None = None,
) -> Verdict:
    """Judge a run.

    All findings are gathered first. The gravest cause decides: `Cause` lists them in that order.
    What the generator told of itself decides nothing; it says what is to be done.
    """
    run = Run(book, book.total(), manifest, generator)
    if not run.total.requests:
        reason = "No request was made, or none was counted: there is nothing to judge"
        findings = [Finding(Cause.EVIDENCE, reason)]
        judgements = tuple(Judgement(each, None, None, None, None) for each in objectives)
        return _verdict(run, findings, judgements)
    judgements = tuple(assess(each, run) for each in objectives)
    missed = [each.finding for each in judgements if each.finding is not None]
    findings = missed + _failures(objectives, run)
    findings += _pace(run, beside=bool(missed))
    findings += _coverage(run, told=any(each.cause is Cause.ERRORS for each in findings))
    findings += absence_findings(manifest, run.total)
    after = cut_off_after(run)
    if not findings and after is not None:
        hold = "what there is of it holds the objectives" if objectives else "it has no objective"
        findings = [Finding(Cause.EVIDENCE, f"The run was cut off after {after}; {hold}")]
    findings.sort(key=lambda finding: _ORDER.index(finding.cause))
    return _verdict(run, findings, judgements)


def _verdict(run: Run, findings: Sequence[Finding], judgements: tuple[Judgement, ...]) -> Verdict:
    reasons = [f"{finding.reason}." for finding in findings] or _passed(judgements, run)
    if (both := both_slow(run, findings)) is not None:
        reasons.insert(1, both)
    cause = findings[0].cause if findings else None
    outcome, code = _EXITS[cause] if cause is not None else (Outcome.PASS, ExitCode.PASS)
    return Verdict(
        outcome=outcome,
        cause=cause,
        exit_code=code,
        reasons=tuple(reasons),
        warnings=tuple(cautions(run, findings, judgements)),
        notes=tuple(notes(run)),
        judgements=judgements,
    )


def _failures(objectives: Sequence[Objective], run: Run) -> list[Finding]:
    """Failures that nothing allows: no objective on them, and not the run's own options."""
    ruling = [each for each in objectives if each.kind == "fail_ratio"]
    if run.manifest.fails_allowed or any(each.endpoint is None for each in ruling):
        return []
    ruled = {key for each in ruling for key in each.keys(run.book.endpoints)}
    failed = [
        (sketch.failures, " ".join(key))
        for key, sketch in run.book.endpoints.items()
        if sketch.failures and key not in ruled
    ]
    if not failed:
        return []
    failures = sum(number for number, _ in failed)
    most = max(failed)
    lead = f"{count(failures)} of {count(run.total.requests)} requests failed"
    texts = error_texts(run.manifest)
    lead += f": {texts}" if texts else ""
    if unanswered(run.manifest, run.total):
        return [Finding(Cause.ERRORS, f"{lead}; nothing was answered: {UNANSWERED_REMEDY}")]
    return [
        Finding(
            Cause.ERRORS,
            f"{lead}; none may (most at {clean(most[1], 120)}: {count(most[0])}), an objective "
            "such as fail_ratio<=1% allows some",
        )
    ]


def _pace(run: Run, *, beside: bool) -> list[Finding]:
    """The rate that the run was to make; `beside` an objective that is missed, it says so."""
    pace = pace_of(run.manifest, run.total)
    if pace is None or pace.reached:
        return []
    lead = (
        f"{'As to the rate: it' if beside else 'The rate'} was {rate(pace.reached_per_s)} "
        f"{pace.unit}/s of {rate(pace.target_per_s)} wanted ({percent(pace.ratio)})"
    )
    room = room_ns(run.manifest, run.total)
    return [too_slow_for(room, run.total, lead, thinking=run.manifest.thinking)]


def _coverage(run: Run, *, told: bool) -> list[Finding]:
    """A pass needs evidence for nearly all requests; `told` that they failed, is it enough."""
    if coverage(run.total) >= COVERAGE_MIN:
        return []
    if unanswered(run.manifest, run.total):
        if told:
            return []
        return [Finding(Cause.EVIDENCE, f"No request was answered: {UNANSWERED_REMEDY}")]
    return [
        Finding(
            Cause.EVIDENCE,
            f"{_capital(without_evidence(run.total))}; at least {percent(COVERAGE_MIN)} must have "
            f"it: {coverage_remedy(run.total)}",
        )
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _passed(judgements: Sequence[Judgement], run: Run) -> list[str]:
    """What a pass rests on."""
    number = len(judgements)
    holds = {0: "No objective was given", 1: "The objective holds"}
    parts = [holds.get(number, f"All {number} objectives hold")]
    pace = pace_of(run.manifest, run.total)
    if pace is not None:
        parts.append(
            f"the rate was reached ({rate(pace.reached_per_s)} of {rate(pace.target_per_s)} "
            f"{pace.unit}/s)"
        )
    parts.append(f"{percent(coverage(run.total))} of the requests have evidence from the service")
    return ["; ".join(parts) + "."]
