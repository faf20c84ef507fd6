"""Checks of how the load was made: the rate, the starts of the users' tasks, the stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.agent.records import COMPONENTS, Side
from trilat.correlator.text import count, percent, rate

from .cause import GENERATOR_SHARE_MAX, Cause, ms
from .checking import Check, CheckOutcome, check, weight
from .overrun import overrun
from .rate import pace_of, room_ns
from .remedy import generator_share, in_step, mostly_failed
from .stages import saturation_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.sketches.sketch import Sketch

    from .stages import Stage
    from .verdict import Verdict

__all__ = ["in_step_check", "rate_check", "stage_checks"]

_MISSED_MAX = 0.01  # of the tasks that were due


def rate_check(manifest: Manifest, total: Sketch, remedies: str) -> Check:
    """G003: whether the rate that was wanted was reached, and what a request had time for."""
    title = "Rate reached"
    pace = pace_of(manifest, total)
    if pace is None:
        return check("G003", title, "skipped", "no rate was wanted of this run")
    evidence = (
        f"{rate(pace.reached_per_s)} of {rate(pace.target_per_s)} {pace.unit}/s "
        f"({percent(pace.ratio)})"
    )
    if pace.reached:
        return check("G003", title, "ok", evidence)
    room = room_ns(manifest, total)
    took = total.histogram("response").mean_ns
    if room is None:
        return check("G003", title, "fail", evidence, "let the manifest name the users of the run")
    evidence += f"; a user had {ms(room, took)} for each request, one took {ms(took, room)}"
    late = overrun(room, total, "")
    if late is not None and late.cause is not Cause.GENERATOR:
        remedy = (
            f"find out why some requests take longer than {ms(room)}; or let more users share the "
            "rate, each with a longer period, so that one that waits keeps fewer tasks from "
            "starting"
        )
    elif total.histogram("without_generator").mean_ns <= room:
        remedy = remedies
        if took <= room:
            remedy += "; let more users share the rate, so that each has more time"
    else:
        remedy = (
            "find out why the service is slow at this rate; where its time is as it should be, "
            "the rate needs more users"
        )
    return check("G003", title, "fail", evidence, remedy)


def in_step_check(manifest: Manifest, total: Sketch, verdict: Verdict, remedies: str) -> Check:
    """G004: whether users fire in the same instant, and wait for each other."""
    title = "Users in step"
    cpu, bunching = manifest.generator_cpu_percent, total.bunching
    if mostly_failed(total):
        return check("G004", title, "skipped", "most requests failed")
    index = None if bunching is None else bunching.index
    if bunching is None or index is None or cpu is None:
        return check("G004", title, "skipped", "no task was seen to start, or CPU time is unknown")
    evidence = (
        f"in the same 10 ms as a task {_others(index)} more start than with independent users "
        f"(index of dispersion {_figure(index)}, {count(bunching.starts)} starts)"
    )
    evidence += (
        f"; the generator made {percent(generator_share(total))} of the mean response time, at "
        f"{percent(cpu['mean'] / 100)} of one processor"
    )
    outcome = weight(verdict, Cause.GENERATOR) if in_step(manifest, total) else "ok"
    return check("G004", title, outcome, evidence, remedies)


def _others(index: float) -> str:
    others = max(index - 1, 0.0)
    return "no" if others < 0.05 else _figure(others)


def _figure(value: float) -> str:
    return f"{value:,.1f}"


def stage_checks(total: Sketch, stages: Sequence[Stage]) -> list[Check]:
    """L001 and L002: starts against the schedule, and the point of saturation."""
    return [_starts(total), _saturation(stages)]


def _starts(total: Sketch) -> Check:
    title = "Starts on schedule"
    if not total.scheduled:
        return check("L001", title, "skipped", "no user has a schedule")
    missed, due = total.missed, total.scheduled + total.missed
    evidence = (
        f"{count(total.scheduled)} tasks had an intended start and began {ms(total.lateness_ns)} "
        "after it on average; "
    )
    if not missed:
        return check("L001", title, "ok", f"{evidence}none was missed")
    evidence += (
        f"{count(missed)} more ({percent(missed / due)} of those due) were never started, since "
        f"their user was still busy: p99 counted from intended starts is "
        f"{ms(total.histogram('corrected').quantile_ns(0.99))}, as Locust counts "
        f"{ms(total.histogram('response').quantile_ns(0.99))}"
    )
    outcome: CheckOutcome = "warn" if missed > _MISSED_MAX * due else "ok"
    remedy = (
        "read the percentiles from intended starts; let more users share the rate, each with a "
        "longer period, so that one that waits keeps fewer tasks from starting"
    )
    return check("L001", title, outcome, evidence, remedy)


def _saturation(stages: Sequence[Stage]) -> Check:
    title = "Saturation"
    if len({stage.users for stage in stages if stage.requests.requests}) < 2:
        return check("L002", title, "skipped", "the run has one stage")
    found = saturation_of(stages)
    if found is None:
        return check("L002", title, "ok", "the load followed the users in all stages")
    before, point = found.before, found.point
    users, fewer = round(point.mean_users), round(before.mean_users)
    if found.by_rate:
        evidence = (
            f"the rate followed the users up to {count(fewer)} ({rate(before.rate_per_s)}/s), and "
            f"no longer with {count(users)} ({rate(point.rate_per_s)}/s)"
        )
    else:
        evidence = (
            f"p95 from intended starts took off at {count(users)} users "
            f"({rate(point.rate_per_s)}/s)"
        )
    evidence += f": p95 went from {ms(before.corrected_p95_ns)} to {ms(point.corrected_p95_ns)}"
    share = _generator_share(point)
    evidence += f"; the generator made {percent(share)} of the response time there"
    remedy = (
        "give the generator more processes before you take this for the service's limit"
        if share > GENERATOR_SHARE_MAX
        else "take this for the most that the service does with such users"
    )
    return check("L002", title, "warn", evidence, remedy)


def _generator_share(stage: Stage) -> float:
    parts = stage.requests.parts_ns
    whole = int(parts.sum())
    own = sum(int(parts[each]) for each in COMPONENTS if each.side is Side.GENERATOR)
    return own / whole if whole else 0.0
