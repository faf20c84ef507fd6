"""What reports show of how the load was made."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from trilat.correlator.report.html import render as render_page
from trilat.correlator.report.schedule import rate_label, schedule_note, stage_rows
from trilat.correlator.report.terminal import render

PAGE_WIDTH = 150


def stage(users: int, **facts: Any) -> dict[str, Any]:
    """A stage as a result has it."""
    return {
        "from_s": 0.0,
        "to_s": 30.0,
        "users_from": users,
        "users": users,
        "ramp": False,
        "mean_users": users,
        "target_rate_per_s": None,
        "reached_rate_per_s": None,
        "requests": 900,
        "failures": 0,
        "missed": 0,
        "rate_per_s": 30.0,
        "response_time_ms": {"p50": 10.0, "p95": 20.0, "p99": 30.0},
        "corrected_ms": {"p50": None, "p95": None, "p99": None},
        "shares": {"service": 0.5, "network": 0.1, "generator": 0.4, "unattributed": 0.0},
        "saturated": None,
    } | facts


def printed(result: dict[str, Any]) -> str:
    """The report in a terminal."""
    stream = io.StringIO()
    render(result, Console(file=stream, width=PAGE_WIDTH))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("run", "label"),
    [
        ({"users": 50}, "(50 users, no rate)"),
        ({"users": 1, "target_rate_per_s": None}, "(1 user, no rate)"),
        ({}, "(no rate)"),
        ({"users": 50, "target_rate_per_s": 100.0}, "of 100/s wanted"),
    ],
)
def test_a_load_without_a_rate_is_labelled_so(
    run: dict[str, Any], label: str, result: dict[str, Any]
) -> None:
    """Wherever the rate stands: below the table, in the tile, among the conditions."""
    assert rate_label({"run": run}) == label
    result["run"] = run
    assert label in printed(result)
    page = render_page(result)
    assert page.count(label) >= 2


def test_percentiles_from_intended_starts_beside_locust_s(result: dict[str, Any]) -> None:
    """With what was never started; nothing without a schedule."""
    total = result["total"]
    total["corrected_ms"] = {"p50": 12.0, "p95": 400.0, "p99": 900.0}
    total["response_time_ms"] |= {"p50": 11.0, "p95": 21.0, "p99": 31.0}
    total["schedule"] = {"scheduled": 900, "missed": 100, "mean_lateness_ms": 1.0}
    note = schedule_note(result)
    assert "p50 12.0 (11.0), p95 400 (21.0), p99 900 (31.0)" in note
    assert "100 tasks (10 %) never started" in note
    assert note in " ".join(printed(result).split())
    total["schedule"]["missed"] = 0
    assert "never started" not in schedule_note(result)
    del total["corrected_ms"]
    assert schedule_note(result) == ""


def test_stages_are_a_table(result: dict[str, Any]) -> None:
    """Each with its rates, and where the load was no longer taken; one stage needs no table."""
    ramp = stage(40, users_from=10, ramp=True, target_rate_per_s=25.0, reached_rate_per_s=24.0)
    full = stage(80, saturated=True, missed=7, corrected_ms={"p99": 777.0})
    result["stages"] = [ramp, full]
    first, second = stage_rows(result)
    assert (first.users, first.wanted, first.reached) == ("10 to 40", "25.0/s", "24.0/s")
    assert (second.users, second.wanted, second.saturated) == ("80", "no rate", True)
    for report in (printed(result), render_page(result)):
        for text in ("10 to 40", "no rate", "777", "saturated"):
            assert text in report
    result["stages"] = [ramp]
    assert stage_rows(result) == []
    assert "10 to 40" not in printed(result)


@pytest.mark.parametrize("stages", [None, 7, [None, 1], [{}, {"users": "many", "shares": []}]])
def test_stages_that_anybody_wrote(stages: Any, result: dict[str, Any]) -> None:
    """What is missing or of another type is shown as unknown."""
    result["stages"] = stages
    assert printed(result)
    assert render_page(result)
