"""A blocked event loop: how much of the service's own time it is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilat.agent.records import Component
from trilat.correlator.text import count, milliseconds

if TYPE_CHECKING:
    from trilat.correlator.sketches.sketch import Sketch

    from .service import ServiceFigures

__all__ = ["MOSTLY", "BlockedPart", "blocked_part", "blocking_remedy"]

MOSTLY = 0.5
"""A blocked loop explains ``service.app`` where it was blocked for this part of it."""


@dataclass(frozen=True, slots=True)
class BlockedPart:
    """For how much of ``service.app`` the event loop was blocked; times in ns."""

    app_ns: float
    blocked_ns: float

    @property
    def share(self) -> float:
        """The part of ``service.app``."""
        return self.blocked_ns / self.app_ns if self.app_ns > 0 else 0.0

    @property
    def text(self) -> str:
        """In words, as the start of a sentence."""
        return (
            f"of {milliseconds(self.app_ns / 1e6)} ms in {Component.SERVICE_APP.label} the event "
            f"loop was blocked for {milliseconds(self.blocked_ns / 1e6)} ms"
        )


def blocked_part(requests: Sketch, quantile: float | None) -> BlockedPart | None:
    """How much of ``service.app`` was a blocked loop; None where the service does not tell.

    Args:
        requests: the requests.
        quantile: around which of the response time; None for the mean of all.
    """
    blocked = requests.blocked
    if not blocked.known:
        return None
    if quantile is None:
        app_ns = float(requests.histogram(Component.SERVICE_APP.label).mean_ns)
        return BlockedPart(app_ns, min(blocked.mean_ns, app_ns))
    made_of = requests.makeup(quantile)
    return BlockedPart(float(made_of[Component.SERVICE_APP]), requests.blocked_around_ns(quantile))


def blocking_remedy(service: ServiceFigures | None) -> str:
    """What to do; the line that blocked longest in sum is named where the service saw it."""
    named = service.named if service is not None else ()
    if not named:
        return (
            "keep calls that block out of the event loop, or run more workers of it (the service's "
            "samples, which trilat collect fetches, name the lines that block it for long)"
        )
    worst = named[0]
    times = "once" if worst.count == 1 else f"{count(worst.count)} times"
    return (
        f"keep {worst.place} out of the event loop, which it blocked {times}, for "
        f"{milliseconds(worst.max_ns / 1e6)} ms at most: await it, or hand it to a thread with "
        "asyncio.to_thread"
    )
