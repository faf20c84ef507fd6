"""The generator's samples, taken on its hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gevent
import pytest

from trilat.agent.samples import read_samples
from trilat.agent.vitals import VITALS
from trilat.locust import faults
from trilat.locust.pulse import Pulse


@pytest.fixture(autouse=True)
def _no_faults() -> None:
    faults.counts.clear()


def test_samples_hold_the_vitals_and_what_the_run_does(tmp_path: Path) -> None:
    """One sample a second and a last one: the service's kind, with the generator's own figures."""
    windows: list[float] = []

    def beat(seconds: float) -> dict[str, Any]:
        windows.append(seconds)
        return {"users": 5}

    pulse = Pulse(tmp_path / "generator-1.jsonl", {"run": "0123456789ab"}, beat)
    while not windows:
        gevent.sleep(0.05)
    pulse.stop()
    read = read_samples(tmp_path / "generator-1.jsonl")
    assert (read.facts["side"], read.facts["run"]) == ("generator", "0123456789ab")
    assert len(list(read.of("vitals"))) == len(read.lines) == len(windows) >= 2
    sample = read.lines[0]
    assert VITALS.keys() | {"kind", "wall_s", "monotonic_s", "users"} == sample.keys()
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


def test_a_beat_that_fails_costs_its_sample_only(tmp_path: Path) -> None:
    """An error in what the run adds is counted; the CPU's windows go on."""

    def beat(_seconds: float) -> dict[str, Any]:
        raise RuntimeError("no runner")

    pulse = Pulse(tmp_path / "generator-1.jsonl", {}, beat)
    pulse.stop()
    assert faults.counts == {"sampling": 1}
    assert read_samples(tmp_path / "generator-1.jsonl").lines == ()
    faults.counts.clear()
