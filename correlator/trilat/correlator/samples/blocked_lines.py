"""What blocked an event loop, from the samples that tell of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilat.agent.blocks import BlockedPlace, BlockedPlaces
from trilat.agent.stacks import Place
from trilat.correlator.text import clean

from .curves import figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .sampled import Process

__all__ = ["blocked_places", "inside_of"]

_PLACES_MAX = 1000
_TEXT_MAX = 300
_STACK_MAX = 30
_LINE_MAX = 2**31 - 1
_COUNT_MAX = 10**9


def blocked_places(processes: Iterable[Process]) -> list[BlockedPlace]:
    """What blocked the event loops of all processes, by the sum of its time."""
    places = BlockedPlaces(_PLACES_MAX)
    for process in processes:
        for line in process.blocks:
            if (sums := _sums(line)) is not None:
                places.merge(sums)
    return places.by_total()


def inside_of(each: BlockedPlace) -> str:
    """What the line had called in the longest block: ``file:line function``; empty if unknown."""
    stack, place = each.stack, str(each.place)
    if place not in stack:
        return ""
    below = len(stack) - stack[::-1].index(place)
    return stack[below] if below < len(stack) else ""


def _sums(line: Mapping[str, Any]) -> BlockedPlace | None:
    """A sample: one block, or several of one line (``count``, the longest ``max_ms``)."""
    took_ms = figure(line, "took_ms")
    file, number, function = line.get("file"), line.get("line"), line.get("function")
    if took_ms is None or not isinstance(file, str) or not isinstance(function, str):
        return None
    count, max_ms = line.get("count"), figure(line, "max_ms")
    stack = line.get("stack")
    frames = stack if isinstance(stack, list) else []
    return BlockedPlace(
        Place(
            file=clean(file, _TEXT_MAX),
            line=number if type(number) is int and 0 <= number <= _LINE_MAX else 0,
            function=clean(function, _TEXT_MAX),
        ),
        count=count if type(count) is int and 0 < count <= _COUNT_MAX else 1,
        total_ns=round(took_ms * 1e6),
        max_ns=round((took_ms if max_ms is None else min(max_ms, took_ms)) * 1e6),
        stack=tuple(
            clean(frame, _TEXT_MAX) for frame in frames[-_STACK_MAX:] if isinstance(frame, str)
        ),
    )
