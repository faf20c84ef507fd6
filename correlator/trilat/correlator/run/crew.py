"""What a master knows of its workers: who took part, who went missing, and what went with them.

A worker tells with each report how many requests it has recorded. What it tells of and whose
histograms never came is missing, and so is what it did after its last report; that can only be
estimated, from its rate until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

__all__ = ["CrewFacts", "StrangerFacts", "WorkerFacts", "crew_facts", "missing_of"]


class WorkerFacts(TypedDict):
    """One worker process in one run.

    ``session`` is the id of its part in the run, ``name`` its id at the master. Of ``requests``
    that it told of (since the last reset), ``received`` are in the figures; they came with its
    ``reports``, or were read from its ``journal``. ``estimate`` is about how many it made after
    its last report. ``ended``: its last report came. ``journals`` is the folder on its host,
    ``shared`` whether that is the run's own.
    """

    session: str
    name: str
    host: str
    pid: int
    trilat: str
    users: int
    requests: int
    received: int
    estimate: int
    source: Literal["reports", "journal"]
    ended: bool
    reported_wall_ns: int
    heard_wall_ns: int
    journals: str
    shared: bool


class StrangerFacts(TypedDict):
    """A worker without trilat, or one whose reports could not be read, and ``why``.

    Its requests are in Locust's own figures only.
    """

    name: str
    requests: int
    why: str


class CrewFacts(TypedDict):
    """All workers of one run.

    ``seen`` processes took part, at most ``at_once`` at the same time. ``lost`` names those whose
    last report never came. ``load_missing`` is the part of the wanted user-seconds that nobody
    made because a worker was gone.
    """

    seen: int
    at_once: int
    lost: list[str]
    missing_requests: int
    missing_estimate: int
    load_missing: float
    strangers: list[StrangerFacts]
    workers: list[WorkerFacts]


def missing_of(worker: WorkerFacts) -> int:
    """Requests that a worker told of and that are in no figure."""
    return max(worker["requests"] - worker["received"], 0)


def crew_facts(
    workers: Sequence[WorkerFacts],
    strangers: Sequence[StrangerFacts],
    *,
    at_once: int,
    load_missing: float,
) -> CrewFacts:
    """The facts of all workers from those of each.

    Args:
        workers: in the order in which they came.
        strangers: see `StrangerFacts`.
        at_once: how many took part at the same time, at most.
        load_missing: from 0 to 1.
    """
    return {
        "seen": len(workers),
        "at_once": at_once,
        "lost": [worker["name"] for worker in workers if not worker["ended"]],
        "missing_requests": sum(map(missing_of, workers))
        + sum(stranger["requests"] for stranger in strangers),
        "missing_estimate": sum(worker["estimate"] for worker in workers),
        "load_missing": round(min(max(load_missing, 0.0), 1.0), 4),
        "strangers": list(strangers),
        "workers": list(workers),
    }
