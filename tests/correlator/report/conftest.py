"""An example result, computed from simulated requests so that its figures fit each other."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from trilat.agent.records import COMPONENTS, Component
from trilat.correlator.result import MAKEUP_PERCENTILES

if TYPE_CHECKING:
    from collections.abc import Callable

Request = dict[Component, float]

GRADES = {Component.SERVICE_QUEUE: "bounded", Component.NETWORK_OUT: "bounded"}


def simulate(app_ms: float, requests: int, load: float, chance: random.Random) -> list[Request]:
    """Requests to one endpoint, in milliseconds, from a generator under `load` (1: saturated)."""
    made = []
    for _ in range(requests):
        tail = 6.0 if chance.random() < 0.01 else 1.0
        made.append(
            {
                Component.GENERATOR_SEND: load * chance.gammavariate(24.0, 0.5) + 0.4,
                Component.NETWORK_CONNECT: 0.3 if chance.random() < 0.01 else 0.0,
                Component.NETWORK_OUT: chance.gammavariate(3.0, 0.12),
                Component.SERVICE_QUEUE: chance.gammavariate(1.2, 0.8) * tail,
                Component.SERVICE_APP: app_ms * (1.0 + chance.gammavariate(1.2, 0.05)) * tail**0.3,
                Component.SERVICE_BODY: chance.gammavariate(2.0, 0.03),
                Component.NETWORK_BACK: chance.gammavariate(3.0, 0.1),
                Component.GENERATOR_READ: load * chance.gammavariate(24.0, 0.46) + 0.3,
                Component.GENERATOR_FINISH: chance.gammavariate(3.0, 0.05) + 0.1,
            }
        )
    return made


def quantile(values: list[float], percentile: float) -> float:
    """Nearest-rank quantile of unsorted values."""
    ranked = sorted(values)
    return ranked[min(int(len(ranked) * percentile / 100), len(ranked) - 1)]


def figures_of(values: list[float]) -> dict[str, float]:
    """The figures that a result gives for a variable."""
    return {
        "mean": sum(values) / len(values),
        "p50": quantile(values, 50),
        "p90": quantile(values, 90),
        "p95": quantile(values, 95),
        "p99": quantile(values, 99),
        "max": max(values),
    }


def side_of(request: Request, side: str) -> float:
    """What one side takes of a request."""
    return sum(value for component, value in request.items() if component.side == side)


def around(requests: list[Request], percentile: float) -> list[Request]:
    """The requests whose response time is near the percentile."""
    ranked = sorted(requests, key=lambda request: sum(request.values()))
    middle = min(int(len(ranked) * percentile / 100), len(ranked) - 1)
    reach = max(len(ranked) // 200, 3)
    return ranked[max(middle - reach, 0) : middle + reach + 1]


def shares_of(requests: list[Request]) -> dict[str, float]:
    """The sides' fractions of the requests' response time."""
    whole = sum(sum(request.values()) for request in requests)
    sides = ("service", "network", "generator")
    shares = {side: sum(side_of(request, side) for request in requests) / whole for side in sides}
    return {**shares, "unattributed": 0.0}


def entry(
    method: str, name: str, requests: list[Request], times: float, late: bool
) -> dict[str, Any]:
    """An entry of a result from a sample of its requests, each of which stands for `times`."""
    response = [sum(request.values()) for request in requests]
    made: dict[str, Any] = {
        "method": method,
        "name": name,
        "requests": round(len(requests) * times),
        "failures": 0,
        "matched": round(len(requests) * times),
        "rate_per_s": len(requests) * times / 60.0,
        "response_time_ms": figures_of(response),
        "unattributed_share": 0.0,
        "corrected_ms": figures_of([value * 1.4 for value in response]) if late else None,
        "without_generator_ms": figures_of(
            [sum(request.values()) - side_of(request, "generator") for request in requests]
        ),
        "shares": {
            "mean": shares_of(requests),
            **{f"p{q}": shares_of(around(requests, q)) for q in (50, 95, 99)},
        },
        "components_ms": {
            component.label: {
                **figures_of([request[component] for request in requests]),
                "share": sum(request[component] for request in requests) / sum(response),
                "grade": GRADES.get(component, "measured"),
            }
            for component in COMPONENTS
        },
        "makeup": [],
    }
    for side in ("service", "network", "generator"):
        made[f"{side}_ms"] = figures_of([side_of(request, side) for request in requests])
    for percentile in MAKEUP_PERCENTILES:
        near = around(requests, percentile)
        parts = {
            component.label: sum(request[component] for request in near) / len(near)
            for component in COMPONENTS
        }
        made["makeup"].append(
            {
                "q": percentile,
                "response_ms": sum(parts.values()),
                "components_ms": parts,
                "unattributed_ms": 0.0,
            }
        )
    return made


def run_facts() -> dict[str, Any]:
    """The manifest of the example."""
    return {
        "schema": "trilat.run/1",
        "run_id": "5f1d2c7a9b3e4d60",
        "started_wall_ns": 1_790_000_000_000_000_000,
        "ended_wall_ns": 1_790_000_060_000_000_000,
        "measured_s": 60.0,
        "trilat": "0.1.0",
        "locust": "2.47.0",
        "python": "3.11.7",
        "host": {
            "identity": 2_891_336_453,
            "name": "generator-1",
            "system": "Linux 6.18.2 x86_64",
            "cpus": 2,
            "python": "3.11.7",
            "tick_us": 4000,
        },
        "command": ["trilat", "run", "-f", "locustfile.py", "--slo", "p95<=50ms"],
        "locustfile": "locustfile.py",
        "target_host": "http://service.example:8000",
        "user_classes": [
            {
                "name": "ShopUser",
                "client": "HttpUser",
                "wait_time": "constant_throughput(30)",
                "count": 100,
                "target_rate_per_s": 3000.0,
            }
        ],
        "users": 100,
        "processes": 1,
        "workers": 0,
        "run_mode": "local",
        "target_rate_per_s": 3000.0,
        "target_rate_source": "wait_time",
        "fails_allowed": False,
        "same_host": False,
        "kernel_stamps": True,
        "objectives": ["p95<=50ms", "service.p95<=30ms"],
        "generator_cpu_percent": {"mean": 97.2, "max": 99.1},
        "notes": [],
        "lost": {"journal_dropped": 0, "unmarked": 12, "errors_inside": 0},
    }


def example_checks(generator_share: float) -> list[dict[str, str]]:
    """Checks with every outcome."""
    return [
        {
            "id": "G001",
            "title": "Generator CPU",
            "outcome": "fail",
            "evidence": "one process used 97 % of a core on average, 99 % at most",
            "remedy": "Use FastHttpUser, or spread the users over processes with --processes -1.",
        },
        {
            "id": "G002",
            "title": "Generator share",
            "outcome": "fail",
            "evidence": f"{generator_share * 100:.0f} % of the response time at p95 is its own",
            "remedy": "Use FastHttpUser, or spread the users over processes with --processes -1.",
        },
        {
            "id": "G003",
            "title": "Users in step",
            "outcome": "warn",
            "evidence": "31 % of the requests start within 1 ms of nine others",
            "remedy": "Add jitter: wait_time = between(0.5, 1.5).",
        },
        {
            "id": "R001",
            "title": "Rate",
            "outcome": "fail",
            "evidence": "1,520/s of 3,000/s wanted",
            "remedy": "Raise the number of processes until the rate is reached.",
        },
        {
            "id": "E001",
            "title": "Coverage",
            "outcome": "ok",
            "evidence": "server evidence for 100 % of the requests",
            "remedy": "",
        },
        {
            "id": "E002",
            "title": "Clocks",
            "outcome": "ok",
            "evidence": "aligned within 0.02 ms",
            "remedy": "",
        },
        {
            "id": "E003",
            "title": "Schedule",
            "outcome": "skipped",
            "evidence": "the wait time sets no schedule",
            "remedy": "",
        },
    ]


def example_result(load: float = 1.0) -> dict[str, Any]:
    """A result of three endpoints, a test's own to change.

    Args:
        load: 1 saturates the generator, 0.04 leaves it idle.
    """
    return copy.deepcopy(_simulated(load))


@cache
def _simulated(load: float) -> dict[str, Any]:
    chance = random.Random(7)
    saturated = load > 0.5
    items = simulate(20.9, 1400, load, chance)
    orders = simulate(24.0, 500, load, chance)
    search = simulate(11.5, 300, load, chance)
    total = entry("", "Aggregated", items + orders + search, 41.45, saturated)
    p95, without = total["response_time_ms"]["p95"], total["without_generator_ms"]["p95"]
    service = total["service_ms"]["p95"]
    checks = example_checks(total["shares"]["p95"]["generator"])
    return {
        "schema": "trilat.result/1",
        "verdict": {
            "outcome": "invalid" if saturated else "pass",
            "cause": "generator" if saturated else None,
            "exit_code": 3 if saturated else 0,
            "reasons": [
                f"p95 was {p95:.1f} ms against 50 ms, but {without:.1f} ms without the "
                "generator's own delay: the objective would hold with a faster generator.",
                "The generator made 1,520 requests/s of the 3,000/s wanted.",
            ]
            if saturated
            else [f"p95 was {p95:.1f} ms against 50 ms; the evidence covers the run."],
            "notes": [],
            "warnings": ["12 requests were not marked; they are all unattributed"],
        },
        "run": {**run_facts(), "target_rate_per_s": 3000.0 if saturated else 1500.0},
        "total": total,
        "endpoints": [
            entry("GET", "/items/[id]", items, 41.45, saturated),
            entry("POST", "/orders", orders, 41.45, saturated),
            entry("GET", "/search/[category]/[query]/suggestions", search, 41.45, saturated),
        ],
        "objectives": [
            {
                "text": "p95<=50ms",
                "value": p95,
                "unit": "ms",
                "holds": p95 <= 50,
                "value_without_generator": without,
            },
            {
                "text": "service.p95<=30ms",
                "value": service,
                "unit": "ms",
                "holds": service <= 30,
                "value_without_generator": None,
            },
        ],
        "checks": checks
        if saturated
        else [check for check in checks if check["outcome"] != "fail"],
        "stages": [],
    }


@pytest.fixture
def result() -> dict[str, Any]:
    """A run whose generator was saturated."""
    return example_result()


@pytest.fixture
def make_result() -> Callable[[float], dict[str, Any]]:
    """`example_result`, to be made for another load."""
    return example_result


@pytest.fixture
def sampled(result: dict[str, Any]) -> dict[str, Any]:
    """The example with samples of three workers and a generator."""
    elapsed = [float(second) for second in range(1, 400 + 1)]
    instances = [
        {
            "host": 7,
            "host_name": "web-1",
            "pid": 100 + number,
            "instance": number,
            "python": "3.11.9",
            "samples": 400,
        }
        for number in range(3)
    ]
    workers = [
        {
            "host_name": each["host_name"],
            "pid": each["pid"],
            "elapsed_s": elapsed,
            "rss_mb": [100.0 + second / 10 for second in elapsed],
            "loop_lag_max_ms": [210.0 if second % 50 == 0 else 1.0 for second in elapsed],
            "throttled_ms": [0.0] * 400,
        }
        for each in instances
    ]
    place = {
        "file": "shop/app.py",
        "line": 12,
        "function": "pay",
        "count": 8,
        "total_ms": 1680.0,
        "max_ms": 215.0,
        "stack": ["shop/app.py:40 route", "shop/app.py:12 pay"],
    }
    unseen = place | {"file": "(not seen)", "line": 0, "function": "", "stack": []}
    result["service"] = {
        "instances": instances,
        "instances_left_out": 0,
        "blocked": [place, unseen | {"total_ms": 420.0}],
        "blocks": {"count": 16, "total_ms": 2100.0, "places": 5},
        "blocked_share": 0.12,
        "loop_lag_ms": {"p50": 1.0, "p95": 1.0, "max": 210.0},
        "memory": {
            "process": "web-1:100",
            "first_mb": 100.0,
            "last_mb": 140.0,
            "max_mb": 140.0,
            "limit_mb": 512.0,
            "growth": None,
        },
        "cpu_percent": {"mean": 61.0, "max": 99.0},
        "throttled_share": 0.0,
        "steal_percent": None,
        "gc_pause_ms": {"total": 120.0, "max": 9.0},
        "series": workers,
        "remarks": ["1 sample files could not be read: x.jsonl:3: not an object"],
    }
    rates = {"rate_per_s": [None, *[1500.0] * (399)], "p95_ms": [30.0] * 400}
    made = {"host_name": "load-1", "pid": 5, "elapsed_s": elapsed, **rates}
    result["generator"] = {"instances": [], "instances_left_out": 0, "series": [made]}
    result["total"]["loop_blocked_ms"] = {
        "known": 90_000,
        "touched_share": 0.09,
        "mean": 12.3,
        "around_p95": 15.1,
        "max": 214.0,
    }
    return result
