"""What all scenarios together say: the goals, the rules beside trilat, and where trilat is off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .rules import RULES
from .table import side_of

__all__ = [
    "Finding",
    "Goal",
    "Outcome",
    "confusion",
    "findings",
    "goals",
    "rule_counts",
    "unexplained",
]

Outcome: TypeAlias = Mapping[str, Any]
"""What `benchmarks.lab.experiment.Experiment.make` gives."""

GENERATOR_MS, QUEUE_MS = 0.3, 1.0
TAIL_PART = 0.05
SHARE_POINTS = 2.0
BOUNDS_PART = 0.99
DOMINANT_PART = 0.98
_GENERATOR = ("generator.send", "generator.end")
_ENOUGH = 100  # requests, for a p99 that is more than the largest one


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal figure and what was reached.

    Attributes:
        what: the figure.
        wanted: in words.
        reached: in words.
        holds: whether it does; None where nothing was measured.
    """

    what: str
    wanted: str
    reached: str
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Finding:
    """Where trilat is off in one scenario.

    Attributes:
        scenario: its name.
        what: what is off, by how much.
        cause: why, where it is known.
    """

    scenario: str
    what: str
    cause: str


def goals(outcomes: Sequence[Outcome]) -> list[Goal]:
    """The goals, in the order in which they were set."""
    right = [o["score"]["dominant"]["right"] for o in outcomes]
    right = [each for each in right if each is not None]
    points = [abs(p) for o in outcomes for p in o["score"]["share_points"].values()]
    bounded = sum(o["score"]["bounds"]["requests"] for o in outcomes)
    held = sum(o["score"]["bounds"]["hold"] for o in outcomes)
    mean = sum(points) / len(points) if points else 0.0
    return [
        Goal(
            "dominant cause named right",
            f"in {DOMINANT_PART:.0%} of scenarios or more",
            _of(sum(right), len(right)),
            sum(right) >= DOMINANT_PART * len(right) if right else None,
        ),
        Goal(
            "absolute error of a side's share of the mean, on average",
            f"{SHARE_POINTS:g} points or less",
            f"{mean:.2f} points; the largest {max(points, default=0.0):.1f}",
            mean <= SHARE_POINTS if points else None,
        ),
        _within(outcomes, _GENERATOR, GENERATOR_MS, "p50"),
        _within(outcomes, _GENERATOR, GENERATOR_MS, "p99"),
        _within(outcomes, ("service.queue",), QUEUE_MS, "p50"),
        _within(outcomes, ("service.queue",), QUEUE_MS, "p99"),
        Goal(
            "the interval of service.queue holds the truth",
            f"for {BOUNDS_PART:.0%} of requests or more",
            f"{held / bounded:.2%} of {bounded:,} requests" if bounded else "not measured",
            held >= BOUNDS_PART * bounded if bounded else None,
        ),
    ]


def _within(outcomes: Sequence[Outcome], parts: tuple[str, ...], limit: float, at: str) -> Goal:
    """How many scenarios have an error within a limit, and which is the largest."""
    errors = [
        (abs(error), part, o["name"], _is_within(o, part, at, limit))
        for o in outcomes
        for part in parts
        if (error := _error(o, part, at)) is not None
    ]
    wanted = f"within {limit:g} ms" if at == "p50" else f"within {TAIL_PART:.0%} or {limit:g} ms"
    what = f"{' and '.join(parts)} at {at}"
    if not errors:
        return Goal(what, wanted, "not measured", None)
    good = sum(each[3] for each in errors)
    error, part, name, _ = max(errors)
    reached = f"{_of(good, len(errors))}; the largest {error:.2f} ms ({part} in {name})"
    return Goal(what, wanted, reached, good == len(errors))


def _error(outcome: Outcome, part: str, at: str) -> float | None:
    known = outcome["score"]["parts"].get(part)
    enough = at != "p99" or outcome["score"]["joined"] >= _ENOUGH
    return None if known is None or not enough else float(known[at]["error"])


def _is_within(outcome: Outcome, part: str, at: str, limit: float) -> bool:
    figures = outcome["score"]["parts"][part][at]
    error = abs(figures["error"])
    tail = at == "p99" and error <= TAIL_PART * abs(figures["truth"])
    return bool(error <= limit or tail)


def findings(outcomes: Iterable[Outcome]) -> list[Finding]:
    """Every scenario in which trilat misses a goal, and why."""
    found = []
    for o in outcomes:
        off = list(_off(o))
        if off:
            cause = o["off"] or "not explained"
            found.append(Finding(o["name"], "; ".join(off), cause))
    return found


def unexplained(outcomes: Iterable[Outcome]) -> list[str]:
    """The scenarios in which trilat names the wrong cause, and no reason is known for that."""
    wrong = (o for o in outcomes if o["score"]["dominant"]["right"] is False)
    return [o["name"] for o in wrong if not o["off"]]


def _off(o: Outcome) -> Iterable[str]:
    scored = o["score"]
    if scored["dominant"]["right"] is False:
        yield f"names {scored['dominant']['trilat']} for {scored['dominant']['truth']}"
    for side, points in scored["share_points"].items():
        if abs(points) > SHARE_POINTS:
            yield f"share of {side} {points:+.1f} points"
    limits = [*((part, GENERATOR_MS) for part in _GENERATOR), ("service.queue", QUEUE_MS)]
    for part, limit in limits:
        for at in ("p50", "p99"):
            error = _error(o, part, at)
            if error is not None and not _is_within(o, part, at, limit):
                truth = scored["parts"][part][at]["truth"]
                yield f"{part} {error:+.2f} ms at {at}, of {truth:.2f}"
    bounds = scored["bounds"]
    if bounds["requests"] and bounds["hold"] < BOUNDS_PART * bounds["requests"]:
        yield f"interval of the queue holds for {bounds['hold'] / bounds['requests']:.1%}"


def confusion(outcomes: Iterable[Outcome]) -> Counter[tuple[str, str]]:
    """How often trilat names which part where which one dominates."""
    pairs: Counter[tuple[str, str]] = Counter()
    for o in outcomes:
        named = o["score"]["dominant"]
        if named["truth"] is not None:
            pairs[named["truth"], named["trilat"]] += 1
    return pairs


def rule_counts(outcomes: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """By rule: right, and wrong in either way.

    ``missed``: the generator made the number, and the rule does not say so; ``false_alarm``: it
    did not, and the rule says it did.
    """

    def count(rule: str, wanted: Callable[[bool, bool], bool]) -> int:
        rules = (o["rules"] for o in outcomes)
        known = [r for r in rules if r["truth"] is not None and r[rule] is not None]
        return sum(wanted(r["truth"], r[rule]) for r in known)

    return {
        rule: {
            "right": count(rule, lambda truth, said: truth == said),
            "missed": count(rule, lambda truth, said: truth and not said),
            "false_alarm": count(rule, lambda truth, said: said and not truth),
        }
        for rule in RULES
    }


def as_expected(outcome: Outcome) -> bool:
    """Whether what was injected is what dominates, by the truth."""
    truth = outcome["score"]["dominant"]["truth"]
    wanted = outcome["expects"]
    return truth is None or truth == wanted or side_of(truth) == wanted


def _of(good: int, count: int) -> str:
    return f"{good} of {count} ({good / count:.1%})" if count else "not measured"
