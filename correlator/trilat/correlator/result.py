"""``result.json``: a run's figures and verdict in one object, in milliseconds and fractions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilat.agent.records import COMPONENTS
from trilat.correlator.judge.cause import shares
from trilat.correlator.judge.checks import run_checks
from trilat.correlator.judge.rate import measured_s, per_second
from trilat.correlator.judge.stage_section import stages_section
from trilat.correlator.judge.stages import stages_of
from trilat.correlator.judge.verdict import judge
from trilat.correlator.samples.sampled_sections import generator_section, service_section
from trilat.correlator.samples.told import told_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilat.correlator.judge.judgement import Judgement
    from trilat.correlator.judge.objective import Objective
    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.samples.sampled import Sampled
    from trilat.correlator.sketches.book import SketchBook
    from trilat.correlator.sketches.sketch import Sketch

__all__ = ["MAKEUP_PERCENTILES", "RESULT_SCHEMA", "build_result"]

RESULT_SCHEMA = "trilat.result/1"
"""Name and version of the format."""

MAKEUP_PERCENTILES: tuple[float, ...] = (
    1.0,
    *(float(percentile) for percentile in range(5, 95, 5)),
    *(95.0, 96.0, 97.0, 98.0, 99.0, 99.5, 99.9),
)
"""Where an entry says what the response time is made of; closer together towards the tail."""

_MS = 1e6
_SUMMARY = ("mean", "p50", "p90", "p95", "p99", "max")
_SHARES: dict[str, float | None] = {"mean": None, "p50": 0.5, "p95": 0.95, "p99": 0.99}
_SIDES = {
    "response_time_ms": "response",
    "service_ms": "service",
    "network_ms": "network",
    "generator_ms": "generator",
    "without_generator_ms": "without_generator",
    "corrected_ms": "corrected",
}


def build_result(
    manifest: Manifest,
    book: SketchBook,
    objectives: Sequence[Objective],
    sampled: Sampled | None = None,
) -> dict[str, Any]:
    """The result of a run, valid against the package's ``schema/result-1.json``.

    Args:
        manifest: the run's facts.
        book: its attributed histograms.
        objectives: what it is judged by.
        sampled: what both sides sampled of themselves; None where nobody looked.
    """
    total = book.total()
    seconds = measured_s(manifest, total)
    told = told_of(sampled)
    stages = stages_of(manifest, book)
    verdict = judge(book, objectives, manifest, told.generator)
    endpoints = sorted(book.endpoints.items(), key=lambda item: (-item[1].requests, item[0][::-1]))
    return {
        "schema": RESULT_SCHEMA,
        "verdict": {
            "outcome": verdict.outcome.value,
            "cause": verdict.cause.value if verdict.cause is not None else None,
            "exit_code": int(verdict.exit_code),
            "reasons": list(verdict.reasons),
            "warnings": list(verdict.warnings),
            "notes": list(verdict.notes),
        },
        "objectives": [_objective(each) for each in verdict.judgements],
        "run": manifest.to_json(),
        "total": _entry("", "Aggregated", total, seconds),
        "endpoints": [_entry(method, name, each, seconds) for (method, name), each in endpoints],
        "checks": [dict(each) for each in run_checks(manifest, total, verdict, told, stages)],
        "service": None if sampled is None else service_section(sampled, told.service),
        "generator": None if sampled is None else generator_section(sampled, told.generator),
        "stages": stages_section(stages),
    }


def _objective(judgement: Judgement) -> dict[str, Any]:
    objective = judgement.objective

    def shown(value: float | None) -> float | None:
        return None if value is None else round(objective.in_unit(value), 3)

    return {
        "text": objective.text,
        "value": shown(judgement.value),
        "unit": objective.unit,
        "holds": judgement.holds,
        "value_without_generator": shown(judgement.value_without_generator),
    }


def _entry(method: str, name: str, sketch: Sketch, seconds: float | None) -> dict[str, Any]:
    per_s = per_second(sketch.requests, seconds)
    known = sketch.requests > 0
    made_of = sketch.makeup(None)
    whole = float(made_of.sum())

    def share(part: int) -> float | None:
        return round(float(made_of[part]) / whole, 4) if whole > 0 else None

    return {
        "method": method,
        "name": name,
        "requests": sketch.requests,
        "failures": sketch.failures,
        "matched": sketch.matched,
        "rate_per_s": None if per_s is None else round(per_s, 3),
        **{key: _summary(sketch, variable, _SUMMARY) for key, variable in _SIDES.items()},
        "shares": {key: _shares(sketch, quantile) for key, quantile in _SHARES.items()},
        "components_ms": {
            component.label: {
                **(summary := _summary(sketch, component.label, ("mean", "p50", "p95"))),
                "share": share(component),
                "grade": (None if summary["mean"] is None else sketch.grades[component].label),
            }
            for component in COMPONENTS
        },
        "unattributed_share": share(len(COMPONENTS)),
        "schedule": _schedule(sketch),
        "loop_blocked_ms": _blocked(sketch),
        "makeup": [_makeup(sketch, q) for q in MAKEUP_PERCENTILES] if known else [],
    }


def _summary(sketch: Sketch, variable: str, names: Sequence[str]) -> dict[str, float | None]:
    """Mean, percentiles and largest value of a variable; null where no request counts."""
    histogram = sketch.histogram(variable)
    if not histogram.count or (variable == "corrected" and not sketch.scheduled):
        return dict.fromkeys(names)
    values = {
        name: histogram.quantile_ns(float(name[1:]) / 100) for name in names if name[0] == "p"
    }
    values |= {"mean": histogram.mean_ns, "max": histogram.max_ns}
    return {name: _ms(values[name]) for name in names}


def _schedule(sketch: Sketch) -> dict[str, Any]:
    """Tasks with an intended start, how late they began, and those that were never started."""
    lateness = _ms(sketch.lateness_ns) if sketch.scheduled else None
    return {
        "scheduled": sketch.scheduled,
        "missed": sketch.missed,
        "mean_lateness_ms": lateness,
    }


def _blocked(sketch: Sketch) -> dict[str, Any]:
    """For how long the service's loop was blocked in ``service.app``; null where nothing tells."""
    blocked = sketch.blocked
    if not blocked.known:
        return {"known": 0} | dict.fromkeys(("touched_share", "mean", "around_p95", "max"))
    return {
        "known": blocked.known,
        "touched_share": round(blocked.requests / blocked.known, 4),
        "mean": _ms(blocked.mean_ns),
        "around_p95": _ms(sketch.blocked_around_ns(0.95)),
        "max": _ms(blocked.max_ns),
    }


def _shares(sketch: Sketch, quantile: float | None) -> dict[str, float | None]:
    parts = shares(sketch, quantile)
    known = sum(parts.values()) > 0
    return {side.value: round(part, 4) if known else None for side, part in parts.items()}


def _makeup(sketch: Sketch, percentile: float) -> dict[str, Any]:
    made_of = sketch.makeup(percentile / 100)
    return {
        "q": percentile,
        "response_ms": _ms(made_of.sum()),
        "components_ms": {each.label: _ms(made_of[each]) for each in COMPONENTS},
        "unattributed_ms": _ms(made_of[len(COMPONENTS)]),
    }


def _ms(value_ns: float) -> float:
    return round(float(value_ns) / _MS, 3)
