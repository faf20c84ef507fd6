"""The sections of a result that samples make: what the service and the generator did over time."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .blocked_lines import inside_of
from .curves import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilat.agent.blocks import BlockedPlace

    from .generator import Collections, Descriptors, GeneratorFigures, PoolWait, Ports
    from .lag_histogram import LagHistogram
    from .sampled import Process, Sampled
    from .service import Memory, ServiceFigures

__all__ = ["generator_section", "service_section"]

_PLACES_MAX = 20
_PROCESSES_MAX = 64
_SERIES_MAX = 16
_SERVICE = (
    *("rss_mb", "loop_lag_max_ms", "loop_blocked_ms", "cpu_percent", "in_flight"),
    *("throttled_ms", "steal_percent", "gc_pause_ms"),
)
_GENERATOR = (
    *("users", "rate_per_s", "p50_ms", "p95_ms", "cpu_percent", "rss_mb"),
    *("hub_lag_ms", "hub_lag_max_ms", "hub_blocked_ms", "cpu_wait_ms", "pool_wait_ms"),
    *("throttled_ms", "steal_percent", "gc_pause_ms"),
)


def service_section(sampled: Sampled, figures: ServiceFigures | None) -> dict[str, Any] | None:
    """The service's section; None where nothing was sampled of it."""
    if figures is None:
        return None
    lag = figures.lag_ms
    return {
        **_processes(figures.processes),
        "blocked": [_place(each) for each in figures.places[:_PLACES_MAX]],
        "blocks": _blocks(figures.places),
        "blocked_share": _rounded(figures.blocked_share, 4),
        "loop_lag_ms": None if lag is None else _all_rounded(asdict(lag)),
        "memory": _memory(figures.memory),
        "cpu_percent": _pair(figures.cpu_percent, "mean"),
        "throttled_share": _rounded(figures.throttled_share, 4),
        "steal_percent": _pair(figures.steal_percent, "mean"),
        "gc_pause_ms": _pair(figures.gc_pause_ms, "total"),
        "series": _series(figures.processes, sampled.window.begin_s, _SERVICE),
        "remarks": list(sampled.remarks),
    }


def generator_section(sampled: Sampled, figures: GeneratorFigures | None) -> dict[str, Any] | None:
    """The load generator's section; None where nothing was sampled of it."""
    if figures is None:
        return None
    return {
        **_processes(sampled.generators),
        "blocked": [
            {**_place(each), "called": inside_of(each) or None}
            for each in figures.places[:_PLACES_MAX]
        ],
        "blocks": _blocks(figures.places),
        "blocked_share": _rounded(figures.blocked_share, 4),
        "hub_lag_ms": None if figures.lag is None else _lag(figures.lag),
        "cpu_percent": _pair(figures.cpu_percent, "mean"),
        "cpu_wait_share": _rounded(figures.cpu_wait_share, 4),
        "throttled_share": _rounded(figures.throttled_share, 4),
        "steal_percent": _pair(figures.steal_percent, "mean"),
        "collections": _known(figures.collections),
        "fds": _known(figures.descriptors),
        "ports": _known(figures.ports),
        "pool_wait": _known(figures.pool),
        "series": _series(sampled.generators, sampled.window.begin_s, _GENERATOR),
    }


def _lag(lag: LagHistogram) -> dict[str, float | None]:
    if not lag.whole_ns:
        return dict.fromkeys(("mean", "p50", "p95", "p99", "max"))
    told = {"mean": lag.mean_ms, "max": lag.max_ns / 1e6}
    told |= {f"p{percent}": lag.quantile_ms(percent / 100) for percent in (50, 95, 99)}
    return {key: round(value, 3) for key, value in told.items()}


def _known(found: Collections | Descriptors | PoolWait | Ports | None) -> dict[str, Any] | None:
    return None if found is None else _all_rounded(asdict(found))


def _blocks(places: Sequence[BlockedPlace]) -> dict[str, Any]:
    return {
        "count": sum(each.count for each in places),
        "total_ms": _ms(sum(each.total_ns for each in places)),
        "places": len(places),
    }


def _processes(processes: Sequence[Process]) -> dict[str, Any]:
    return {
        "instances": [
            {
                "host": each.host,
                "host_name": each.host_name,
                "pid": each.pid,
                "instance": each.instance,
                "python": each.python or None,
                "samples": len(each.vitals),
            }
            for each in processes[:_PROCESSES_MAX]
        ],
        "instances_left_out": max(len(processes) - _PROCESSES_MAX, 0),
    }


def _place(each: BlockedPlace) -> dict[str, Any]:
    return {
        "file": each.place.file,
        "line": each.place.line,
        "function": each.place.function,
        "count": each.count,
        "total_ms": _ms(each.total_ns),
        "max_ms": _ms(each.max_ns),
        "stack": list(each.stack),
    }


def _memory(memory: Memory | None) -> dict[str, Any] | None:
    if memory is None:
        return None
    growth = None if memory.growth is None else _all_rounded(asdict(memory.growth))
    return {**_all_rounded(asdict(memory)), "growth": growth}


def _series(
    processes: Sequence[Process], begin_s: float, names: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Columns of the processes that were sampled longest."""
    longest = sorted(processes, key=lambda each: -len(each.vitals))[:_SERIES_MAX]
    kept = {id(each) for each in longest}
    return [
        {
            "host_name": each.host_name,
            "pid": each.pid,
            **columns(each.vitals, begin_s, names),
        }
        for each in processes
        if id(each) in kept and each.vitals
    ]


def _pair(values: tuple[float, float] | None, first: str) -> dict[str, float] | None:
    return None if values is None else {first: round(values[0], 3), "max": round(values[1], 3)}


def _rounded(value: float | None, decimals: int) -> float | None:
    return None if value is None else round(value, decimals)


def _all_rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: round(value, 3) if isinstance(value, float) else value for key, value in values.items()
    }


def _ms(value_ns: float) -> float:
    return round(value_ns / 1e6, 3)
