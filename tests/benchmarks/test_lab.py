"""The accuracy lab: its scenarios, and one run of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from benchmarks.lab.abilities import Abilities, look
from benchmarks.lab.scenarios import QUICK, SCENARIOS
from benchmarks.lab.table import PARTS, SIDES
from benchmarks.lab.tables import TABLES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/accuracy.md"
LAB = [sys.executable, "-m", "benchmarks.lab"]


def test_scenarios_are_many_and_named_once() -> None:
    """At least 60, each with a name of its own, and the quick ones among them."""
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) >= 60
    assert len(set(names)) == len(names)
    assert set(QUICK) <= set(names)


def test_scenarios_expect_what_can_dominate() -> None:
    """Each says which part or side is to be the largest."""
    assert {scenario.expects for scenario in SCENARIOS} <= {*PARTS, *SIDES}


def test_what_is_left_out_is_said() -> None:
    """Without rights, each kind of scenario that falls away has its line."""
    lines = Abilities(captures=False, links=False, quotas=False, proxies=False).left_out(SCENARIOS)
    assert len(lines) == 4
    assert not Abilities(captures=True, links=True, quotas=True, proxies=True).left_out(SCENARIOS)


def test_the_page_has_a_place_for_each_table() -> None:
    """docs/accuracy.md is written from the lab's output."""
    text = PAGE.read_text()
    assert all(f"<!-- lab: {name} -->" in text for name in (*TABLES, "run"))


def test_an_unknown_name_is_refused() -> None:
    """One line, and the exit code of wrong usage."""
    command = [*LAB, "--only", "nobody"]
    ran = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 2
    assert "no scenario nobody; --list names all" in ran.stderr


@pytest.mark.alone
def test_scenarios_are_made_and_scored(tmp_path: Path) -> None:
    """One on the loopback and, where it can be made, one with a network of its own."""
    names = ["service-await"] + (["network-delay"] if look().links else [])
    only = [part for name in names for part in ("--only", name)]
    ran = subprocess.run(
        [*LAB, *only, "--format", "json", "--out", str(tmp_path / "out")],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    outcomes = json.loads(ran.stdout)
    assert [outcome["name"] for outcome in outcomes] == names
    for outcome in outcomes:
        scored = outcome["score"]
        assert scored["requests"] >= scored["joined"] > 0
        assert scored["matched"] == scored["joined"]
        # The service's own time is read from one clock, twice: however busy the machine is.
        app = scored["parts"]["service.app"]
        assert app["p50"]["truth"] > 0
        assert abs(app["p50"]["error"]) < 1
        if look().captures:
            assert scored["dominant"]["truth"] in PARTS
            assert sum(scored["share_points"].values()) == pytest.approx(0, abs=0.5)
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left == {"facts.json", "scenarios.jsonl", "tables.md"}


@pytest.mark.alone
def test_an_interrupt_ends_all_of_it(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a scenario: the lab says so, and no process of it is left."""
    command = [*LAB, "--only", "service-await", "--out", str(tmp_path / "out")]
    lab = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    started: list[psutil.Process] = []
    gives_up = time.monotonic() + 60
    while not started and lab.poll() is None and time.monotonic() < gives_up:
        time.sleep(0.05)
        started = psutil.Process(lab.pid).children(recursive=True)
    os.kill(lab.pid, signal.SIGINT)
    _, said = lab.communicate(timeout=60)
    assert lab.returncode == 130, said
    assert b"interrupted" in said
    assert not [process for process in started if process.is_running()]
    assert not (tmp_path / "out/service-await").exists()
