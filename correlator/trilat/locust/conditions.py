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
from trilat.correlator.run.crew import CrewFacts
from trilat.correlator.run.manifest import Failure, Manifest, Reset, UserClass
from trilat.locust.load.schedule import client_of, describe_wait_time, rate_of, task_rate

from . import faults
from .session import Session, users_by_class

__all__ = ["failures_of", "manifest_of", "target_rate"]

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
    crew: CrewFacts | None = None,
    reset: Reset | None = None,
    failures: list[Failure] | None = None,
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
        crew: what is known of each worker.
        reset: what a reset of Locust's statistics left out.
        failures: Locust's most frequent ones; None: as Locust has them now.
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
        planned_s=_seconds(getattr(options, "run_time", None), session.warm_up_s),
        pid=os.getpid(),
        failures=failures_of(environment) if failures is None else failures,
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
        stages=session.stages.facts(session.settings.target_rate),
        lost=lost,
        crew=crew,
        reset=reset,
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
    environment = session.environment
    known = rate_of(environment.user_classes, users_by_class(environment.runner))
    return session.pace.wanted_per_s if known is None else known


def failures_of(environment: Any) -> list[Failure]:
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


def _seconds(run_time: Any, warm_up_s: float) -> float | None:
    """How long the part of the run was to be that counts."""
    if not isinstance(run_time, int | float) or run_time <= warm_up_s:
        return None
    return run_time - warm_up_s


def _host_of(user_classes: list[Any]) -> str | None:
    return next((c.host for c in user_classes if getattr(c, "host", None)), None)
