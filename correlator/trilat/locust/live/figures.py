"""A run's figures while it lasts: the one place that makes them, for whoever shows them.

What was attributed in the last ten seconds is the difference of two states of the run's total: it
is exact, and it makes no difference whether requests were counted here or came with the workers'
reports. Attribution is two to three seconds behind the requests.
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from trilat.agent.records import COMPONENTS, Side
from trilat.correlator.judge.cause import shares
from trilat.correlator.sketches.sketch import Sketch
from trilat.locust.conditions import target_rate
from trilat.locust.distribution.workers import Crew
from trilat.locust.session import Session

from .vigour import generator_now, service_now

if TYPE_CHECKING:  # httpx is loaded where it is used
    from .service_pulse import ServicePulse

__all__ = ["WINDOW_S", "Live", "Recent", "sides_ms", "snapshot"]

WINDOW_S = 10.0
"""Over how long the figures of now are taken, as Locust's own current ones are."""

_MS = 1e6


class Recent:
    """The requests of the last ten seconds, of one sketch that grows."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: deque[tuple[float, Sketch]] = deque()

    def look(self, sketch: Sketch, now: float) -> Sketch:
        """The requests that were counted in the window before now, or since counting began anew.

        Args:
            sketch: its state of now.
            now: a monotonic clock, in seconds.
        """
        states = self._states
        if states and states[-1][1].requests > sketch.requests:
            states.clear()
        while len(states) > 1 and states[1][0] <= now - WINDOW_S:
            states.popleft()
        found = sketch.copy()
        states.append((now, found))
        try:
            return sketch.since(states[0][1]) if len(states) > 1 else found
        except ValueError:
            states.clear()
            return found


class Rate:
    """How fast a count grows: between the first and the last time it changed within the window.

    A master's counts change with the workers' reports, every three seconds.
    """

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes: deque[tuple[float, int]] = deque()

    def look(self, count: int, now: float) -> float | None:
        """Per second; None where it has not grown yet."""
        changes = self._changes
        if changes and changes[-1][1] > count:  # counting began anew
            changes.clear()
        if not changes or changes[-1][1] != count:
            changes.append((now, count))
        while len(changes) > 2 and changes[0][0] < now - WINDOW_S:
            changes.popleft()
        (begin, first), (end, last) = changes[0], changes[-1]
        if now - end > WINDOW_S:
            return 0.0
        return (last - first) / (end - begin) if end > begin else None


class Live:
    """Looks at a run about once a second.

    Attributes:
        total: all requests attributed so far, as of the last look.
        recent: those of the last ten seconds.
        figures: `snapshot` of the last look; empty before the first one.

    Args:
        session: the run in this process.
        crew: the workers, in a master.
        service: asks the service for its samples, where somebody does.
    """

    def __init__(self, session: Session, crew: Crew | None, service: ServicePulse | None) -> None:
        self.total = Sketch()
        self.recent = Sketch()
        self.figures: dict[str, Any] = {}
        self._session = session
        self._crew = crew
        self._service = service
        self._window = Recent()
        self._requests, self._tasks = Rate(), Rate()

    def look(self) -> dict[str, Any]:
        """The figures of this moment."""
        session, now = self._session, monotonic()
        self.total = session.collect().total()
        self.recent = self._window.look(self.total, now)
        requests = self._requests.look(session.requests, now)
        crew = self._crew
        tasks = self._tasks.look(crew.tasks if crew is not None else session.pace.run, now)
        by_option = session.settings.target_rate is not None
        wanted = target_rate(session)
        self.figures = {
            **snapshot(session, self.total, wanted),
            "recent": _recent(self.recent),
            "reached_per_s": _rounded(requests if by_option or wanted is None else tasks, 1),
            "rate_unit": "tasks" if wanted is not None and not by_option else "requests",
            "generator": (generator := generator_now(session, crew)),
            "service": service_now(self.recent, self._service),
            "generator_cpu_percent": generator["cpu_percent"],
        }
        return self.figures


def snapshot(session: Session, sketch: Sketch, wanted: float | None) -> dict[str, Any]:
    """The run up to this moment; shares are of the mean response time."""
    runner = session.environment.runner
    total = runner.stats.total
    response = sketch.histogram("response")
    known = response.count > 0
    return {
        "state": runner.state,
        "users": runner.user_count,
        "elapsed_s": round(session.elapsed_s, 1),
        "requests": total.num_requests,
        "failures": total.num_failures,
        "rate_per_s": round(total.current_rps, 1),
        "target_rate_per_s": _rounded(wanted, 1),
        "p50_ms": response.quantile_ns(0.5) / _MS if known else None,
        "p95_ms": response.quantile_ns(0.95) / _MS if known else None,
        "shares": {
            str(side): round(part, 4)
            for side, part in (shares(sketch, None) if known else dict.fromkeys(Side, 0.0)).items()
        },
    }


def sides_ms(sketch: Sketch, quantile: float | None) -> dict[str, float] | None:
    """What the requests around a quantile (None: all) are made of: ms of each side.

    Returns:
        They add up to the mean response time of these requests; None where there is no request.
    """
    made_of = sketch.makeup(quantile)
    if np.isnan(made_of).any():
        return None
    parts = dict.fromkeys(Side, 0.0)
    for component in COMPONENTS:
        parts[component.side] += float(made_of[component])
    parts[Side.UNATTRIBUTED] = float(made_of[len(COMPONENTS)])
    return {str(side): round(part / _MS, 4) for side, part in parts.items()}


def _recent(sketch: Sketch) -> dict[str, Any]:
    response = sketch.histogram("response")
    known = response.count > 0
    return {
        "requests": sketch.requests,
        "matched": sketch.matched,
        "mean_ms": round(response.mean_ns / _MS, 3) if known else None,
        "p50_ms": round(response.quantile_ns(0.5) / _MS, 3) if known else None,
        "p95_ms": round(response.quantile_ns(0.95) / _MS, 3) if known else None,
        "mean": sides_ms(sketch, None),
        "p95": sides_ms(sketch, 0.95),
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
