"""The stages that a run is asked for."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from locust import User, constant_throughput

from trilat.locust import faults
from trilat.locust.load.stages import Asked, Stages, watch_starts


class _Paced(User):
    wait_time = constant_throughput(2)


def _facts(stages: Stages, rate: float | None = None) -> list[tuple[Any, ...]]:
    return [
        (s["from_s"], s["to_s"], s["users_from"], s["users"], s["ramp"], s["rate_to_per_s"])
        for s in stages.facts(rate)
    ]


def test_a_ramp_and_what_follows() -> None:
    """A ramp ends when all users are there; one that is over at once is no stage of its own."""
    stages = Stages([_Paced], Asked(10, 2.5))
    assert _facts(stages) == [(0, None, 0, 10, True, 0)]
    stages.complete(4.0, {"_Paced": 10})
    stages.change(20.0, {"_Paced": 10}, Asked(30, 100.0))
    stages.complete(20.4, {"_Paced": 30})
    stages.stop(40.0, {"_Paced": 30})
    expected = [
        (0, 4.0, 0, 10, True, 20),
        (4.0, 20.0, 10, 10, False, 20),
        (20.0, 40.0, 10, 30, False, 60),
    ]
    assert _facts(stages) == expected
    assert [each["step"] for each in stages.facts(None)] == [2, 0, 0]


def test_a_rate_by_option_is_of_the_most_users() -> None:
    """Elsewhere there is none."""
    stages = Stages([User], Asked(5, 10))
    stages.complete(0.1, {"User": 5})
    stages.change(10.0, {"User": 5}, Asked(20, 50))
    stages.complete(10.2, {"User": 20})
    stages.stop(30.0, {"User": 20})
    assert [each[-1] for each in _facts(stages, 100.0)] == [None, 100.0]
    assert [each[-1] for each in _facts(stages)] == [None, None]


def test_a_ramp_that_is_broken_off() -> None:
    """By another wish, or by the end: as many users as there were by then."""
    stages = Stages([_Paced], Asked(100, 1))
    stages.change(7.0, {"_Paced": 7}, Asked(3, 1))
    stages.stop(9.0, {"_Paced": 5})
    assert _facts(stages) == [(0, 7.0, 0, 7, True, 14), (7.0, 9.0, 7, 5, True, 10)]
    stages.complete(9.0, {"_Paced": 5})


def test_a_shape_that_changes_each_second_has_a_hundred_stages() -> None:
    """The shortest become one, which is a ramp; nothing is left out."""
    stages = Stages([_Paced], Asked(1, 100))
    for second in range(1, 5000):
        stages.complete(second - 0.9, {"_Paced": second})
        stages.change(float(second), {"_Paced": second}, Asked(second + 1, 100))
    stages.stop(5000.0, {"_Paced": 5000})
    facts = stages.facts(None)
    assert len(facts) == 100
    assert facts[0]["from_s"] == 0
    assert facts[-1]["to_s"] == 5000
    for before, after in pairwise(facts):
        assert before["to_s"] == pytest.approx(after["from_s"], abs=0.06)


def test_calls_of_start_are_watched() -> None:
    """However they name their arguments; what is wrong with them is the runner's to say."""
    faults.counts.clear()
    called: list[tuple[Any, ...]] = []
    runner: Any = SimpleNamespace(start=lambda *args, **kwargs: called.append((args, kwargs)))
    seen: list[Asked] = []
    watch_starts(runner, seen.append)
    assert Asked.of(runner) == Asked()
    runner.start(5, 2.5, wait=False)
    runner.start(user_count=7, spawn_rate=1)
    assert seen == [Asked(5, 2.5), Asked(7, 1.0)]
    assert Asked.of(runner).step == 1
    runner.start("many")
    assert len(called) == 3
    assert faults.counts.pop("noting a stage") == 1
