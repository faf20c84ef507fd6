"""The example's alert rules by themselves: checked, and played made-up figures."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, TypeAlias

import pytest

Figures: TypeAlias = dict[tuple[str, str], str]

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="Prometheus' promtool is not installed"
)

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIG = EXAMPLES / "prometheus/prometheus.yml"
RULES = EXAMPLES / "prometheus/trilat-alerts.yml"
QUIET: Figures = {
    ("trilat_workers", ""): "2x200",
    ("trilat_http_request_duration_seconds_count", ", route='/'"): "0+1500x200",
    ("trilat_http_requests_in_flight", ""): "30x200",
    ("trilat_loop_blocked_seconds_total", ""): "0+1.2x200",
    ("trilat_thread_wait_seconds_sum", ""): "0+1x200",
    ("trilat_thread_pool_waiting", ""): "0x200",
    ("trilat_listen_queue_connections", ", address='0.0.0.0:80'"): "1000x200",
    ("trilat_listen_queue_limit_connections", ", address='0.0.0.0:80'"): "2048x200",
    ("trilat_cgroup_throttled_seconds_total", ""): "0+0.6x200",
    ("trilat_process_resident_memory_bytes", ""): "880x200",
    ("trilat_cgroup_memory_limit_bytes", ""): "1000x200",
    ("trilat_journal_dropped_segments_total", ""): "3x200",
    ("trilat_journal_lost_records_total", ""): "3x200",
    ("trilat_instrumentation_errors_total", ""): "3x200",
}
"""Figures of a busy service that is well, by metric and labels: values every 15 s."""

FIRES: dict[str, Figures] = {
    "TrilatLoopBlocked": {("trilat_loop_blocked_seconds_total", ""): "0+3x200"},
    "TrilatRequestsPileUp": {("trilat_http_requests_in_flight", ""): "30x60 30+2x140"},
    "TrilatThreadPoolExhausted": {("trilat_thread_pool_waiting", ""): "5x200"},
    "TrilatAcceptQueueFilling": {
        ("trilat_listen_queue_connections", ", address='0.0.0.0:80'"): "1100x200"
    },
    "TrilatThrottled": {("trilat_cgroup_throttled_seconds_total", ""): "0+2x200"},
    "TrilatMemoryNearLimit": {("trilat_process_resident_memory_bytes", ""): "950x200"},
    "TrilatJournalDropping": {("trilat_journal_dropped_segments_total", ""): "0+1x200"},
    "TrilatJournalLosing": {("trilat_journal_lost_records_total", ""): "0+1x200"},
    "TrilatInstrumentationErrors": {("trilat_instrumentation_errors_total", ""): "3x100 4x100"},
}
"""What of it has to change for an alert to fire."""

BUSIER: Figures = {
    ("trilat_http_requests_in_flight", ""): "30x80 90x120",
    ("trilat_http_request_duration_seconds_count", ", route='/'"): "0+1500x80 120000+4500x120",
}
"""What of it changes with three times the requests."""


def check(*arguments: str | Path) -> None:
    """Run promtool, and expect that it finds nothing."""
    ran = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def check_rules(directory: Path, figures: Figures, expected: dict[str, Any]) -> None:
    """Have promtool play figures to the rules and compare what comes of it."""
    series = [
        {"series": f"{name}{{job='service', instance='a:80'{labels}}}", "values": values}
        for (name, labels), values in figures.items()
    ]
    case = {"interval": "15s", "input_series": series, **expected}
    path = directory / "case.json"
    path.write_text(json.dumps({"rule_files": [str(RULES)], "tests": [case]}))
    check("test", "rules", path)


def check_alerts(directory: Path, figures: Figures, *alerts: str) -> None:
    """Expect that these alerts fire at the end of half an hour, and no others."""
    test = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": "30m",
        "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts],
    }
    check_rules(directory, figures, {"promql_expr_test": [test]})


def test_the_files_are_valid() -> None:
    """Prometheus' own checker takes the configuration and the rules."""
    check("check", "config", CONFIG)
    check("check", "rules", "--lint-fatal", RULES)


@pytest.mark.parametrize("alert", sorted(FIRES))
def test_an_alert_fires_where_it_should(alert: str, tmp_path: Path) -> None:
    """Half an hour of made-up figures raises the alert that is meant for them, and no other."""
    check_alerts(tmp_path, {**QUIET, **FIRES[alert]}, alert)


@pytest.mark.parametrize("changed", [{}, BUSIER], ids=["well", "busier"])
def test_no_alert_fires_where_all_is_well(changed: Figures, tmp_path: Path) -> None:
    """A service that is well, or does more because more is asked of it, alerts nobody."""
    check_alerts(tmp_path, {**QUIET, **changed})


def test_the_alert_names_the_line_that_blocks(tmp_path: Path) -> None:
    """Who is called for a blocked event loop is told where to look."""
    by = "trilat_loop_blocked_by_seconds_total"
    figures = {
        **QUIET,
        **FIRES["TrilatLoopBlocked"],
        (by, ", file='a.py', line='7', function='most'"): "0+2x200",
        (by, ", file='b.py', line='8', function='less'"): "0+1x200",
    }
    description = (
        "All requests of a worker wait meanwhile. Most of it comes from a.py:7, most."
        " Await what waits there, or hand it to a thread."
    )
    test = {
        "eval_time": "30m",
        "alertname": "TrilatLoopBlocked",
        "exp_alerts": [
            {
                "exp_labels": {"job": "service", "instance": "a:80", "severity": "warning"},
                "exp_annotations": {
                    "summary": "The event loop of a:80 is blocked 10% of the time",
                    "description": description,
                },
            }
        ],
    }
    check_rules(tmp_path, figures, {"alert_rule_test": [test]})
