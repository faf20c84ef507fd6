"""Checks of what the service tells of itself: its event loop, its memory, its processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.correlator.samples.blocking import MOSTLY, blocked_part, blocking_remedy
from trilat.correlator.text import clean, count, duration, milliseconds, percent

from .cause import Cause, ms
from .checking import Check, CheckOutcome, check, weight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilat.correlator.samples.growth import Growth
    from trilat.correlator.samples.service import Memory, ServiceFigures
    from trilat.correlator.sketches.sketch import Sketch

    from .verdict import Verdict

__all__ = ["service_checks"]

_BLOCKED_MAX = 0.1
"""From this part of ``service.app``, or of the time, on a blocked loop is worth a warning."""

_THROTTLED_MAX = 0.05
_STEAL_MAX = 5.0  # per cent of a host's processors
_SECOND_NS = 1e9
_FULL = 0.9  # of a memory limit


def service_checks(
    total: Sketch,
    verdict: Verdict,
    service: ServiceFigures | None,
    remarks: Sequence[str] = (),
) -> list[Check]:
    """The checks; those of memory and processor only where the service was sampled.

    Args:
        total: all requests of the run.
        verdict: what the run came to.
        service: what the service told of itself.
        remarks: why that may be nothing.
    """
    checks = [_loop(total, verdict, service, remarks)]
    if service is not None:
        checks += [_memory(service.memory), _held_back(service)]
    return checks


def _loop(
    total: Sketch, verdict: Verdict, service: ServiceFigures | None, remarks: Sequence[str]
) -> Check:
    title = "Service's event loop"
    mean, tail = blocked_part(total, None), blocked_part(total, 0.95)
    of_time = service.blocked_share if service is not None else None
    if mean is None and of_time is None and (service is None or not service.places):
        told = "; ".join(clean(each) for each in remarks)
        return check("S003", title, "skipped", told or "the service told nothing of it")
    evidence = []
    if mean is not None:
        evidence.append(_in_requests(total))
    if tail is not None and tail.blocked_ns > 0:
        evidence.append(f"at p95 {tail.text}")
    evidence += _in_samples(service)
    of_app = max((each.share for each in (mean, tail) if each is not None), default=0.0)
    outcome: CheckOutcome = "ok"
    if of_app >= MOSTLY:
        outcome = weight(verdict, Cause.SERVICE)
    elif of_app >= _BLOCKED_MAX or (of_time or 0.0) >= _BLOCKED_MAX:
        outcome = "warn"
    return check("S003", title, outcome, "; ".join(evidence), blocking_remedy(service))


def _in_requests(total: Sketch) -> str:
    blocked = total.blocked
    if not blocked.requests:
        return f"it was not blocked in any of {count(blocked.known)} requests"
    return (
        f"it was blocked in {percent(blocked.requests / blocked.known)} of the requests, for "
        f"{ms(blocked.mean_ns)} on average over all of them and {ms(blocked.max_ns)} at most"
    )


def _in_samples(service: ServiceFigures | None) -> list[str]:
    """What the service's own samples say of its loop."""
    if service is None:
        return []
    told = []
    if service.blocked_share is not None:
        told.append(f"blocked for {percent(service.blocked_share)} of the time")
    if service.places:
        whole = sum(each.total_ns for each in service.places)
        told.append(
            f"{count(sum(each.count for each in service.places))} long blocks took {_span(whole)}"
        )
        worst = service.places[0]
        told[-1] += f", {percent(worst.total_ns / whole if whole else 0.0)} of it {worst.place}"
    return told


def _memory(memory: Memory | None) -> Check:
    title = "Service's memory"
    if memory is None:
        return check("S004", title, "skipped", "it was not sampled")
    evidence = (
        f"{_mb(memory.first_mb)} at first, {_mb(memory.last_mb)} at last, {_mb(memory.max_mb)} at "
        f"most ({memory.process})"
    )
    full = memory.limit_mb is not None and memory.max_mb >= _FULL * memory.limit_mb
    if memory.limit_mb is not None:
        evidence += f", of a limit of {_mb(memory.limit_mb)}"
    growth = memory.growth
    if growth is None:
        outcome: CheckOutcome = "warn" if full else "ok"
        evidence += "; the run was too short to tell whether it grows"
    else:
        outcome = "warn" if full or growth.steady else "ok"
        evidence += f"; {_slope(growth, memory)}"
    remedy = (
        "find out what the service keeps: run again for longer, and compare snapshots of "
        "tracemalloc; without a leak the slope goes to 0"
        if growth is not None and growth.steady
        else "give the service more memory, or find out what it keeps"
    )
    return check("S004", title, outcome, evidence, remedy)


def _slope(growth: Growth, memory: Memory) -> str:
    span = duration(growth.seconds)
    if not growth.steady:
        return f"no steady growth in the last {span}"
    text = (
        f"it grew by {_mb(growth.mb_per_min)} a minute all through the last {span} (between "
        f"{_mb(growth.low_mb_per_min)} and {_mb(growth.high_mb_per_min)})"
    )
    if memory.limit_mb is None or growth.mb_per_min <= 0:
        return text
    left_s = 60 * max(memory.limit_mb - memory.last_mb, 0.0) / growth.mb_per_min
    return f"{text}; at this rate the limit is reached in {duration(left_s)}"


def _held_back(service: ServiceFigures) -> Check:
    title = "Service's processor"
    throttled, steal = service.throttled_share, service.steal_percent
    if throttled is None and steal is None:
        return check("S005", title, "skipped", "neither throttling nor steal time is known here")
    evidence, remedies = [], []
    if throttled is not None:
        evidence.append(f"held back by a CPU limit for {percent(throttled)} of the time")
        if throttled >= _THROTTLED_MAX:
            remedies.append("raise the CPU limit of the service's control group (container)")
    if steal is not None:
        evidence.append(
            f"the hypervisor took {percent(steal[0] / 100)} of its host's processors on average, "
            f"{percent(steal[1] / 100)} at most"
        )
        if steal[0] >= _STEAL_MAX:
            remedies.append("run the service on a host whose processors are not shared")
    outcome: CheckOutcome = "warn" if remedies else "ok"
    return check("S005", title, outcome, "; ".join(evidence), "; ".join(remedies))


def _span(value_ns: float) -> str:
    """Milliseconds, or from a second on seconds and more."""
    return ms(value_ns) if value_ns < _SECOND_NS else duration(value_ns / _SECOND_NS)


def _mb(value: float) -> str:
    return f"{milliseconds(value)} MB"
