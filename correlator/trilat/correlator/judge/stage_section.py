"""The stages of a run as ``result.json`` holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilat.agent.records import COMPONENTS, Side

from .stages import saturation_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilat.correlator.sketches.histogram import Histogram

    from .stages import Stage

__all__ = ["stages_section"]

_MS = 1e6
_SUMMARY = ("p50", "p90", "p95", "p99")


def stages_section(stages: Sequence[Stage]) -> list[dict[str, Any]]:
    """One object for each stage, in their order."""
    found = saturation_of(stages)
    limit = None if found is None else found.point.mean_users
    return [_stage(each, None if limit is None else each.mean_users >= limit) for each in stages]


def _stage(stage: Stage, saturated: bool | None) -> dict[str, Any]:
    requests = stage.requests
    scheduled = requests.scheduled > 0
    return {
        "from_s": round(stage.from_s, 3),
        "to_s": round(stage.to_s, 3),
        "users_from": stage.users_from,
        "users": stage.users,
        "ramp": stage.ramp,
        "mean_users": round(stage.mean_users, 1),
        "target_rate_per_s": _rounded(stage.target_per_s),
        "reached_rate_per_s": _rounded(stage.reached_per_s),
        "requests": requests.requests,
        "failures": requests.failures,
        "missed": requests.missed,
        "rate_per_s": _rounded(stage.rate_per_s),
        "response_time_ms": _summary(requests.response),
        "corrected_ms": _summary(requests.corrected if scheduled else None),
        "shares": _shares(stage),
        "saturated": saturated,
    }


def _summary(histogram: Histogram | None) -> dict[str, float | None]:
    names = ("mean", *_SUMMARY, "max")
    if histogram is None or not histogram.count:
        return dict.fromkeys(names)
    values = {name: histogram.quantile_ns(float(name[1:]) / 100) for name in _SUMMARY}
    values |= {"mean": histogram.mean_ns, "max": histogram.max_ns}
    return {name: round(float(values[name]) / _MS, 3) for name in names}


def _shares(stage: Stage) -> dict[str, float | None]:
    """Whose the response times are, together."""
    parts = stage.requests.parts_ns
    whole = int(parts.sum())
    of_side = dict.fromkeys(Side, 0)
    for component in COMPONENTS:
        of_side[component.side] += int(parts[component])
    of_side[Side.UNATTRIBUTED] = int(parts[len(COMPONENTS)])
    return {side.value: round(part / whole, 4) if whole else None for side, part in of_side.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
