"""The schedule of each user, kept beside Locust's own: when a task was to start, and did it.

``constant_pacing`` (and ``constant_throughput``, which is the same) plans the next task one period
after the last one was planned. A user whose task took longer starts the next one at once, and
Locust forgets when that was due, and what was due since then. Both are kept here.

The plan of the next task is ``_cp_last_run + _cp_last_wait_time`` of the user, or of the TaskSet
that has a ``wait_time`` of its own. Locust moves both in each paced wait and in no other, so it
makes no difference how the wait time got there: in the class, set on the instance, or called by a
method of the locustfile's.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any

from greenlet import getcurrent

from locust.user.task import TaskSet
from trilat.locust import faults
from trilat.locust.marks.timeline import Due

from .schedule import pacing_of, task_rate

__all__ = ["Pace"]

_TaskSet: Any = TaskSet
_plain_wait = _TaskSet.wait
_plain_sleep = _TaskSet._sleep
_plain_run = _TaskSet.run
_plain_on_start = _TaskSet.on_start

_NO_SCHEDULE = Due(-1, 0)
_NS = 1e9
_SLIVER_S = 0.5  # a rate over less means little


class _Schedule:
    """What one user, or one of its TaskSets, is paced by.

    Attributes:
        owner: the user or TaskSet.
        period_s: between two tasks; None until it is known.
        behind_s: by how much less than a period the tasks that were run stay behind those that
            were due. Locust does not make up for it, so one day it is a task that was missed.
    """

    __slots__ = ("behind_s", "owner", "period_s")

    def __init__(self, owner: Any, planned_before: float) -> None:
        self.owner = owner
        self.period_s: float | None = pacing_of(getattr(owner, "wait_time", None))
        self.behind_s = 0.0
        if self.period_s is None and owner._cp_last_wait_time > 0:  # a method that calls Locust's
            self.period_s = owner._cp_last_run + owner._cp_last_wait_time - planned_before

    def next_due(self, planned_before: float | None) -> Due:
        """When the task that comes next was to start, and how many were missed up to its start.

        Args:
            planned_before: when the task that has ended was to start; None: it had no plan.
        """
        owner = self.owner
        planned = owner._cp_last_run + owner._cp_last_wait_time
        if owner._cp_last_wait_time > 0 or planned_before is None:
            return Due(round(planned * _NS), 0)
        period = self.period_s
        if period is None:  # since then it may have been set on the instance
            period = self.period_s = pacing_of(getattr(owner, "wait_time", None))
        late = planned - planned_before - (period or 0.0)
        if late <= 0 or not period:
            return Due(round(planned * _NS), 0)
        missed, self.behind_s = divmod(self.behind_s + late, period)
        return Due(round((planned - late) * _NS), int(missed))


class Pace:
    """Tasks wanted, run and missed by paced users, counted over a run.

    Wanted is the rate of all users that have begun their tasks, integrated over time, so ramps and
    load shapes need no special case. A task is counted as run where it ends: in ``TaskSet.wait``.

    Attributes:
        wanted: tasks that the users' schedules wanted.
        run: tasks that paced users ran.
        missed: tasks that were due while their user was busy with another, and never started.
        wanted_per_s: over the last second or so; None where no user has a schedule.
        reached_per_s: the same for tasks that were run.
    """

    def __init__(self) -> None:
        self.wanted = 0.0
        self.run = 0
        self.missed = 0
        self.wanted_per_s: float | None = None
        self.reached_per_s: float | None = None
        self._rates: dict[type[Any], float] = {}
        self._rate = 0.0
        self._at = perf_counter()
        self._shown = (self._at, 0)
        self._seen = False

    def start(self, user_classes: list[type[Any]]) -> None:
        """Begin to count for these user classes."""
        self.wanted, self.run, self.missed = 0.0, 0, 0
        self._rate, self._at = 0.0, perf_counter()
        self._shown = (self._at, 0)
        self._rates = {c: rate for c in user_classes if (rate := task_rate(c))}
        self._seen = bool(self._rates)
        pace = self

        def wait(self: Any) -> None:
            try:
                user = self._user
                self._trilat_due = None
                self._trilat_plans = (
                    user._cp_last_run,
                    user._cp_last_wait_time,
                    self._cp_last_run,
                    self._cp_last_wait_time,
                )
            except Exception as error:  # noqa: BLE001 - fails open
                faults.note("keeping the schedule", error)
            _plain_wait(self)
            greenlet: Any = getcurrent()
            greenlet.trilat_due = getattr(self, "_trilat_due", None)

        def run(self: Any) -> None:
            try:
                self._trilat_began = now = perf_counter()
                if not hasattr(self._user, "_trilat_began"):
                    self._user._trilat_began = now
            except Exception as error:  # noqa: BLE001 - fails open
                faults.note("keeping the schedule", error)
            _plain_run(self)

        def sleep(self: Any, seconds: float) -> None:
            try:
                self._trilat_due = pace._waits(self)
            except Exception as error:  # noqa: BLE001 - fails open
                faults.note("keeping the schedule", error)
            _plain_sleep(self, seconds)

        _TaskSet.run, _TaskSet.wait, _TaskSet._sleep = run, wait, sleep

    def start_anew(self) -> None:
        """Count from here on: what came so far is left out."""
        self.wanted, self.run, self.missed = 0.0, 0, 0
        self._shown = (perf_counter(), 0)

    def stop(self) -> None:
        """Count no longer."""
        _TaskSet.run, _TaskSet.wait, _TaskSet._sleep = _plain_run, _plain_wait, _plain_sleep

    def tick(self, users: Iterable[Any]) -> None:
        """Now these users are there; since the last call their number was on a line."""
        now = perf_counter()
        seconds, self._at = now - self._at, now
        if not self._seen:
            return
        rate = sum(map(self._rate_of, users))
        self.wanted += (self._rate + rate) / 2 * seconds
        self._rate = rate
        since, run = self._shown
        if now - since > _SLIVER_S:
            self.wanted_per_s, self.reached_per_s = rate, (self.run - run) / (now - since)
            self._shown = (now, self.run)

    def _rate_of(self, user: Any) -> float:
        if not hasattr(user, "_trilat_began"):
            return 0.0  # it is in its on_start
        schedule = getattr(user, "_trilat_schedule", None)
        if schedule is not None and schedule.period_s:
            return 1.0 / float(schedule.period_s)
        return self._rates.get(type(user), 0.0)

    def _waits(self, taskset: Any) -> Due:
        """A task has ended and its user is about to wait; what is due after that."""
        user = taskset._user
        user_run, user_wait, own_run, own_wait = taskset._trilat_plans
        planned: float | None
        if taskset._cp_last_run != own_run:
            owner, planned = taskset, own_run + own_wait
        elif user._cp_last_run != user_run:
            owner, planned = user, user_run + user_wait
        else:
            schedule = getattr(user, "_trilat_schedule", None)
            if schedule is not None and schedule.owner is not user:
                user._trilat_schedule = None  # it has left the TaskSet that was paced
            return _NO_SCHEDULE
        schedule = getattr(owner, "_trilat_own", None)
        if schedule is None:
            schedule = owner._trilat_own = _Schedule(owner, planned)
            # Locust's first plan is of when the user was made, not of its first task.
            planned = None
            if type(taskset).on_start is _plain_on_start:
                planned = getattr(owner, "_trilat_began", None)
        due: Due = schedule.next_due(planned)
        if schedule.period_s == 0:
            return _NO_SCHEDULE
        user._trilat_schedule = schedule
        self._seen = True
        self.run += 1
        self.missed += due.missed
        return due
