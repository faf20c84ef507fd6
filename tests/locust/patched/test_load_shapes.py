"""The load shapes of ``examples/loads``: how many users they ask for, at any moment."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

LOADS = Path(__file__).parents[3] / "examples/loads"
USERS, SECONDS = 200, 1000


@pytest.fixture
def modules() -> Iterator[None]:
    """The folder is where Python looks for modules, as it is for Locust."""
    sys.path.insert(0, str(LOADS))
    yield
    sys.path.remove(str(LOADS))


def asked(module: str, name: str, users: int = USERS, run_time: int | None = SECONDS) -> list[Any]:
    """What a shape's ticks say, one in each thousandth of its time, equal ones once."""
    shape: Any = getattr(importlib.import_module(module), name)()
    options = SimpleNamespace(num_users=users, run_time=run_time)
    shape.runner = SimpleNamespace(environment=SimpleNamespace(parsed_options=options))
    told = []
    for part in range(1001):
        # In the middle of each thousandth; a tick needs far less time than half of one.
        shape.start_time = time.perf_counter() - shape.seconds * (part + 0.5) / 1000
        told.append(shape.tick())
    return [tick for tick, _ in groupby(told)]


@pytest.mark.parametrize(
    ("module", "name", "ticks"),
    [
        ("ramp_then_hold", "RampThenHold", [(200, 1), None]),
        ("steps", "Steps", [(40, 200), (80, 200), (120, 200), (160, 200), (200, 200), None]),
        ("spike", "Spike", [(20, 200), (200, 200), (20, 200), None]),
        ("exam_day", "ExamDay", [(40, 2), (200, 2), (0, 2), None]),
    ],
)
def test_a_shape_asks_for_what_it_says(
    modules: None, module: str, name: str, ticks: list[Any]
) -> None:
    """Part after part, and then the end; no part is shorter than its users take to come or go."""
    assert asked(module, name) == ticks


@pytest.mark.parametrize(
    ("module", "name", "minutes"),
    [
        ("ramp_then_hold", "RampThenHold", 15),
        ("steps", "Steps", 15),
        ("spike", "Spike", 10),
        ("exam_day", "ExamDay", 120),
    ],
)
def test_a_shape_has_a_length_of_its_own(
    modules: None, module: str, name: str, minutes: int
) -> None:
    """Without ``--run-time`` it takes as long as its text says; one user is enough to try it."""
    ticks = asked(module, name, 1, None)
    assert max(users for users, _ in ticks[:-1]) == 1
    assert all(rate > 0 for _, rate in ticks[:-1])
    assert ticks[-1] is None
    shape: Any = getattr(importlib.import_module(module), name)
    assert shape.minutes == minutes


def test_each_student_has_an_account(modules: None) -> None:
    """Two processes share the file between them; after its last line it begins again."""
    student: Any = importlib.import_module("student")

    def take(index: int, count: int) -> list[str]:
        student._students = iter(range(1000))
        options = SimpleNamespace(processes=2)
        here = SimpleNamespace(parsed_options=options, runner=SimpleNamespace(worker_index=index))
        return [student.next_account(here)["name"] for _ in range(count)]

    first, second = take(0, 50), take(1, 50)
    assert sorted(first + second) == [f"student{number:03}" for number in range(1, 101)]
    assert take(0, 51)[-1] == first[0]
