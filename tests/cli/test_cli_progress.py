"""Progress: one line a person can read, whatever the file holds."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from trilat.correlator.commands import progress
from trilat.correlator.commands.progress import Progress, describe, run_time_s

FIGURES = {
    "state": "running",
    "users": 100,
    "elapsed_s": 12.3,
    "requests": 18000,
    "failures": 0,
    "rate_per_s": 1502.4,
    "target_rate_per_s": 2000.0,
    "p50_ms": 48.2,
    "p95_ms": 61.4,
    "shares": {"service": 0.4, "network": 0.02, "generator": 0.58, "unattributed": 0.0},
    "generator_cpu_percent": 98.0,
}


def test_a_full_line_says_how_far_how_fast_and_how_slow() -> None:
    """Elapsed time, users, rate against its target, p95 and the generator's CPU."""
    assert describe(FIGURES, 30) == (
        "12 s of 30 s, 100 users, 1,500/s of 2,000/s, p95 61.4 ms, generator CPU 98 %"
    )


def test_what_is_not_known_is_left_out_and_failures_are_not() -> None:
    """A spawning run without a target, a run time or a CPU figure yet, with failures."""
    figures = {"state": "spawning", "users": 3, "elapsed_s": 1, "failures": 2, "rate_per_s": 10}
    assert describe(figures, None) == "1 s (spawning), 3 users, 10.0/s (no rate), 2 failed"


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        (("-t", "30s"), 30),
        (("--run-time", "1h20m"), 4800),
        (("--run-time=90",), 90),
        (("-t5m",), 300),
        (("--headless",), None),
        (("-t",), None),
        (("-t", "soon"), None),
    ],
)
def test_the_run_time_is_read_as_locust_reads_it(
    arguments: tuple[str, ...], seconds: float | None
) -> None:
    """All spellings that Locust takes, and None for the rest."""
    assert run_time_s(arguments) == seconds


def _progress(
    live: Path, *, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> tuple[Progress, io.StringIO]:
    monkeypatch.setattr(progress, "_PLAIN_EVERY_S", 0.0)
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=120, color_system=None)
    return Progress(console, live, 30), output


def test_a_terminal_gets_a_live_line_with_the_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line, the bar and who has which share of the mean."""
    live = tmp_path / "live.json"
    live.write_text(json.dumps(FIGURES))
    shown, output = _progress(live, terminal=True, monkeypatch=monkeypatch)
    with shown:
        shown.update()
        shown.note("Locust warning: CPU usage above 90%")
    text = output.getvalue()
    assert "1,500/s of 2,000/s" in text
    assert "service 40 %, network 2 %, generator 58 %" in text
    assert "Locust warning: CPU usage above 90%" in text


def test_a_pipe_gets_plain_lines_without_escapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CI log shows each state once, on one line."""
    live = tmp_path / "live.json"
    live.write_text(json.dumps(FIGURES))
    shown, output = _progress(live, terminal=False, monkeypatch=monkeypatch)
    with shown:
        shown.update()
        shown.update()
    assert output.getvalue() == (
        "12 s of 30 s, 100 users, 1,500/s of 2,000/s, p95 61.4 ms, generator CPU 98 %, "
        "service 40 %, network 2 %, generator 58 %\n"
    )


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"users": "many"}'])
def test_a_damaged_file_is_no_reason_to_stop(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may be half there or not ours: progress goes on."""
    live = tmp_path / "live.json"
    live.write_bytes(content)
    shown, output = _progress(live, terminal=False, monkeypatch=monkeypatch)
    with shown:
        shown.update()
    assert output.getvalue().count("\n") <= 1


def test_control_characters_of_a_log_line_do_not_reach_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service's answer may end up in Locust's log; it must not steer the terminal."""
    shown, output = _progress(tmp_path / "live.json", terminal=False, monkeypatch=monkeypatch)
    with shown:
        shown.note("Locust error: \x1b[2J[red]gone")
    assert output.getvalue() == "Locust error: \\x1b[2J[red]gone\n"
