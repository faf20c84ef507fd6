"""The conditions of a run: what a result is worth nothing without, gathered for its manifest."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any, Literal

import locust
from trilat.correlator.manifest import Manifest, UserClass

from .schedule import client_of, describe_wait_time, task_rate
from .session import Session

__all__ = ["manifest_of"]


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
        count, rate = session.users.get(user_class.__name__, 0), task_rate(user_class)
        described.append(
            {
                "name": user_class.__name__,
                "client": client_of(user_class),
                "wait_time": describe_wait_time(user_class),
                "count": count,
                "target_rate_per_s": None if rate is None else rate * count,
            }
        )
    return described


def _host_of(user_classes: list[Any]) -> str | None:
    return next((c.host for c in user_classes if getattr(c, "host", None)), None)
