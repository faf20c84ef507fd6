"""Percentiles of what Locust counted between two looks."""

from __future__ import annotations

from locust.stats import RequestStats

from trilat.locust.recent import RecentTimes


def test_each_look_is_of_its_own_requests() -> None:
    """What was counted before does not come again; without a request there is no percentile."""
    stats, recent = RequestStats(), RecentTimes()
    assert recent.take(stats) == {"p50_ms": None, "p95_ms": None}
    for time in (10, 20, 30, 40):
        stats.log_request("GET", "/", time, 0)
    assert recent.take(stats) == {"p50_ms": 20.0, "p95_ms": 40.0}
    stats.log_request("GET", "/", 10, 0)
    assert recent.take(stats) == {"p50_ms": 10.0, "p95_ms": 10.0}
    assert recent.take(stats) == {"p50_ms": None, "p95_ms": None}


def test_counts_that_begin_anew() -> None:
    """As after a worker's report: all there is has come since."""
    stats, recent = RequestStats(), RecentTimes()
    stats.log_request("GET", "/", 10, 0)
    recent.take(stats)
    stats.reset_all()
    stats.log_request("GET", "/", 70, 0)
    assert recent.take(stats) == {"p50_ms": 70.0, "p95_ms": 70.0}
