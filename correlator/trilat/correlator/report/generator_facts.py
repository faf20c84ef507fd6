"""The load generator's figures over a run, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trilat.correlator.reading import items, mapping, number, whole
from trilat.correlator.report.service_facts import percents, share_of_time
from trilat.correlator.text import count, milliseconds, percent

__all__ = ["facts"]


def facts(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The generator's figures over the run as pairs of label and value; only what is known."""
    told = mapping(result, "generator")
    if number(told.get("blocked_share")) is None and not mapping(told, "cpu_percent"):
        return []
    found = (
        ("Processes", _processes(told)),
        ("Event loop", _hub(told)),
        ("Processor time", percents(mapping(told, "cpu_percent"), " of one processor")),
        ("Waited for a processor", share_of_time(told.get("cpu_wait_share"))),
        ("Held back by a CPU limit", share_of_time(told.get("throttled_share"))),
        (
            "Taken by the hypervisor",
            percents(mapping(told, "steal_percent"), " of all processors"),
        ),
        ("Garbage collections", _collections(mapping(told, "collections"))),
        ("File descriptors", _of_limit(mapping(told, "fds"), "max", "limit")),
        ("Local ports", _of_limit(mapping(told, "ports"), "taken", "available")),
        ("Waits for a connection", _pool(mapping(told, "pool_wait"))),
    )
    return [(label, value) for label, value in found if value]


def _processes(told: Mapping[str, Any]) -> str:
    seen = len(items(told, "instances")) + whole(told.get("instances_left_out"))
    return count(seen) if seen else ""


def _hub(told: Mapping[str, Any]) -> str:
    share, lag = number(told.get("blocked_share")), mapping(told, "hub_lag_ms")
    parts = []
    if share is not None:
        parts.append(f"blocked for {percent(share)} of the time")
    if (most := number(lag.get("max"))) is not None:
        parts.append(
            f"lag {milliseconds(number(lag.get('mean')))} ms on average, "
            f"{milliseconds(number(lag.get('p95')))} ms at p95, {milliseconds(most)} ms at most"
        )
    return "; ".join(parts)


def _collections(told: Mapping[str, Any]) -> str:
    total, longest = number(told.get("total_ms")), number(told.get("longest_ms"))
    if total is None or longest is None:
        return ""
    return f"{milliseconds(total)} ms in all, the longest {milliseconds(longest)} ms"


def _of_limit(told: Mapping[str, Any], most: str, limit: str) -> str:
    if number(told.get(most)) is None:
        return ""
    return f"{count(whole(told.get(most)))} of {count(whole(told.get(limit)))} at most"


def _pool(told: Mapping[str, Any]) -> str:
    requests = whole(told.get("requests"))
    if not requests:
        return ""
    mean_ms = (number(told.get("total_ms")) or 0.0) / requests
    return (
        f"{count(requests)} requests, {milliseconds(mean_ms)} ms on average, "
        f"{milliseconds(number(told.get('max_ms')))} ms at most"
    )
