"""The rate: what was wanted, what was reached, and how long a request may take for it.

Locust's users are a closed loop: each waits for its answer before it goes on. N users that
together make X requests a second therefore have N / X for each of them (Little's law), whatever
they do in that time. A request that takes longer than that, on average, is why the rate was not
reached; one that would have fitted without the generator's own delay says that the generator was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.sketches.sketch import Sketch

__all__ = ["REACHED_MIN", "Pace", "measured_s", "pace_of", "per_second", "room_ns"]

REACHED_MIN = 0.95
"""A rate counts as reached from this part of it on."""

_SUM_TOLERANCE = 0.999


@dataclass(frozen=True, slots=True)
class Pace:
    """What a run was to make and what it made.

    Attributes:
        target_per_s: the rate wanted.
        reached_per_s: the rate reached.
        unit: what is counted: ``requests`` or ``tasks``.
    """

    target_per_s: float
    reached_per_s: float
    unit: str

    @property
    def ratio(self) -> float:
        """The part of the rate that was reached."""
        return self.reached_per_s / self.target_per_s

    @property
    def reached(self) -> bool:
        """Whether that part is enough."""
        return self.ratio >= REACHED_MIN


def measured_s(manifest: Manifest, total: Sketch) -> float | None:
    """Seconds of load; from the requests themselves where the manifest does not say."""
    if manifest.measured_s:
        return manifest.measured_s
    if not 0 < total.first_wall_ns < total.last_wall_ns:
        return None
    return (total.last_wall_ns - total.first_wall_ns) / 1e9


def per_second(requests: int, seconds: float | None) -> float | None:
    """Requests per second, or None where no time passed."""
    return requests / seconds if seconds else None


def pace_of(manifest: Manifest, total: Sketch) -> Pace | None:
    """The run's pace; None where no rate was wanted or none can be computed."""
    target = manifest.target_rate_per_s
    if not target:
        return None
    reached = manifest.reached_rate_per_s
    if reached is None:
        reached = per_second(total.requests, measured_s(manifest, total))
    if reached is None:
        return None
    unit = "tasks" if manifest.target_rate_source == "wait_time" else "requests"
    return Pace(target, reached, unit)


def room_ns(manifest: Manifest, total: Sketch, requests_per_s: float | None = None) -> float | None:
    """The time that a user has for one request if the rate is to be reached, in nanoseconds.

    Args:
        manifest: the run's.
        total: all its requests.
        requests_per_s: the rate in question; None for the run's own target.

    Returns:
        N / X, or None where users or rate are not known.
    """
    if manifest.users <= 0:
        return None
    if requests_per_s is not None:
        return 1e9 * manifest.users / requests_per_s if requests_per_s > 0 else None
    target = manifest.target_rate_per_s
    if not target:
        return None
    if manifest.target_rate_source != "wait_time":
        return 1e9 * manifest.users / target
    users, tasks_per_s = _schedule(manifest, target)
    return 1e9 * users / tasks_per_s / _requests_per_task(manifest, total)


def _schedule(manifest: Manifest, target: float) -> tuple[int, float]:
    """Users with a schedule, and the tasks per second that all of them are scheduled for.

    The target of a run with ramps is lower than that: fewer users, for a part of the time.
    """
    paced = [each for each in manifest.user_classes if each["target_rate_per_s"]]
    users = sum(each["count"] for each in paced)
    together = sum(each["target_rate_per_s"] or 0.0 for each in paced)
    if users and together >= target * _SUM_TOLERANCE:
        return users, together
    return users or manifest.users, target


def _requests_per_task(manifest: Manifest, total: Sketch) -> float:
    """Requests in one task; 1 where users without a schedule make requests, too."""
    seconds = measured_s(manifest, total)
    reached = manifest.reached_rate_per_s
    all_paced = all(each["target_rate_per_s"] for each in manifest.user_classes)
    if not reached or not seconds or not all_paced:
        return 1.0
    return max(total.requests / (reached * seconds), 1e-9)
