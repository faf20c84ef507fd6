"""What blocked the load generator's hub, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.agent.blocks import COLLECTING, STARVED
from trilat.correlator.text import count, milliseconds

if TYPE_CHECKING:
    from trilat.agent.blocks import BlockedPlace

    from .generator import GeneratorFigures

__all__ = ["BLOCKED_MAX", "COLLECTING_REMEDY", "STARVED_REMEDY", "hub_remedy", "told_place"]

BLOCKED_MAX = 0.05
"""From this part of the time on a blocked hub is worth a warning: it is what p95 then sees."""

COLLECTING_REMEDY = (
    "call gc.freeze() in a test_start listener and raise gc.set_threshold, or keep less in memory"
)
STARVED_REMEDY = "run the generator where no other program needs its processors"

_NAMED_MIN = 0.3  # of the blocked time: where lines of code had less, they are not what to change


def hub_remedy(generator: GeneratorFigures | None) -> str:
    """What to do about what blocked the hub; empty where nothing did for long, or many did.

    Lines of a locustfile come first: they are what its author can change.
    """
    if generator is None or (generator.blocked_share or 0.0) < BLOCKED_MAX:
        return ""
    places, named = generator.places, generator.named
    whole = sum(each.total_ns for each in places)
    if named and sum(each.total_ns for each in named) >= _NAMED_MIN * whole:
        return _line_remedy(named[0])
    if not places:
        return ""
    return {COLLECTING: COLLECTING_REMEDY, STARVED: STARVED_REMEDY}.get(places[0].place, "")


def _line_remedy(worst: BlockedPlace) -> str:
    times = "once" if worst.count == 1 else f"{count(worst.count)} times"
    return (
        f"keep {told_place(worst)} out of the tasks or make it shorter, as it made all users wait "
        f"{times}, for {milliseconds(worst.max_ns / 1e6)} ms at most: look at less of each answer, "
        "or wait with calls that gevent can patch"
    )


def told_place(each: BlockedPlace) -> str:
    """A line, or what stands for one, in words."""
    return str(each.place) if each.place.line else each.place.file
