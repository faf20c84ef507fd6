"""How both sides are doing at this moment: CPU, and how late what runs in their loops is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.correlator.sketches.sketch import Sketch
from trilat.locust.distribution.workers import Crew
from trilat.locust.session import Session

if TYPE_CHECKING:  # httpx is loaded where it is used
    from .service_pulse import ServicePulse

__all__ = ["generator_now", "service_now"]

_MS = 1e6


def generator_now(session: Session, crew: Crew | None) -> dict[str, float | None]:
    """The busiest of the processes that generate, and the one whose hub is the latest.

    Returns:
        ``cpu_percent``: of one core, over the last second (a worker's: as of its last report).
        ``lag_ms``: how long what became ready in that second waited for the hub, on average.
        None: not known.
    """
    if crew is None:
        latest = session.pulse.latest
        return {"cpu_percent": latest.get("cpu_percent"), "lag_ms": latest.get("hub_lag_ms")}
    said = [member.said for member in crew.present]
    if not said:
        return {"cpu_percent": None, "lag_ms": None}
    return {
        "cpu_percent": round(max(each.cpu_latest for each in said), 1),
        "lag_ms": round(max(each.hub_lag_ms for each in said), 3),
    }


def service_now(recent: Sketch, pulse: ServicePulse | None) -> dict[str, float | None]:
    """What the service's stamps tell of its event loop, and its samples of its CPU.

    Returns:
        ``cpu_percent``: of one core, of the busiest process; None: nobody asks for its samples.
        ``lag_ms``: for how long it was blocked in a request, on average; ``lag_p95_ms``: in those
        around p95 of the response time. None: its middleware does not tell.
    """
    blocked = recent.blocked
    cpu = None if pulse is None else pulse.cpu_percent
    if not blocked.known:
        return {"cpu_percent": cpu, "lag_ms": None, "lag_p95_ms": None}
    return {
        "cpu_percent": cpu,
        "lag_ms": round(blocked.mean_ns / _MS, 3),
        "lag_p95_ms": round(recent.blocked_around_ns(0.95) / _MS, 3),
    }
