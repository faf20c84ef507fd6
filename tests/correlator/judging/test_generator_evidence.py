"""From the generator's own samples to the result: what blocked it, its limits, what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from trilat.agent.blocks import COLLECTING, IN_TURN, STARVED

from .samples import Finish, check_of, vitals, write

SLOW = {"n": 1000, "service": 20.0, "generator": 60.0}
MISSED = {"objectives": ["p95<=50ms"]}
# What a quiet second looks like.
QUIET: dict[str, Callable[[int], Any]] = {
    "cpu_percent": lambda _: 20.0,
    "hub_lag_ms": lambda _: 0.2,
    "hub_lag_max_ms": lambda _: 1.0,
    "hub_lag_spans_ms": lambda _: [950.0, 50.0],
    "hub_blocked_ms": lambda _: 0.0,
    "cpu_wait_ms": lambda _: 5.0,
    "throttled_ms": lambda _: 0.0,
    "steal_percent": lambda _: 0.1,
    "gc_pause_ms": lambda _: 2.0,
    "gc_pause_max_ms": lambda _: 1.0,
    "fds": lambda _: 120,
    "fds_limit": lambda _: 1024,
    "pool_waits": lambda _: 0,
    "pool_wait_ms": lambda _: 0.0,
    "pool_wait_max_ms": lambda _: 0.0,
    "ports_taken": lambda _: 200,
    "ports_time_wait": lambda _: 50,
    "ports_available": lambda _: 28_232,
    "connections_opened": lambda _: 1,
}
BLOCKED = {"hub_blocked_ms": lambda _: 300.0, "hub_lag_max_ms": lambda _: 90.0}


@pytest.fixture
def sample(tmp_path: Path) -> Callable[..., None]:
    """``sample(*blocked, name=…, **figures)``: ten seconds of a process that runs users."""

    def sample(*blocked: Mapping[str, Any], name: str = "generator-1", **figures: Any) -> None:
        facts = {key: figures.pop(key) for key in ("pid", "host") if key in figures}
        lines = [*vitals(10, **(QUIET | figures)), *blocked]
        write(tmp_path / "samples", f"{name}.jsonl", lines, side="generator", **facts)

    return sample


def blocked(at: float, took_ms: float, **changes: Any) -> dict[str, Any]:
    """What blocked the hub in a second, summed up by line."""
    stack = ["locustfile.py:20 item", "locustfile.py:12 parse", "json/__init__.py:346 loads"]
    return {
        "t": at,
        "kind": "blocked",
        "took_ms": took_ms,
        "max_ms": took_ms / 2,
        "count": 2,
        "file": "locustfile.py",
        "line": 12,
        "function": "parse",
        "stack": stack,
    } | changes


def test_a_quiet_generator(finished: Finish, sample: Callable[..., None]) -> None:
    """Its figures are told, and every check of it passes or has nothing to look at."""
    sample()
    result = finished()
    told = result["generator"]
    assert told["blocked"] == []
    assert told["blocked_share"] == 0.0
    assert told["hub_lag_ms"]["max"] == 1.0
    assert told["hub_lag_ms"]["mean"] == pytest.approx(0.2)
    assert told["cpu_percent"] == {"mean": 20.0, "max": 20.0}
    assert told["collections"]["longest_ms"] == 1.0
    assert told["fds"] == {"max": 120, "limit": 1024}
    assert told["ports"] == {
        "taken": 200,
        "time_wait": 50,
        "available": 28_232,
        "opened": 10,
    }
    assert told["pool_wait"] == {"requests": 0, "total_ms": 0.0, "max_ms": 0.0}
    (series,) = told["series"]
    assert series["hub_lag_max_ms"] == [1.0] * 10
    outcomes = {f"G01{number}": check_of(result, f"G01{number}")["outcome"] for number in range(6)}
    assert outcomes.pop("G014") == "skipped"  # connections are kept open
    assert set(outcomes.values()) == {"ok"}


def test_the_line_that_blocked_is_named_first(
    finished: Finish, sample: Callable[..., None]
) -> None:
    """In the result, the check, what there is to do, and the warning of a run that passes."""
    lines = [blocked(2, 200.0), blocked(3, 300.0, max_ms=90.0, stack=[]), blocked(4, 40.0, line=30)]
    sample(*lines, **BLOCKED)
    result = finished(SLOW, **MISSED)
    worst, second = result["generator"]["blocked"]
    assert (worst["line"], worst["count"], worst["total_ms"], worst["max_ms"]) == (12, 4, 500, 100)
    assert worst["stack"][-1] == worst["called"] == "json/__init__.py:346 loads"
    assert (second["line"], second["called"]) == (30, None)
    assert result["generator"]["blocks"] == {"count": 6, "total_ms": 540.0, "places": 2}
    hub = check_of(result, "G010")
    assert hub["outcome"] == "fail"
    assert "30 % of the time, 90.0 ms at most" in hub["evidence"]
    assert "93 % of it locustfile.py:12 parse (in json/__init__.py:346 loads)" in hub["evidence"]
    for identity in ("G001", "G010"):
        remedy = check_of(result, identity)["remedy"]
        assert remedy.startswith("keep locustfile.py:12 parse out of the tasks")
        assert "4 times, for 100 ms at most" in remedy
        assert "FastHttpUser" not in remedy
    passing = finished(SLOW)
    assert "keep locustfile.py:12 parse out of the tasks" in passing["verdict"]["warnings"][0]


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        (IN_TURN.file, "FastHttpUser"),
        (COLLECTING.file, "gc.freeze()"),
        (STARVED.file, "no other program"),
        ("(not seen)", "FastHttpUser"),
    ],
)
def test_where_no_line_blocked_it_what_helps_is_something_else(
    finished: Finish, sample: Callable[..., None], file: str, remedy: str
) -> None:
    """Many users in turn, the collector, other programs."""
    sample(blocked(2, 900.0, file=file, line=0, function="", stack=[]), blocked(3, 50.0), **BLOCKED)
    cpu = {"generator_cpu_percent": {"mean": 95.0, "max": 99.0}}
    hub = check_of(finished(SLOW, **MISSED, **cpu), "G010")
    assert hub["outcome"] == "fail"
    assert f"of it {file}" in hub["evidence"]
    assert f"{file}:0" not in hub["evidence"]
    assert remedy in hub["remedy"]


def test_processes_add_up(finished: Finish, sample: Callable[..., None]) -> None:
    """Lags and waits of all of them; of what each has for itself, the worst. No master counts."""
    sample(blocked(2, 100.0), pid=1)
    sample(
        blocked(2, 300.0),
        name="generator-2",
        pid=2,
        cpu_percent=lambda _: 70.0,
        pool_waits=lambda second: second,
        pool_wait_ms=lambda second: 10.0 * second,
        pool_wait_max_ms=lambda _: 12.0,
        fds=lambda _: 900,
        hub_lag_spans_ms=lambda _: [0.0, 950.0, 50.0],
        hub_lag_ms=lambda _: 0.8,
        **BLOCKED,
    )
    sample(name="generator-3", pid=3, hub_lag_ms=lambda _: None, cpu_percent=lambda _: 99.0)
    result = finished()
    told = result["generator"]
    assert len(told["instances"]) == 3
    assert told["blocked"][0]["count"] == 4
    assert told["blocked_share"] == 0.3
    assert told["hub_lag_ms"]["mean"] == pytest.approx(0.5)
    assert told["hub_lag_ms"]["max"] == 90.0
    assert told["cpu_percent"]["max"] == 70.0
    assert told["pool_wait"] == {"requests": 55, "total_ms": 550.0, "max_ms": 12.0}
    assert told["ports"]["opened"] == 10  # the host's, and not each process' own
    descriptors = check_of(result, "G013")
    assert descriptors["outcome"] == "warn"
    assert "900 open at most, 1,024 allowed" in descriptors["evidence"]


def test_waits_for_a_connection_are_a_part_of_send(
    finished: Finish, sample: Callable[..., None]
) -> None:
    """How many, how long, and how much of generator.send they are; they fail what they decided."""
    sample(
        pool_waits=lambda _: 80,
        pool_wait_ms=lambda _: 80 * 45.0,
        pool_wait_max_ms=lambda second: 50.0 + second,
    )
    pool = check_of(finished(SLOW, **MISSED), "G015")
    assert pool["outcome"] == "fail"
    assert (
        "800 requests waited for a free connection, 45.0 ms on average and 60.0 ms at most"
        in (pool["evidence"])
    )
    assert pool["evidence"].endswith("60 % of generator.send")
    assert "maxsize" in pool["remedy"]
    sample(pool_waits=lambda _: 1, pool_wait_ms=lambda _: 2.0, pool_wait_max_ms=lambda _: 2.0)
    assert check_of(finished(SLOW), "G015")["outcome"] == "ok"


def test_ports_that_run_out(finished: Finish, sample: Callable[..., None]) -> None:
    """A connection for each request holds a port for a minute more; the errors tell as well."""
    sample(connections_opened=lambda _: 100, ports_taken=lambda second: 2_500 * second)
    few = check_of(finished(), "G014")
    assert few["outcome"] == "warn"
    assert "25,000 of 28,232 taken at most" in few["evidence"]
    assert "1,000 connections were begun for 1,000 requests" in few["evidence"]
    error = "OSError(99, 'Cannot assign requested address')"
    failures = [{"name": "/a", "error": error, "count": 7}]
    sample(connections_opened=lambda _: 100)
    group = {"n": 1000, "service": 20.0, "failed": [True] * 7 + [False] * 993}
    out = check_of(finished(group, failures=failures), "G014")
    assert out["outcome"] == "fail"
    assert "7 requests failed for want of one" in out["evidence"]
    many = "OSError(24, 'Too many open files')"
    failures = [{"name": "/a", "error": many, "count": 7}]
    assert check_of(finished(group, failures=failures), "G013")["outcome"] == "fail"


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ({"gc_pause_ms": lambda _: 80.0}, ("G011", "8 % of the time", "gc.freeze()")),
        ({"gc_pause_max_ms": lambda _: 70.0}, ("G011", "the longest 70.0 ms", "gc.freeze()")),
        ({"cpu_wait_ms": lambda _: 200.0}, ("G012", "for 20 % of the time", "no other program")),
        ({"throttled_ms": lambda _: 100.0}, ("G012", "back for 10 % of the time", "CPU limit")),
        ({"steal_percent": lambda _: 9.0}, ("G012", "took 9 %", "not shared")),
    ],
)
def test_what_holds_it_back_is_warned_of(
    finished: Finish,
    sample: Callable[..., None],
    figures: Mapping[str, Any],
    told: tuple[str, str, str],
) -> None:
    """Collections, other programs, a limit, the hypervisor: each with its own remedy."""
    identity, evidence, remedy = told
    sample(**figures)
    found = check_of(finished(), identity)
    assert found["outcome"] == "warn"
    assert evidence in found["evidence"]
    assert remedy in found["remedy"]


def test_samples_of_an_earlier_release_or_another_system(finished: Finish, tmp_path: Path) -> None:
    """What is not known is null, and its checks are skipped."""
    write(tmp_path / "samples", "g.jsonl", vitals(10, users=lambda _: 5), side="generator")
    result = finished()
    told = result["generator"]
    unknown = ("blocked_share", "hub_lag_ms", "cpu_percent", "collections", "fds", "ports")
    assert {told[key] for key in (*unknown, "pool_wait", "cpu_wait_share")} == {None}
    for number in range(6):
        assert check_of(result, f"G01{number}")["outcome"] == "skipped"
