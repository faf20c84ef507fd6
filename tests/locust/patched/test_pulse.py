"""The generator's samples, taken on its hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gevent
import pytest

from trilat.agent.samples import read_samples
from trilat.locust import faults
from trilat.locust.health.hub import HubWatch
from trilat.locust.health.pulse import HEALTH, Pulse


@pytest.fixture(autouse=True)
def _no_faults() -> None:
    faults.counts.clear()


def test_samples_hold_the_vitals_and_what_the_run_does(tmp_path: Path) -> None:
    """One sample a second and a last one: the service's kind, with the generator's own figures."""
    windows: list[float] = []

    def beat(seconds: float) -> dict[str, Any]:
        windows.append(seconds)
        return {"users": 5}

    pulse = Pulse(tmp_path / "generator-1.jsonl", {"run": "0123456789ab"}, beat, HubWatch())
    while not windows:
        gevent.sleep(0.05)
    pulse.stop()
    read = read_samples(tmp_path / "generator-1.jsonl")
    assert (read.facts["side"], read.facts["run"]) == ("generator", "0123456789ab")
    samples = list(read.of("vitals"))
    assert len(samples) == len(windows) >= 2
    sample = samples[0]
    assert HEALTH.keys() | {"kind", "wall_s", "monotonic_s", "users"} == sample.keys()
    assert pulse.latest["hub_lag_ms"] == samples[-1]["hub_lag_ms"]
    # The timer covers the time between the samples, but for the ticks on their way.
    spans_ms = sum(sum(each["hub_lag_spans_ms"]) for each in samples)
    assert spans_ms == pytest.approx(1000 * sum(windows), rel=0.5)
    assert sample["users"] == 5
    assert sample["rss_bytes"] > 0
    assert sample["cpu_percent"] == pytest.approx(pulse.cpu.highest, abs=0.1)
    assert pulse.cpu.elapsed_s == pytest.approx(sum(windows))
    assert not faults.counts


def test_samples_that_no_disk_takes_are_counted(tmp_path: Path) -> None:
    """The run goes on without them."""
    pulse = Pulse(tmp_path / "missing/generator-1.jsonl", {}, lambda _: {})
    pulse.sample()
    pulse.stop()
    assert faults.counts == {"samples": 2}
    faults.counts.clear()


def test_fresh_samples_go_to_a_master_once_and_in_bounds(tmp_path: Path) -> None:
    """The same lines as in the file, as types that msgpack knows; of too many the latest."""
    pulse = Pulse(tmp_path / "generator-1.jsonl", {}, lambda _: {"users": 5, "text": "x" * 10_000})
    pulse.sample()
    pulse.sample()
    read = read_samples(tmp_path / "generator-1.jsonl")
    assert [json.loads(line) for line in pulse.take_fresh()] == list(map(dict, read.lines))
    assert pulse.take_fresh() == []
    for _ in range(10):
        pulse.sample()
    fresh = pulse.take_fresh()
    assert 0 < sum(map(len, fresh)) <= 64 * 1024
    assert json.loads(fresh[-1])["connections_opened"] == pulse.latest["connections_opened"]
    pulse.stop()


def test_a_beat_that_fails_costs_its_sample_only(tmp_path: Path) -> None:
    """An error in what the run adds is counted; the CPU's windows go on."""

    def beat(_seconds: float) -> dict[str, Any]:
        raise RuntimeError("no runner")

    pulse = Pulse(tmp_path / "generator-1.jsonl", {}, beat)
    pulse.stop()
    assert faults.counts == {"sampling": 1}
    assert read_samples(tmp_path / "generator-1.jsonl").lines == ()
    faults.counts.clear()


def test_the_page_explains_every_figure() -> None:
    """With its unit, and where it comes from."""
    page = (Path(__file__).parents[3] / "docs/generator.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 5]
    for key in HEALTH:
        assert any(f"`{key}`" in row.split("|")[1] for row in rows), key
