"""What reports show of how the load was made: the rate's label, the schedule, and the stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trilat.correlator.reading import items, mapping, number, whole
from trilat.correlator.report.figures import shares_of
from trilat.correlator.report.rows import Shares
from trilat.correlator.text import count, duration, milliseconds, percent, rate

__all__ = ["StageRow", "rate_label", "schedule_note", "stage_rows"]


@dataclass(frozen=True, slots=True)
class StageRow:
    """One stage of a run; times in milliseconds."""

    span: str
    users: str
    wanted: str
    reached: str
    rate: str
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    corrected_p99_ms: float | None
    missed: int
    shares: Shares | None
    saturated: bool


def rate_label(result: Mapping[str, Any]) -> str:
    """What rate the run was to make: ``of 100/s wanted``, or ``(50 users, no rate)``."""
    run = mapping(result, "run")
    target = number(run.get("target_rate_per_s"))
    if target is not None:
        return f"of {rate(target)}/s wanted"
    users = whole(run.get("users"))
    return f"({count(users)} user{'' if users == 1 else 's'}, no rate)" if users else "(no rate)"


def schedule_note(result: Mapping[str, Any]) -> str:
    """Percentiles beside those from intended starts; empty where no user has a schedule."""
    total = mapping(result, "total")
    schedule = mapping(total, "schedule")
    corrected = mapping(total, "corrected_ms")
    if number(corrected.get("p95")) is None:
        return ""
    response = mapping(total, "response_time_ms")
    pairs = (
        f"{name} {milliseconds(number(corrected.get(name)))} "
        f"({milliseconds(number(response.get(name)))})"
        for name in ("p50", "p95", "p99")
    )
    told = f"from intended starts (as Locust counts): {', '.join(pairs)}"
    missed, scheduled = whole(schedule.get("missed")), whole(schedule.get("scheduled"))
    if missed:
        told += f"; {count(missed)} tasks ({percent(missed / (missed + scheduled))}) never started"
    return told


def stage_rows(result: Mapping[str, Any]) -> list[StageRow]:
    """The stages of a run that has more than one; else none."""
    stages = [each for each in items(result, "stages") if isinstance(each, Mapping)]
    return [_row(each) for each in stages] if len(stages) > 1 else []


def _row(stage: Mapping[str, Any]) -> StageRow:
    response, corrected = mapping(stage, "response_time_ms"), mapping(stage, "corrected_ms")
    begin, end = number(stage.get("from_s")), number(stage.get("to_s"))
    users, before = whole(stage.get("users")), whole(stage.get("users_from"))
    target = number(stage.get("target_rate_per_s"))
    reached = number(stage.get("reached_rate_per_s"))
    return StageRow(
        span=f"{duration(begin)} to {duration(end)}",
        users=f"{count(before)} to {count(users)}" if stage.get("ramp") is True else count(users),
        wanted="no rate" if target is None else f"{rate(target)}/s",
        reached="" if reached is None else f"{rate(reached)}/s",
        rate=f"{rate(number(stage.get('rate_per_s')))}/s",
        p50_ms=number(response.get("p50")),
        p95_ms=number(response.get("p95")),
        p99_ms=number(response.get("p99")),
        corrected_p99_ms=number(corrected.get("p99")),
        missed=whole(stage.get("missed")),
        shares=shares_of(mapping(stage, "shares")),
        saturated=stage.get("saturated") is True,
    )
