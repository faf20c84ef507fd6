"""Each user's schedule, kept beside Locust's own, with plans as Locust makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from locust import TaskSet, User, between, constant, constant_pacing, constant_throughput, task

from trilat.locust import faults
from trilat.locust.load.arrivals import Pace
from trilat.locust.load.schedule import describe_wait_time, pacing_of, rate_of, task_rate
from trilat.locust.marks.timeline import Due

S = 1_000_000_000
NO_SCHEDULE = Due(-1, 0)
Wait = Callable[..., Due]


class _Paced(User):
    wait_time = constant_pacing(1)

    @task
    def nothing(self) -> None:
        """One that takes no time."""


@pytest.fixture
def pace() -> Iterator[Pace]:
    """Counts, of users of one class; nothing of our own fails."""
    faults.counts.clear()
    pace = Pace()
    pace.start([_Paced])
    yield pace
    pace.stop()
    assert not faults.counts


@pytest.fixture
def wait(pace: Pace) -> Wait:
    """``wait(taskset, owner, ended, planned)``: a task has ended, and Locust plans the next one.

    ``ended`` and ``planned`` are seconds; without an owner the wait is none that Locust paces.
    """

    def waits(taskset: Any, owner: Any = None, ended: float = 0, planned: float = 0) -> Due:
        user = taskset._user
        taskset._trilat_plans = (
            *(user._cp_last_run, user._cp_last_wait_time),
            *(taskset._cp_last_run, taskset._cp_last_wait_time),
        )
        if owner is not None:
            owner._cp_last_run, owner._cp_last_wait_time = ended, max(planned - ended, 0)
        return pace._waits(taskset)

    return waits


def _user(kind: type[User] = _Paced) -> tuple[Any, Any]:
    """A user that began its tasks at 100 s, made at 99 s, and its TaskSet."""
    user: Any = kind(SimpleNamespace())
    user._cp_last_run, user._trilat_began = 99.0, 100.0
    taskset: Any = TaskSet(user)
    taskset._cp_last_run = 99.5
    return user, taskset


def test_a_user_that_keeps_its_pace_is_due_when_locust_plans(wait: Wait, pace: Pace) -> None:
    """One task a period, none is missed."""
    user, taskset = _user()
    for second in range(100, 105):
        assert wait(taskset, user, second + 0.2, second + 1) == Due((second + 1) * S, 0)
    assert (pace.run, pace.missed) == (5, 0)


def test_what_was_due_while_a_task_ran_is_missed(wait: Wait, pace: Pace) -> None:
    """It took 4.7 periods: one task starts at once, three never do, and 0.7 of one is kept."""
    user, taskset = _user()
    wait(taskset, user, 100.2, 101)
    assert wait(taskset, user, 105.7, 105.7) == Due(102 * S, 3)
    # Locust plans from there. 0.4 late once more: with the 0.7 from before, that is one.
    assert wait(taskset, user, 107.1, 107.1) == Due(round(106.7 * S), 1)
    assert wait(taskset, user, 107.3, 108.1) == Due(round(108.1 * S), 0)
    assert (pace.run, pace.missed) == (4, 4)


def test_the_time_of_on_start_is_not_late(wait: Wait, pace: Pace) -> None:
    """Locust plans from when the user was made; a plan begins with the first task."""
    user, taskset = _user()
    user._trilat_began = 103.0
    assert wait(taskset, user, 103.2, 103.2) == Due(round(103.2 * S), 0)
    late_user, other = _user()
    assert wait(other, late_user, 102.5, 102.5) == Due(101 * S, 1)

    class Prepares(TaskSet):
        def on_start(self) -> None:
            """Takes long; when it ended nobody knows."""

    third, _ = _user()
    prepares: Any = Prepares(third)
    assert wait(prepares, third, 102.5, 102.5) == Due(round(102.5 * S), 0)
    assert pace.missed == 1


def test_a_taskset_of_its_own_pace_in_a_user_of_another(wait: Wait, pace: Pace) -> None:
    """Each has its own schedule; think times have none and change none."""
    user, outer = _user()
    inner: Any = TaskSet(outer)
    inner.wait_time = partial(constant_throughput(10), inner)
    inner._cp_last_run = inner._trilat_began = 100.0
    wait(outer, user, 100.1, 101)
    assert wait(inner, inner, 100.05, 100.1) == Due(round(100.1 * S), 0)
    assert pace._rate_of(user) == pytest.approx(10)
    assert wait(inner, inner, 100.45, 100.45) == Due(round(100.2 * S), 2)
    assert wait(outer) == NO_SCHEDULE  # left; and another TaskSet thinks
    assert pace._rate_of(user) == 1
    assert wait(outer, user, 101.9, 102) == Due(102 * S, 0)
    assert pace.run == 4


def test_pacing_without_a_pause_is_no_schedule(wait: Wait, pace: Pace) -> None:
    """As ``constant_pacing(0)`` is."""
    user, taskset = _user()
    user.wait_time = partial(constant_pacing(0), user)
    assert wait(taskset, user, 100.2, 100.2) == NO_SCHEDULE
    assert pace.run == 0


def test_a_method_that_calls_locust_s_pacing(wait: Wait, pace: Pace) -> None:
    """Its period is known from the first plan that it made."""
    user, taskset = _user()
    user.wait_time = lambda: 0.0
    assert wait(taskset, user, 99.2, 100) == Due(100 * S, 0)
    assert wait(taskset, user, 103.5, 103.5) == Due(101 * S, 2)
    stuck, other = _user()
    stuck.wait_time = lambda: 0.0
    assert wait(other, stuck, 105, 105) == Due(105 * S, 0)  # nothing is known of it yet
    assert pace.missed == 2


def test_users_count_from_their_first_task_on(pace: Pace) -> None:
    """One in its on_start is not wanted to run anything; the rate is that of all there are."""
    user, _ = _user()
    starting: Any = _Paced(SimpleNamespace())
    assert [pace._rate_of(each) for each in (user, starting)] == [1, 0]
    pace.tick([user, starting])
    before = pace.wanted
    pace.tick([user, starting])
    assert pace.wanted > before
    pace.start_anew()
    assert (pace.wanted, pace.run, pace.missed) == (0, 0, 0)


def test_an_error_of_ours_does_not_reach_the_user() -> None:
    """The wait goes on as Locust has it; the error is counted."""
    faults.counts.clear()
    pace = Pace()
    pace.start([])
    waited: list[float] = []

    class Odd(TaskSet):
        wait_time = constant(0)

    user = SimpleNamespace(_state="running", wait_time=None, min_wait=0, max_wait=0)
    user.wait_function = None
    odd: Any = Odd(user)  # type: ignore[arg-type]
    odd._user = user  # has no plans at all
    try:
        odd.wait()
        waited.append(0)
    finally:
        pace.stop()
    assert waited == [0]
    assert faults.counts["keeping the schedule"] == 2
    faults.counts.clear()


def test_the_pace_of_a_wait_time_however_it_is_held() -> None:
    """A function, a method, a partial; nothing of another make."""
    pacing = constant_throughput(4)
    user = _Paced(SimpleNamespace())
    for held in (pacing, pacing.__get__(user), partial(pacing, user), constant_pacing(0.25)):
        assert pacing_of(held) == 0.25
    for other in (None, between(1, 2), constant(1), lambda _: 1.0, 7):
        assert pacing_of(other) is None


def test_a_user_class_whose_only_task_is_a_paced_taskset() -> None:
    """It has that pace, also where it is nested; a mixture has the user's own."""

    class Inner(TaskSet):
        wait_time = constant_throughput(4)

        @task
        def nothing(self) -> None:
            """One that takes no time."""

    class Outer(TaskSet):
        tasks = [Inner]  # noqa: RUF012 - as Locust has it

    class OnTaskSet(User):
        tasks = [Outer, Outer]  # noqa: RUF012
        wait_time = between(1, 2)

    class Mixed(User):
        tasks = [Outer, lambda _: None]  # noqa: RUF012
        wait_time = constant_pacing(0.5)

    assert task_rate(OnTaskSet) == 4
    assert describe_wait_time(OnTaskSet) == "constant_throughput(4)"
    assert task_rate(Mixed) == 2
    assert rate_of([OnTaskSet, Mixed, User], {"OnTaskSet": 3, "User": 9}) == 12
    assert rate_of([User], {"User": 9}) is None
