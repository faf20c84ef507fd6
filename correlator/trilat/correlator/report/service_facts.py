"""The service's figures over a run, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trilat.correlator.reading import items, mapping, number, texts, whole
from trilat.correlator.text import count, milliseconds, percent

__all__ = ["facts", "percents", "remarks", "share_of_time"]


def remarks(result: Mapping[str, Any]) -> tuple[str, ...]:
    """What could not be read of the service's samples."""
    return texts(mapping(result, "service"), "remarks")


def facts(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The service's figures over the run as pairs of label and value; only what is known."""
    service = mapping(result, "service")
    found = (
        ("Processes", _processes(service)),
        ("Event loop", _loop(service)),
        ("Memory", _memory(mapping(service, "memory"))),
        ("Processor time", percents(mapping(service, "cpu_percent"), " of one processor")),
        ("Held back by a CPU limit", share_of_time(service.get("throttled_share"))),
        (
            "Taken by the hypervisor",
            percents(mapping(service, "steal_percent"), " of all processors"),
        ),
        ("Garbage collections", _collections(mapping(service, "gc_pause_ms"))),
    )
    return [(label, value) for label, value in found if value]


def _processes(service: Mapping[str, Any]) -> str:
    seen = len(items(service, "instances")) + whole(service.get("instances_left_out"))
    return count(seen) if seen else ""


def _loop(service: Mapping[str, Any]) -> str:
    parts = []
    share = number(service.get("blocked_share"))
    if share is not None:
        parts.append(f"blocked for {percent(share)} of the time")
    lag = mapping(service, "loop_lag_ms")
    if (most := number(lag.get("max"))) is not None:
        parts.append(
            f"longest lag of a second: median {milliseconds(number(lag.get('p50')))} ms, "
            f"{milliseconds(most)} ms at most"
        )
    return "; ".join(parts)


def _memory(memory: Mapping[str, Any]) -> str:
    first, last = number(memory.get("first_mb")), number(memory.get("last_mb"))
    if first is None or last is None:
        return ""
    told = f"{milliseconds(first)} MB at first, {milliseconds(last)} MB at last"
    limit = number(memory.get("limit_mb"))
    return told if limit is None else f"{told}, limit {milliseconds(limit)} MB"


def percents(values: Mapping[str, Any], of: str) -> str:
    """Mean and highest of a figure in per cent; empty where nothing is known."""
    mean, most = number(values.get("mean")), number(values.get("max"))
    if mean is None or most is None:
        return ""
    return f"{percent(mean / 100)}{of} on average, {percent(most / 100)} at most"


def share_of_time(value: object) -> str:
    """A part of the time; empty where nothing is known."""
    share = number(value)
    return "" if share is None else f"{percent(share)} of the time"


def _collections(pauses: Mapping[str, Any]) -> str:
    total, most = number(pauses.get("total")), number(pauses.get("max"))
    if total is None or most is None:
        return ""
    return f"{milliseconds(total)} ms in all, {milliseconds(most)} ms in the worst second"
