"""What the load generator tells of itself during a run: its hub, processor, pauses and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilat.agent.blocks import BlockedPlace

from .blocked_lines import blocked_places
from .curves import busiest, figure, figures, largest_share, sampled_s
from .lag_histogram import LAG_BOUNDS_MS, LagHistogram
from .sampled import Process, Sampled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

__all__ = [
    "Collections",
    "Descriptors",
    "GeneratorFigures",
    "PoolWait",
    "Ports",
    "generator_figures",
]


@dataclass(frozen=True, slots=True)
class Collections:
    """Garbage collections of the process that spent most time in them.

    Attributes:
        total_ms: all together.
        max_ms: the most in one second.
        longest_ms: the longest single one.
        share: of the process' time.
    """

    total_ms: float
    max_ms: float
    longest_ms: float
    share: float


@dataclass(frozen=True, slots=True)
class Descriptors:
    """Open file descriptors of the process that came nearest to its limit.

    Attributes:
        max: at most.
        limit: how many may be.
    """

    max: int
    limit: int


@dataclass(frozen=True, slots=True)
class Ports:
    """Local ports of the host on which most were taken.

    Attributes:
        taken: at most, at one moment.
        time_wait: of them those in TIME_WAIT.
        available: how many there are.
        opened: connections that were begun, on all hosts together.
    """

    taken: int
    time_wait: int
    available: int
    opened: int


@dataclass(frozen=True, slots=True)
class PoolWait:
    """Waits for a free connection of a bounded pool, of all processes together.

    Attributes:
        requests: how many had to wait.
        total_ms: how long they waited together.
        max_ms: how long one of them waited.
    """

    requests: int
    total_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class GeneratorFigures:
    """Figures of all processes that ran users; None where nothing is known.

    Attributes:
        processes: they and their samples.
        places: what kept their hubs from the other users, the longest in sum first.
        lag: how long one had to wait for a hub, at a random moment, all processes together.
        blocked_share: part of the time for which the timer on the hub was overdue; of the process
            that was blocked most.
        cpu_percent: mean and highest, of the busiest process, in per cent of one core.
        cpu_wait_share: part of the time for which the hub's thread was ready to run and waited for
            a processor; of the process that waited most.
        throttled_share: part of the time for which a CPU limit held the worst process' control
            group back. May pass 1: each throttled core counts.
        steal_percent: mean and highest share of a host's processors that the hypervisor took.
        collections: garbage collections.
        descriptors: open file descriptors.
        ports: local ports for connections that go out.
        pool: waits for a connection.
    """

    processes: tuple[Process, ...]
    places: tuple[BlockedPlace, ...]
    lag: LagHistogram | None
    blocked_share: float | None
    cpu_percent: tuple[float, float] | None
    cpu_wait_share: float | None
    throttled_share: float | None
    steal_percent: tuple[float, float] | None
    collections: Collections | None
    descriptors: Descriptors | None
    ports: Ports | None
    pool: PoolWait | None

    @property
    def named(self) -> tuple[BlockedPlace, ...]:
        """The places that are a line of code, and not, say, users that took their turns."""
        return tuple(each for each in self.places if each.place.line > 0)


def generator_figures(sampled: Sampled) -> GeneratorFigures | None:
    """The generator's figures; None where there is no sample of it."""
    # A master runs no users: it has no hub to tell of.
    running = [each for each in sampled.generators if figures(each.vitals, "hub_lag_ms")]
    processes = running or list(sampled.generators)
    if not processes:
        return None
    vitals = [each.vitals for each in processes]
    return GeneratorFigures(
        processes=tuple(processes),
        places=tuple(blocked_places(processes)),
        lag=_lag(processes) if running else None,
        blocked_share=largest_share(vitals, "hub_blocked_ms"),
        cpu_percent=busiest(figures(each, "cpu_percent") for each in vitals),
        cpu_wait_share=largest_share(vitals, "cpu_wait_ms"),
        throttled_share=largest_share(vitals, "throttled_ms"),
        steal_percent=busiest(figures(each, "steal_percent") for each in vitals),
        collections=max(
            (found for each in vitals if (found := _collections(each)) is not None),
            key=lambda found: found.share,
            default=None,
        ),
        descriptors=_descriptors(vitals),
        ports=_ports(processes),
        pool=_pool(vitals),
    )


def _lag(processes: Iterable[Process]) -> LagHistogram:
    lag = LagHistogram()
    for process in processes:
        for line in process.vitals:
            spans, mean_ms = line.get("hub_lag_spans_ms"), figure(line, "hub_lag_ms")
            if mean_ms is None or not isinstance(spans, list) or len(spans) > len(LAG_BOUNDS_MS):
                continue
            known = [figure({"span": span}, "span") or 0.0 for span in spans]
            lag.merge_ms(known, mean_ms, figure(line, "hub_lag_max_ms") or mean_ms)
    return lag


def _collections(vitals: Sequence[Mapping[str, Any]]) -> Collections | None:
    pauses = figures(vitals, "gc_pause_ms")
    if not pauses:
        return None
    return Collections(
        total_ms=sum(pauses),
        max_ms=max(pauses),
        longest_ms=max(figures(vitals, "gc_pause_max_ms"), default=0.0),
        share=sum(pauses) / 1000 / sampled_s(vitals),
    )


def _descriptors(series: Iterable[Sequence[Mapping[str, Any]]]) -> Descriptors | None:
    found = []
    for vitals in series:
        most, limits = max(figures(vitals, "fds"), default=None), figures(vitals, "fds_limit")
        if most is not None and limits and limits[-1] > 0:
            found.append(Descriptors(int(most), int(limits[-1])))
    return max(found, key=lambda each: each.max / each.limit, default=None)


def _ports(processes: Iterable[Process]) -> Ports | None:
    """Processes of one host see the same ports, as far as they are in one network namespace."""
    worst: Ports | None = None
    opened: dict[int, float] = {}
    for process in processes:
        begun = sum(figures(process.vitals, "connections_opened"))
        opened[process.host] = max(opened.get(process.host, 0.0), begun)
        for line in process.vitals:
            taken, available = figure(line, "ports_taken"), figure(line, "ports_available")
            if taken is None or not available:
                continue
            if worst is None or taken * worst.available > worst.taken * available:
                waiting = figure(line, "ports_time_wait") or 0.0
                worst = Ports(int(taken), int(waiting), int(available), 0)
    if worst is None:
        return None
    return Ports(worst.taken, worst.time_wait, worst.available, int(sum(opened.values())))


def _pool(series: Iterable[Sequence[Mapping[str, Any]]]) -> PoolWait | None:
    waits = [(figures(each, "pool_waits"), each) for each in series]
    if not any(counts for counts, _ in waits):
        return None
    return PoolWait(
        requests=int(sum(sum(counts) for counts, _ in waits)),
        total_ms=sum(sum(figures(each, "pool_wait_ms")) for _, each in waits),
        max_ms=max(
            (most for _, each in waits for most in figures(each, "pool_wait_max_ms")), default=0.0
        ),
    )
