"""From the samples of a run's directory to the result: what blocked, memory, curves over time."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.correlator.samples.curves import POINTS_MAX, columns
from trilat.correlator.samples.generator import generator_figures
from trilat.correlator.samples.growth import growth_of
from trilat.correlator.samples.sampled import Window, read_sampled
from trilat.correlator.samples.sampled_sections import generator_section, service_section
from trilat.correlator.samples.service import figures_of, spread_of
from trilat.correlator.validate import check, result_schema

from .samples import BEGIN_S, Finish, check_of, vitals, write

Line = dict[str, Any]


def block(at: float, took_ms: float, line: int = 12, **changes: Any) -> Line:
    """A block of the event loop."""
    return {
        "t": at,
        "kind": "blocked",
        "took_ms": took_ms,
        "file": "shop/app.py",
        "line": line,
        "function": "pay",
        "stack": ["shop/app.py:40 route", f"shop/app.py:{line} pay"],
    } | changes


def test_a_run_without_samples(finished: Finish) -> None:
    """Nothing is claimed of either side; the loop's check is skipped, the others are left out."""
    result = finished()
    assert result["service"] is None
    assert result["generator"] is None
    assert check_of(result, "S003")["outcome"] == "skipped"
    assert not {"S004", "S005"} & {each["id"] for each in result["checks"]}


def test_the_line_that_blocked_is_named(finished: Finish, tmp_path: Path) -> None:
    """By the sum of its time, with how often, the longest and its stack; so are the remedies."""
    lines = [block(2, 200), block(4, 250), block(5, 300, line=30), block(6, 50, line=0, file="(x)")]
    write(tmp_path / "samples", "service-1.jsonl", lines)
    write(tmp_path / "samples", "service-2.jsonl", [block(7, 240)], pid=101, instance=2)
    group = {"n": 1000, "service": 80.0, "blocked": 60.0}
    result = finished(group, objectives=["p95<=50ms"])
    worst, second, _ = result["service"]["blocked"]
    assert worst == {
        "file": "shop/app.py",
        "line": 12,
        "function": "pay",
        "count": 3,
        "total_ms": 690.0,
        "max_ms": 250.0,
        "stack": ["shop/app.py:40 route", "shop/app.py:12 pay"],
    }
    assert second["line"] == 30
    assert result["service"]["blocks"] == {"count": 5, "total_ms": 1040.0, "places": 3}
    assert [each["pid"] for each in result["service"]["instances"]] == [100, 101]
    loop = check_of(result, "S003")
    assert loop["outcome"] == "fail"
    assert "66 % of it shop/app.py:12 pay" in loop["evidence"]
    for identity in ("S002", "S003"):
        assert (
            "keep shop/app.py:12 pay out of the event loop" in check_of(result, identity)["remedy"]
        )
    assert (
        "of 80.0 ms in service.app the event loop was blocked for 60.0 ms"
        in (result["verdict"]["reasons"][0])
    )


def test_the_blocked_part_of_each_endpoint(finished: Finish) -> None:
    """Mean over the requests of which it is known, the part that was touched, p95 and maximum."""
    groups = (
        {"n": 100, "service": 20.0, "blocked": [0.0] * 90 + [15.0] * 10, "name": "/a"},
        {"n": 100, "service": 20.0, "name": "/b"},
    )
    result = finished(*groups)
    told = {each["name"]: each["loop_blocked_ms"] for each in result["endpoints"]}
    assert told["/a"]["known"] == 100
    assert told["/a"]["mean"] == pytest.approx(1.5)
    assert told["/a"]["touched_share"] == pytest.approx(0.1)
    assert told["/a"]["max"] == pytest.approx(15.0)
    assert told["/b"] == {
        "known": 0,
        "touched_share": None,
        "mean": None,
        "around_p95": None,
        "max": None,
    }
    assert result["total"]["loop_blocked_ms"]["mean"] == pytest.approx(1.5)
    assert check_of(result, "S003")["outcome"] == "ok"


def test_a_loop_that_was_never_blocked(finished: Finish) -> None:
    """Is said to be, where the service tells."""
    loop = check_of(finished({"n": 100, "service": 20.0, "blocked": 0.0}), "S003")
    assert loop["outcome"] == "ok"
    assert loop["evidence"] == "it was not blocked in any of 100 requests"


def test_a_queue_before_a_blocked_loop(finished: Finish, tmp_path: Path) -> None:
    """A blocked share of the time is a warning though the requests themselves block nothing."""
    samples = vitals(10, loop_blocked_ms=lambda _: 300.0, loop_lag_max_ms=lambda s: 10.0 * s)
    write(tmp_path / "samples", "a.jsonl", [*samples, block(3, 200)])
    result = finished()
    loop = check_of(result, "S003")
    assert loop["outcome"] == "warn"
    assert "blocked for 30 % of the time" in loop["evidence"]
    assert result["service"]["blocked_share"] == pytest.approx(0.3)
    assert result["service"]["loop_lag_ms"] == {"p50": 50.0, "p95": 100.0, "max": 100.0}


def test_a_leak_and_what_only_looks_like_one(finished: Finish, tmp_path: Path) -> None:
    """Steady growth is told with its slope and the time to the limit; a warm-up is not."""

    def leaking(second: int) -> int:
        return 100_000_000 + second * 1_000_000

    def limit(_: int) -> int:
        return 500_000_000

    lines = vitals(100, rss_bytes=leaking, memory_limit_bytes=limit)
    write(tmp_path / "samples", "a.jsonl", lines)
    result = finished(seconds=100)
    memory = result["service"]["memory"]
    assert memory["growth"]["mb_per_min"] == pytest.approx(60.0)
    assert memory["growth"]["steady"] is True
    check = check_of(result, "S004")
    assert check["outcome"] == "warn"
    assert "60.0 MB a minute" in check["evidence"]
    assert "the limit is reached in 5 min 0 s" in check["evidence"]

    warming = vitals(100, rss_bytes=lambda second: 100_000_000 + min(second, 20) * 5_000_000)
    write(tmp_path / "samples", "a.jsonl", warming)
    check = check_of(finished(seconds=100), "S004")
    assert check["outcome"] == "ok"
    assert "no steady growth" in check["evidence"]

    write(tmp_path / "samples", "a.jsonl", lines[:60])
    check = check_of(finished(seconds=60), "S004")
    assert check["outcome"] == "ok"
    assert "too short to tell" in check["evidence"]


def test_memory_at_its_limit(finished: Finish, tmp_path: Path) -> None:
    """Is a warning, however it got there."""
    lines = vitals(10, rss_bytes=lambda _: 95_000_000, memory_limit_bytes=lambda _: 100_000_000)
    write(tmp_path / "samples", "a.jsonl", lines)
    assert check_of(finished(), "S004")["outcome"] == "warn"


def test_a_service_that_is_held_back(finished: Finish, tmp_path: Path) -> None:
    """By its own limit and by its hypervisor; each has its remedy."""
    lines = vitals(10, throttled_ms=lambda _: 200.0, steal_percent=lambda _: 8.0)
    write(tmp_path / "samples", "a.jsonl", lines)
    check = check_of(finished(), "S005")
    assert check["outcome"] == "warn"
    assert "for 20 % of the time" in check["evidence"]
    assert "raise the CPU limit" in check["remedy"]
    assert "not shared" in check["remedy"]
    calm = vitals(10, throttled_ms=lambda _: 0.0, steal_percent=lambda _: 0.0)
    write(tmp_path / "samples", "a.jsonl", calm)
    assert check_of(finished(), "S005")["outcome"] == "ok"


def test_both_sides_over_time(finished: Finish, tmp_path: Path) -> None:
    """Each process has its columns; a rate comes from a counter."""
    lines = vitals(10, rss_bytes=lambda _: 50_000_000, cpu_percent=lambda s: 10.0 * s)
    write(tmp_path / "samples", "service.jsonl", lines)
    made = vitals(10, requests=lambda s: 200 * s, users=lambda _: 5)
    write(tmp_path / "samples", "generator.jsonl", made, side="generator", host_name="load-1")
    result = finished()
    (series,) = result["service"]["series"]
    assert series["elapsed_s"] == [float(second) for second in range(1, 11)]
    assert series["rss_mb"] == [50.0] * 10
    assert "throttled_ms" not in series
    (series,) = result["generator"]["series"]
    assert series["rate_per_s"] == [None, *[200.0] * 9]


def test_both_files_of_a_process_are_one(finished: Finish, tmp_path: Path) -> None:
    """The older and the newer, in the order of their times."""
    lines = vitals(10, rss_bytes=lambda second: second * 1_000_000)
    write(tmp_path / "samples", "a.jsonl", lines[6:])
    write(tmp_path / "samples", "a.1.jsonl", lines[:6])
    (series,) = finished()["service"]["series"]
    assert series["rss_mb"] == [float(second) for second in range(1, 11)]


def test_samples_of_another_time(finished: Finish, tmp_path: Path) -> None:
    """Are left out, and the check says why nothing is known."""
    write(tmp_path / "samples", "a.jsonl", [{"t": 5000, "rss_bytes": 1}])
    result = finished()
    assert result["service"] is None
    assert "or the clocks of the two hosts differ" in check_of(result, "S003")["evidence"]


def test_a_damaged_file_is_a_remark(finished: Finish, tmp_path: Path) -> None:
    """The others are read all the same."""
    write(tmp_path / "samples", "a.jsonl", vitals(10, rss_bytes=lambda _: 10**6))
    (tmp_path / "samples/b.jsonl").write_text("{}\n")
    result = finished()
    (remark,) = result["service"]["remarks"]
    assert remark.startswith("1 sample files could not be read")
    assert (tmp_path / "report.html").is_file()


HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=5),
    st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=3),
)
KEYS = (
    *("rss_bytes", "loop_lag_max_ms", "loop_blocked_ms", "cpu_percent", "throttled_ms"),
    *("memory_limit_bytes", "steal_percent", "gc_pause_ms", "in_flight", "took_ms", "file"),
    *("line", "function", "stack", "requests", "p95_ms", "count", "max_ms"),
    *("hub_lag_ms", "hub_lag_max_ms", "hub_lag_spans_ms", "hub_blocked_ms", "cpu_wait_ms"),
    *("fds", "fds_limit", "ports_taken", "ports_available", "ports_time_wait"),
    *("connections_opened", "pool_waits", "pool_wait_ms", "pool_wait_max_ms", "gc_pause_max_ms"),
)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_whatever_stands_in_samples(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """Values of the wrong type or size make no error and no figure that is not one."""
    directory = tmp_path_factory.mktemp("samples")
    line = st.dictionaries(st.sampled_from(KEYS), HOSTILE)
    kind = st.sampled_from(("vitals", "blocked", "other"))
    lines = data.draw(st.lists(st.tuples(kind, line), max_size=8))
    hostile = [{"t": at, "kind": kind} | values for at, (kind, values) in enumerate(lines)]
    for side in ("service", "generator"):
        write(directory, f"{side}.jsonl", hostile, side=side, instance="x", python=["\x1b"])
    sampled = read_sampled(directory, Window(BEGIN_S, BEGIN_S + 10))
    root = result_schema()
    service = service_section(sampled, figures_of(sampled))
    check(service, root["$defs"]["service"], root, "service")
    generator = generator_section(sampled, generator_figures(sampled))
    check(generator, root["$defs"]["generator"], root, "generator")
    json.dumps([service, generator], allow_nan=False)


@given(st.integers(1, 3000), st.integers(2, 50))
@settings(deadline=None, max_examples=40)
def test_thinned_columns_keep_the_extremes(n: int, most: int) -> None:
    """So many points at most, in order, and the largest value is still there."""
    lines = [
        {"wall_s": BEGIN_S + at, "cpu_percent": float(at * 7919 % 1009), "requests": at}
        for at in range(n)
    ]
    made = columns(lines, BEGIN_S, ("cpu_percent", "rate_per_s", "rss_mb"), most)
    assert len(made["elapsed_s"]) <= most
    assert made["elapsed_s"] == sorted(made["elapsed_s"], key=lambda value: value or 0.0)
    largest = max(line["cpu_percent"] for line in lines)
    assert max(value or 0.0 for value in made["cpu_percent"]) == largest
    assert "rss_mb" not in made
    rates = [value for value in made.get("rate_per_s", []) if value is not None]
    assert all(value == pytest.approx(1.0) for value in rates)
    assert most <= POINTS_MAX


def test_a_sliver_is_no_point() -> None:
    """A sample just after another, as at the end of a run, makes no rate of its own."""
    lines = [
        {"wall_s": BEGIN_S + at, "requests": made}
        for at, made in ((1.0, 0), (2.0, 100), (2.001, 109), (3.0, 200))
    ]
    made = columns(lines, BEGIN_S, ("rate_per_s",))
    assert made == {"elapsed_s": [1.0, 2.0, 3.0], "rate_per_s": [None, 100.0, 100.0]}


@given(st.lists(st.floats(0, 1e9), min_size=1))
def test_a_spread_is_of_values_that_were_seen(values: list[float]) -> None:
    """Each of its figures is one of them, in order; of none there is no spread."""
    spread = spread_of(values)
    assert spread is not None
    assert spread.p50 <= spread.p95 <= spread.max == max(values)
    assert {spread.p50, spread.p95} <= set(values)
    assert spread_of([]) is None


@given(st.floats(0.1, 100), st.integers(100, 400), st.floats(0, 1), st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_a_slope_is_not_moved_by_outliers(
    slope: float, seconds: int, share: float, seed: int
) -> None:
    """A few wild points leave the slope where it is."""
    chance = random.Random(seed)
    times = [float(at) for at in range(seconds)]
    memory = [100 + slope / 60 * at for at in times]
    for at in chance.sample(range(seconds), int(seconds * 0.05 * share)):
        memory[at] += 1000
    growth = growth_of(times, memory)
    assert growth is not None
    assert growth.mb_per_min == pytest.approx(slope, rel=0.15)
