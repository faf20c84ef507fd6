"""The conditions of a run: what a result is worth nothing without, gathered for its manifest."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any, Literal

import locust
from trilat.correlator.manifest import Failure, Manifest, UserClass

from . import faults
from .schedule import client_of, describe_wait_time, task_rate
from .session import Session, users_by_class

__all__ = ["manifest_of", "target_rate"]

_FAILURES_MAX = 5
_ERROR_MAX = 200


def manifest_of(
    session: Session,
    *,
    mode: Literal["local", "master", "worker"],
    workers: int,
    objectives: Sequence[str],
    wanted: float,
    tasks: int,
    cpu: tuple[float, float] | None,
    kernel_stamps: bool,
    same_host: bool | None,
    lost: dict[str, int],
) -> Manifest:
    """What is known of a run's conditions now: at its start without figures, at its end with.

    Args:
        session: the run in this process.
        mode: ``local``, ``master`` or ``worker``.
        workers: how many workers took part; 0 for a local run.
        objectives: the run's objectives as text.
        wanted: tasks that the users' schedules wanted; 0 without a schedule.
        tasks: tasks that paced users ran.
        cpu: mean and highest CPU of the (busiest) generator process, per cent of one core.
        kernel_stamps: whether all generating processes took receive stamps.
        same_host: whether generators and services share a host; None: not known.
        lost: counters of missing evidence.
    """
    environment = session.environment
    options = environment.parsed_options
    target, source, reached = _rates(session, wanted, tasks)
    return Manifest(
        run_id=session.settings.run_id,
        started_wall_ns=session.started_wall_ns,
        ended_wall_ns=session.ended_wall_ns,
        measured_s=session.measured_s,
        trilat=version("trilat"),
        locust=locust.__version__,
        python=platform.python_version(),
        host=asdict(session.host),
        command=sys.argv,
        locustfile=environment.locustfile or "",
        target_host=environment.host or _host_of(environment.user_classes),
        user_classes=_user_classes(session),
        users=sum(session.users.values()),
        users_wanted=None if environment.shape_class else getattr(options, "num_users", None),
        planned_s=_seconds(getattr(options, "run_time", None)),
        pid=os.getpid(),
        failures=_failures(environment),
        processes=max(workers, 1),
        workers=workers,
        run_mode=mode,
        target_rate_per_s=target,
        target_rate_source=source,
        reached_rate_per_s=reached,
        fails_allowed=getattr(options, "exit_code_on_error", 1) == 0,
        same_host=same_host,
        kernel_stamps=kernel_stamps,
        objectives=list(objectives),
        generator_cpu_percent=(
            None if cpu is None else {"mean": round(cpu[0], 1), "max": round(cpu[1], 1)}
        ),
        notes=[],
        lost=lost,
    )


def _rates(
    session: Session, wanted: float, tasks: int
) -> tuple[float | None, Literal["option", "wait_time"] | None, float | None]:
    """The rate wanted, where it comes from, and the rate reached, counted in the same thing."""
    if (target := session.settings.target_rate) is not None:
        seconds, requests = session.since_full
        return target, "option", requests / seconds if seconds else None
    if wanted and session.measured_s:
        return wanted / session.measured_s, "wait_time", tasks / session.measured_s
    return None, None, None


def _user_classes(session: Session) -> list[UserClass]:
    described: list[UserClass] = []
    for user_class in session.environment.user_classes:
        count = session.users.get(user_class.__name__, 0)
        try:
            wait_time, rate = describe_wait_time(user_class), task_rate(user_class)
        except Exception as error:  # noqa: BLE001 - a wait time of another make
            faults.note("describing a wait time", error)
            wait_time, rate = "custom", None
        described.append(
            {
                "name": user_class.__name__,
                "client": client_of(user_class),
                "wait_time": wait_time,
                "count": count,
                "target_rate_per_s": None if rate is None else rate * count,
            }
        )
    return described


def target_rate(session: Session) -> float | None:
    """Requests, or tasks, per second that the users of this moment are meant to make."""
    if session.settings.target_rate is not None:
        return session.settings.target_rate
    users = users_by_class(session.environment.runner)
    rates = [
        users.get(user_class.__name__, 0) * rate
        for user_class in session.environment.user_classes
        if (rate := task_rate(user_class)) is not None
    ]
    return sum(rates) if rates else None


def _failures(environment: Any) -> list[Failure]:
    """Locust's own words for its most frequent failures."""
    errors = sorted(environment.stats.errors.values(), key=lambda error: -error.occurrences)
    return [
        {
            "name": f"{error.method} {error.name}",
            "error": str(error.error)[:_ERROR_MAX],
            "count": int(error.occurrences),
        }
        for error in errors[:_FAILURES_MAX]
    ]


def _seconds(run_time: Any) -> float | None:
    return float(run_time) if isinstance(run_time, int | float) and run_time > 0 else None


def _host_of(user_classes: list[Any]) -> str | None:
    return next((c.host for c in user_classes if getattr(c, "host", None)), None)
