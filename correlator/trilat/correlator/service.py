"""What the service tells of itself during a run: its event loop, memory, processor and pauses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trilat.agent.blocks import BlockedPlace, BlockedPlaces, BlockEvent

from .curves import figure, figures
from .growth import Growth, growth_of
from .report.text import clean
from .sampled import Process, Sampled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Memory", "ServiceFigures", "Spread", "figures_of", "spread_of"]

_MB = 1e-6
_PLACES_MAX = 1000
_TEXT_MAX = 300
_STACK_MAX = 30
_LINE_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, 95th percentile and largest of sampled figures (nearest rank)."""

    p50: float
    p95: float
    max: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of the process that grew most steadily, or has most; MB of 10**6 bytes.

    Attributes:
        process: host and number.
        first_mb: at its first sample.
        last_mb: at its last one.
        max_mb: the most of any sample.
        limit_mb: of its control group; None without one.
        growth: how it went; None where the run was too short to tell.
    """

    process: str
    first_mb: float
    last_mb: float
    max_mb: float
    limit_mb: float | None
    growth: Growth | None


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """Figures of all of a service's processes; None where nothing is known.

    Attributes:
        processes: they and their samples.
        seconds: how long they were sampled, added up.
        places: what blocked their event loops, the longest in sum first.
        lag_ms: of the longest that a timer of the loop was late in each second.
        blocked_share: part of the time for which the loops were blocked, of the process that was
            blocked most.
        memory: of the process to look at.
        cpu_percent: mean and highest, of the busiest process, in per cent of one core.
        throttled_share: part of the time for which a CPU limit held the worst process' control
            group back. May pass 1: each throttled core counts.
        steal_percent: mean and highest share of a host's processors that the hypervisor took.
        gc_pause_ms: sum and longest second of garbage collections, of the worst process.
    """

    processes: tuple[Process, ...]
    seconds: float
    places: tuple[BlockedPlace, ...]
    lag_ms: Spread | None
    blocked_share: float | None
    memory: Memory | None
    cpu_percent: tuple[float, float] | None
    throttled_share: float | None
    steal_percent: tuple[float, float] | None
    gc_pause_ms: tuple[float, float] | None

    @property
    def named(self) -> tuple[BlockedPlace, ...]:
        """The places that are a line of code, and not, say, a block whose stack nobody saw."""
        return tuple(each for each in self.places if each.place.line > 0)


def figures_of(sampled: Sampled) -> ServiceFigures | None:
    """The service's figures; None where there is no sample of it."""
    processes = sampled.services
    if not processes:
        return None
    begin_s = sampled.window.begin_s
    lags = [lag for each in processes for lag in figures(each.vitals, "loop_lag_max_ms")]
    pauses = [figures(each.vitals, "gc_pause_ms") for each in processes]
    return ServiceFigures(
        processes=processes,
        seconds=sum(_seconds(each) for each in processes),
        places=tuple(_places(processes)),
        lag_ms=spread_of(lags),
        blocked_share=_largest(_share(each, "loop_blocked_ms") for each in processes),
        memory=_memory(processes, begin_s),
        cpu_percent=_busiest(figures(each.vitals, "cpu_percent") for each in processes),
        throttled_share=_largest(_share(each, "throttled_ms") for each in processes),
        steal_percent=_busiest(figures(each.vitals, "steal_percent") for each in processes),
        gc_pause_ms=max(((sum(each), max(each)) for each in pauses if each), default=None),
    )


def spread_of(values: Sequence[float]) -> Spread | None:
    """How values are spread; None where there is none."""
    if not values:
        return None
    ranked = np.sort(np.asarray(values, np.float64))

    def rank(q: float) -> float:
        return float(ranked[max(math.ceil(q * ranked.size) - 1, 0)])

    return Spread(rank(0.5), rank(0.95), float(ranked[-1]))


def _seconds(process: Process) -> float:
    """How long a process was sampled: each sample tells of the time since the one before."""
    if not process.vitals:
        return 0.0
    first, last = process.vitals[0]["wall_s"], process.vitals[-1]["wall_s"]
    return float(last - first) + 1.0


def _share(process: Process, key: str) -> float | None:
    """Part of a process' time that its samples' milliseconds come to."""
    values = figures(process.vitals, key)
    return sum(values) / 1000 / _seconds(process) if values else None


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _busiest(series: Iterable[list[float]]) -> tuple[float, float] | None:
    """Mean and highest value of the series whose mean is the highest."""
    return max(((sum(each) / len(each), max(each)) for each in series if each), default=None)


def _memory(processes: Iterable[Process], begin_s: float) -> Memory | None:
    found = [memory for each in processes if (memory := _memory_of(each, begin_s)) is not None]

    def weight(memory: Memory) -> tuple[bool, float, float]:
        growth = memory.growth
        steady = growth is not None and growth.steady
        return steady, growth.rise_mb if growth is not None and steady else 0.0, memory.max_mb

    return max(found, key=weight, default=None)


def _memory_of(process: Process, begin_s: float) -> Memory | None:
    points = [
        (float(line["wall_s"]) - begin_s, mb)
        for line in process.vitals
        if (mb := figure(line, "rss_bytes", _MB)) is not None
    ]
    if not points:
        return None
    times, memory = zip(*points, strict=True)
    limits = [each for each in figures(process.vitals, "memory_limit_bytes", _MB) if each]
    return Memory(
        process=process.name,
        first_mb=memory[0],
        last_mb=memory[-1],
        max_mb=max(memory),
        limit_mb=limits[-1] if limits else None,
        growth=growth_of(times, memory),
    )


def _places(processes: Iterable[Process]) -> list[BlockedPlace]:
    """What blocked the event loops of all processes, by the sum of its time."""
    places = BlockedPlaces(_PLACES_MAX)
    for process in processes:
        for line in process.blocks:
            if (event := _event(line)) is not None:
                places.add(event)
    return places.by_total()


def _event(line: Mapping[str, Any]) -> BlockEvent | None:
    took_ms = figure(line, "took_ms")
    file, number, function = line.get("file"), line.get("line"), line.get("function")
    if took_ms is None or not isinstance(file, str) or not isinstance(function, str):
        return None
    stack = line.get("stack")
    frames = stack if isinstance(stack, list) else []
    return BlockEvent(
        wall_ns=round(line["wall_s"] * 1e9),
        took_ns=round(took_ms * 1e6),
        file=clean(file, _TEXT_MAX),
        line=number if type(number) is int and 0 <= number <= _LINE_MAX else 0,
        function=clean(function, _TEXT_MAX),
        stack=tuple(
            clean(frame, _TEXT_MAX) for frame in frames[-_STACK_MAX:] if isinstance(frame, str)
        ),
    )
