"""One objective, judged: what it came to, whether it holds, and whose doing it is if not."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilat.correlator.sketches.sketch import Sketch
from trilat.correlator.text import clean, count, percent, rate

from .cause import (
    COVERAGE_MIN,
    LIMIT,
    Cause,
    Finding,
    Statistic,
    assign,
    coverage,
    ms,
    without_evidence,
)
from .overrun import overrun
from .rate import measured_s, per_second, room_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.samples.generator import GeneratorFigures
    from trilat.correlator.sketches.book import SketchBook

    from .objective import Objective

__all__ = ["Judgement", "Run", "assess", "too_slow_for"]

_SIDE_CAUSES = {
    "service": Cause.SERVICE,
    "network": Cause.NETWORK,
    "generator": Cause.GENERATOR,
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of one objective.

    Attributes:
        objective: the objective.
        value: what its metric came to, in the unit of its bound; None where nothing is known.
        holds: whether it holds; None where that cannot be said.
        value_without_generator: the same without the generator's delay; only for the metrics of
            the response time itself.
        finding: why it does not hold, or why that cannot be said.
    """

    objective: Objective
    value: float | None
    holds: bool | None
    value_without_generator: float | None
    finding: Finding | None


@dataclass(frozen=True, slots=True)
class Run:
    """What objectives are judged on: sketches by endpoint, all of them together, the manifest.

    What the generator told of itself changes no judgement, but what is said to do.
    """

    book: SketchBook
    total: Sketch
    manifest: Manifest
    generator: GeneratorFigures | None = None

    def requests_of(self, objective: Objective) -> Sketch | None:
        """The requests that an objective is about; None where no endpoint is called so."""
        if objective.endpoint is None:
            return self.total
        keys = objective.keys(self.book.endpoints)
        if len(keys) == 1:
            return self.book.endpoints[keys[0]]
        merged = Sketch()
        for key in keys:
            merged.merge(self.book.endpoints[key])
        return merged if keys else None

    def closest_to(self, name: str) -> list[str]:
        """Endpoints whose names are nearest to one that does not exist."""
        known: dict[str, str] = {}
        for method, endpoint in self.book.endpoints:
            known[endpoint] = known[f"{method} {endpoint}"] = f"{method} {endpoint}"
        close = difflib.get_close_matches(name, known, n=4, cutoff=0.4)
        return list(dict.fromkeys(known[each] for each in close))[:3]


def assess(objective: Objective, run: Run) -> Judgement:
    """Judge one objective."""
    sketch = run.requests_of(objective)
    if sketch is None:
        return _unknown_endpoint(objective, run)
    per_s = per_second(sketch.requests, measured_s(run.manifest, run.total))
    value = objective.value_of(sketch, per_s)
    without = None
    if objective.kind == "time" and objective.variable == "response":
        without = objective.value_of(sketch, per_s, "without_generator")
    holds = None if value is None else objective.holds(value)
    if value is None:
        finding: Finding | None = Finding(
            Cause.EVIDENCE,
            f"{clean(objective.text)} cannot be judged: "
            + (without_evidence(sketch) if objective.kind == "time" else "no time passed"),
        )
    elif objective.kind == "fail_ratio":
        finding = None if holds else _too_many_failures(objective, sketch, value)
    elif objective.kind == "rate":
        finding = None if holds else _rate_missed(objective, sketch, value, run)
    elif holds:
        finding = _unproven(objective, sketch)
        holds = None if finding else True
    else:
        finding = _time_missed(objective, sketch, value)
        # Where a side's own figure is not known for enough requests, neither is the miss.
        own = objective.variable in _SIDE_CAUSES
        holds = None if own and finding.cause is Cause.EVIDENCE else False
    return Judgement(objective, value, holds, without, finding)


_LOST = "the load generator was the limit, it lost the rest between the requests"
_THINKING = (
    "the users' own wait_time took the rest, so this rate needs more users or a shorter wait_time"
)


def too_slow_for(
    room: float | None, total: Sketch, lead: str, *, thinking: bool = False
) -> Finding:
    """Who is answerable for a rate that was not reached.

    Args:
        room: nanoseconds that a user had for one request (see `trilat.correlator.judge.rate`).
        total: all requests of the run.
        lead: start of the sentence: what was reached of what.
        thinking: users wait between their requests as they like, without a schedule.
    """
    mean = Statistic(None)
    took = mean.of(total, "response")
    if room is None or took is None:
        return Finding(
            Cause.EVIDENCE, f"{lead}; with the number of users unknown nobody can be named for it"
        )
    if (late := overrun(room, total, lead)) is not None:
        return late
    if took <= room:
        return Finding(
            Cause.GENERATOR,
            f"{lead}; each user had {ms(room, took)} for a request, and one took {ms(took, room)} "
            f"on average: {_THINKING if thinking else _LOST}",
        )
    cause, rest = assign(total, mean, lambda value: value <= room, blame=LIMIT)
    return Finding(
        cause,
        f"{lead}; each user had {ms(room, took)} for a request, and one took {ms(took, room)} on "
        f"average; {rest}",
    )


def _subject(objective: Objective) -> str:
    """The metric as a sentence names it: ``p95 of GET /items``."""
    of = f" of {clean(objective.endpoint, 120)}" if objective.endpoint else ""
    return f"{objective.metric}{of}"


def _unknown_endpoint(objective: Objective, run: Run) -> Judgement:
    name = objective.endpoint or ""
    close = run.closest_to(name)
    hint = f"; closest: {', '.join(clean(each, 120) for each in close)}" if close else ""
    reason = f"{clean(objective.text)}: no endpoint of this run has that name{hint}"
    return Judgement(objective, None, None, None, Finding(Cause.EVIDENCE, reason))


def _too_many_failures(objective: Objective, sketch: Sketch, value: float) -> Finding:
    return Finding(
        Cause.ERRORS,
        f"{_subject(objective)} was {value * 100:.3g} % against {objective.bound * 100:.3g} %: "
        f"{count(sketch.failures)} of {count(sketch.requests)} requests failed",
    )


def _rate_missed(objective: Objective, sketch: Sketch, value: float, run: Run) -> Finding:
    lead = f"{_subject(objective)} was {rate(value)}/s against {rate(objective.bound)}/s"
    if objective.operator in ("<", "<="):
        return Finding(Cause.GENERATOR, f"{lead}: the generator made more requests than allowed")
    # For the rate of one endpoint, all of them have to go faster by as much.
    wanted_per_s = objective.bound * run.total.requests / max(sketch.requests, 1)
    room = room_ns(run.manifest, run.total, wanted_per_s)
    return too_slow_for(room, run.total, lead, thinking=run.manifest.thinking)


def _unproven(objective: Objective, sketch: Sketch) -> Finding | None:
    """An objective on one side's time holds only if that time is known for enough requests."""
    if objective.variable in ("service", "network"):
        if coverage(sketch) >= COVERAGE_MIN:
            return None
        return Finding(
            Cause.EVIDENCE,
            f"{_subject(objective)} holds only where it is known: {without_evidence(sketch)}",
        )
    if objective.variable == "generator":
        marked = sketch.histogram("generator").count / sketch.requests
        if marked >= COVERAGE_MIN:
            return None
        return Finding(
            Cause.EVIDENCE,
            f"{_subject(objective)} holds only where it is known: {percent(1 - marked)} of the "
            "requests came from clients that trilat does not see",
        )
    return None


def _time_missed(objective: Objective, sketch: Sketch, value: float) -> Finding:
    bound = objective.bound
    lead = f"{_subject(objective)} was {ms(value, bound)} against {ms(bound, value)}"
    if objective.operator in (">", ">="):  # too fast: no delay of anybody explains that
        cause = _SIDE_CAUSES.get(objective.variable, Cause.SERVICE)
        return Finding(cause, f"{lead}, less than was asked for")
    statistic = Statistic(1.0 if objective.metric.endswith("max") else objective.quantile)
    if objective.variable in ("response", "without_generator"):
        cause, rest = assign(sketch, statistic, objective.holds, objective.variable)
        return Finding(cause, f"{lead}; {rest}")
    return _side_missed(objective, sketch, statistic, objective.holds, lead)


def _side_missed(
    objective: Objective,
    sketch: Sketch,
    statistic: Statistic,
    fits: Callable[[float], bool],
    lead: str,
) -> Finding:
    """An objective on one side's own time names that side, if enough of it is known."""
    side = objective.variable
    covered = sketch.histogram(side).count / max(sketch.requests, 1)
    if covered < COVERAGE_MIN and fits(statistic.at_least(sketch, side)):
        return Finding(
            Cause.EVIDENCE,
            f"{lead}, but it is known for {percent(covered)} of the requests only",
        )
    return Finding(_SIDE_CAUSES[side], f"{lead}: this is the {side}'s own time")
