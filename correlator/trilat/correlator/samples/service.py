"""What the service tells of itself during a run: its event loop, memory, processor and pauses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trilat.agent.blocks import BlockedPlace

from .blocked_lines import blocked_places
from .curves import busiest, figure, figures, largest_share, sampled_s
from .growth import Growth, growth_of
from .sampled import Process, Sampled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Memory", "ServiceFigures", "Spread", "figures_of", "spread_of"]

_MB = 1e-6


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
        seconds=sum(sampled_s(each.vitals) for each in processes),
        places=tuple(blocked_places(processes)),
        lag_ms=spread_of(lags),
        blocked_share=largest_share((each.vitals for each in processes), "loop_blocked_ms"),
        memory=_memory(processes, begin_s),
        cpu_percent=busiest(figures(each.vitals, "cpu_percent") for each in processes),
        throttled_share=largest_share((each.vitals for each in processes), "throttled_ms"),
        steal_percent=busiest(figures(each.vitals, "steal_percent") for each in processes),
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
