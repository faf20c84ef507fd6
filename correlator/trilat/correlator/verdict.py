"""The verdict on a run: pass, fail or invalid, with the reasons in sentences.

``docs/verdict.md`` tells the order of the decision and why it is so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

from trilat.agent.records import Side

from .cause import COVERAGE_MIN, Cause, Finding, coverage, shares, without_evidence
from .judgement import Judgement, Run, assess, too_slow_for
from .rate import pace_of, room_ns
from .remedy import generator_remedies, in_step
from .report.text import clean, count, percent, rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .book import SketchBook
    from .manifest import Manifest
    from .objective import Objective

__all__ = ["GENERATOR_SHARE_MAX", "ExitCode", "Outcome", "Verdict", "judge"]

GENERATOR_SHARE_MAX = 0.15
"""A larger part of the mean or of p95 made by the generator is worth a warning."""


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
        judgements: the objectives, each with its own figures, in the order given.
    """

    outcome: Outcome
    cause: Cause | None
    exit_code: ExitCode
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    judgements: tuple[Judgement, ...]


def judge(book: SketchBook, objectives: Sequence[Objective], manifest: Manifest) -> Verdict:
    """Judge a run.

    All findings are gathered first. The gravest cause decides: `Cause` lists them in that order.
    """
    run = Run(book, book.total(), manifest)
    if not run.total.requests:
        reason = "No request was made, or none was counted: there is nothing to judge"
        nothing = tuple(Judgement(each, None, None, None, None) for each in objectives)
        return _verdict([Finding(Cause.EVIDENCE, reason)], (), (), nothing)
    judgements = tuple(assess(each, run) for each in objectives)
    findings = [each.finding for each in judgements if each.finding is not None]
    findings += _failures(objectives, run)
    findings += _pace(run)
    findings += _coverage(run)
    findings.sort(key=lambda finding: _ORDER.index(finding.cause))
    return _verdict(findings, _passed(judgements, run), _warnings(run, findings), judgements)


def _verdict(
    findings: Sequence[Finding],
    passed: Sequence[str],
    warnings: Sequence[str],
    judgements: tuple[Judgement, ...],
) -> Verdict:
    if not findings:
        return Verdict(
            Outcome.PASS, None, ExitCode.PASS, tuple(passed), tuple(warnings), judgements
        )
    cause = findings[0].cause
    outcome, code = _EXITS[cause]
    reasons = tuple(f"{finding.reason}." for finding in findings)
    return Verdict(outcome, cause, code, reasons, tuple(warnings), judgements)


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
    return [
        Finding(
            Cause.ERRORS,
            f"{count(failures)} of {count(run.total.requests)} requests failed, and none may "
            f"(most at {clean(most[1], 120)}: {count(most[0])}); an objective such as "
            "fail_ratio<=1% allows some",
        )
    ]


def _pace(run: Run) -> list[Finding]:
    """The rate that the run was to make."""
    pace = pace_of(run.manifest, run.total)
    if pace is None or pace.reached:
        return []
    lead = (
        f"The rate was {rate(pace.reached_per_s)} {pace.unit}/s of {rate(pace.target_per_s)} "
        f"wanted ({percent(pace.ratio)})"
    )
    return [too_slow_for(room_ns(run.manifest, run.total), run.total, lead)]


def _coverage(run: Run) -> list[Finding]:
    """A pass needs evidence for nearly all requests."""
    if coverage(run.total) >= COVERAGE_MIN:
        return []
    return [
        Finding(
            Cause.EVIDENCE,
            f"{_capital(without_evidence(run.total))}; at least {percent(COVERAGE_MIN)} must have "
            "it: add TrilatMiddleware to the service, outermost, with the same token as the run",
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


def _warnings(run: Run, findings: Sequence[Finding]) -> list[str]:
    warnings = []
    if not findings:
        warnings += _share_warning(run)
    elif findings[0].cause is Cause.SERVICE and in_step(run.manifest, run.total):
        warnings.append(
            "The users fire in the same instant, so the service gets its requests in bursts, and "
            "part of its queue may come from that; spread the users (see check G004) and run again."
        )
    if run.total.failures and not any(each.cause is Cause.ERRORS for each in findings):
        warnings.append(
            f"{count(run.total.failures)} of {count(run.total.requests)} requests failed "
            f"({percent(run.total.failures / run.total.requests)}), which this run allows."
        )
    if run.manifest.target_rate_per_s is None:
        warnings.append(
            f"{count(run.manifest.users)} users, no rate: each waits for its answer, so a slower "
            "service gets fewer requests; for a rate that is held use constant_throughput or "
            "--trilat-target-rate."
        )
    return warnings


def _share_warning(run: Run) -> list[str]:
    """The generator's share of a run that passes all the same."""
    of_mean = shares(run.total, None)[Side.GENERATOR]
    of_p95 = shares(run.total, 0.95)[Side.GENERATOR]
    if max(of_mean, of_p95) <= GENERATOR_SHARE_MAX:
        return []
    remedies = generator_remedies(run.manifest, run.total)
    return [
        f"The generator made {percent(of_mean)} of the mean response time and {percent(of_p95)} of "
        f"p95: the service is faster than the response times say. To do: {remedies}."
    ]
