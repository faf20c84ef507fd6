"""What a reader has to know beside a verdict: warnings, and how the load was made."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from trilat.agent.records import Side
from trilat.correlator.text import clean, count, percent

from .absent import absence_cautions, reset_notes
from .cause import GENERATOR_SHARE_MAX, Cause, shares
from .omission import omission_cautions
from .rate import measured_s
from .remedy import generator_remedies, in_step

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .cause import Finding
    from .judgement import Judgement, Run

__all__ = ["both_slow", "cautions", "cut_off_after", "notes"]

_PLANNED_MIN = 0.9
"""A run of less than this part of the time asked for was stopped."""


def cautions(run: Run, findings: Sequence[Finding], judgements: Iterable[Judgement]) -> list[str]:
    """The warnings of a run, the gravest first.

    Args:
        run: the run.
        findings: what keeps it from passing, the one that decided first.
        judgements: its objectives.
    """
    warnings = [*_stopped(run), *_spawning(run), *absence_cautions(run.manifest, findings)]
    if not findings:
        warnings += _generator_share(run)
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
    judgements = list(judgements)
    warnings += omission_cautions(run, judgements)
    warnings += _few_requests(run, judgements)
    return warnings


def notes(run: Run) -> list[str]:
    """How the load was made, where a figure must not be read without it; no fault of the run."""
    manifest = run.manifest
    told = reset_notes(manifest)
    if manifest.target_rate_per_s is not None or not manifest.users:
        return told
    users = "1 user" if manifest.users == 1 else f"{count(manifest.users)} users"
    return [
        *told,
        f"{users}, no rate: each waits for its answer, so a slower service gets fewer requests. "
        "For a rate that is held use constant_throughput, or name it with --trilat-target-rate.",
    ]


def cut_off_after(run: Run) -> str | None:
    """Seconds after which a run was cut off (``4.6 s``); None where it ended by itself."""
    if not run.manifest.cut_off:
        return None
    seconds = measured_s(run.manifest, run.total)
    return "an unknown time" if seconds is None else _seconds(seconds)


def both_slow(run: Run, findings: Sequence[Finding]) -> str | None:
    """The sentence for a service that failed under a generator that was slow as well."""
    if not findings or findings[0].cause is not Cause.SERVICE:
        return None
    of_mean, of_p95 = _shares_of_generator(run)
    if max(of_mean, of_p95) <= GENERATOR_SHARE_MAX:
        return None
    return (
        f"Both were slow: the generator made {percent(of_mean)} of the mean response time and "
        f"{percent(of_p95)} of p95; the service decided, since a perfect generator would not have "
        "changed the outcome."
    )


def _shares_of_generator(run: Run) -> tuple[float, float]:
    return shares(run.total, None)[Side.GENERATOR], shares(run.total, 0.95)[Side.GENERATOR]


def _seconds(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0") + " s"


def _stopped(run: Run) -> list[str]:
    """A run that lasted less than was asked for, or that never came to its end."""
    planned = run.manifest.planned_s
    lasted = measured_s(run.manifest, run.total)
    if planned and lasted is not None and lasted < _PLANNED_MIN * planned:
        return [
            f"The run stopped after {_seconds(lasted)} of {_seconds(planned)}: its figures are "
            "those of a part of it."
        ]
    after = cut_off_after(run)
    return [f"The run was cut off after {after}."] if after else []


def _spawning(run: Run) -> list[str]:
    """A run that never had all its users."""
    users, wanted = run.manifest.users, run.manifest.users_wanted
    if wanted is None or not 0 < users < wanted:
        return []
    return [
        f"The run ended while users were still being spawned: {count(users)} of {count(wanted)} "
        "users. To do: raise --spawn-rate, or let the run last longer."
    ]


def _generator_share(run: Run) -> list[str]:
    """The generator's share of a run that passes all the same."""
    of_mean, of_p95 = _shares_of_generator(run)
    if max(of_mean, of_p95) <= GENERATOR_SHARE_MAX:
        return []
    remedies = generator_remedies(run.manifest, run.total, run.generator)
    return [
        f"The generator made {percent(of_mean)} of the mean response time and {percent(of_p95)} of "
        f"p95: the service is faster than the response times say. To do: {remedies}."
    ]


def _few_requests(run: Run, judgements: Iterable[Judgement]) -> list[str]:
    """Percentiles beyond what so few requests can tell: they are the largest value by name only.

    A percentile q has requests above it from 1 / (1 - q) of them on.
    """
    warnings = []
    for judged in judgements:
        objective = judged.objective
        sketch = run.requests_of(objective)
        if objective.quantile is None or sketch is None or judged.value is None:
            continue
        number = sketch.histogram(objective.variable).count
        needed = ceil(round(1 / (1 - objective.quantile), 6))
        if number < needed:
            warnings.append(
                f"{clean(objective.text)} rests on {count(number)} requests: "
                f"{objective.metric} needs at least {count(needed)}, with fewer it is the largest "
                "value."
            )
    return warnings
