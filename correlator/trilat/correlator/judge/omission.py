"""Objectives that hold only because requests were left out: coordinated omission."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.correlator.text import clean, count, milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .judgement import Judgement, Run

__all__ = ["omission_cautions"]


def omission_cautions(run: Run, judgements: Iterable[Judgement]) -> list[str]:
    """A warning for each objective that holds as Locust counts, and not from intended starts.

    Args:
        run: the run.
        judgements: its objectives.
    """
    warnings = []
    for judged in judgements:
        objective = judged.objective
        sketch = run.requests_of(objective)
        if not judged.holds or objective.variable != "response" or sketch is None:
            continue
        corrected = objective.value_of(sketch, None, "corrected") if sketch.scheduled else None
        if corrected is None or objective.holds(corrected):
            continue
        warnings.append(
            f"{clean(objective.text)} holds as Locust counts, but counted from when requests were "
            f"meant to start {objective.metric} was {milliseconds(corrected / 1e6)} ms: "
            f"{count(sketch.missed)} tasks were due while their user still waited, and were never "
            "started (see check L001)."
        )
    return warnings
