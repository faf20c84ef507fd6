"""Whose delay it was: who is answerable for a figure that is larger than it may be.

Each side's delay is taken away in turn, and the figure is read again. What remains when the
generator's and the network's are gone is the service's, so far as there is evidence for it: as a
lower bound, requests without evidence count as if the service had answered them at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from trilat.agent.records import COMPONENTS, Component, Side
from trilat.correlator.samples.blocking import MOSTLY, blocked_part
from trilat.correlator.text import count, milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilat.correlator.sketches.sketch import Sketch

__all__ = [
    "COVERAGE_MIN",
    "GENERATOR_SHARE_MAX",
    "LIMIT",
    "MISS",
    "Cause",
    "Finding",
    "Statistic",
    "assign",
    "coverage",
    "ms",
    "queue_in_network_ns",
    "shares",
    "without_evidence",
]

COVERAGE_MIN = 0.95
"""Evidence covers a run when it is there for this part of the requests."""

GENERATOR_SHARE_MAX = 0.15
"""A larger part of the mean or of p95 made by the generator is worth a warning."""


class Cause(StrEnum):
    """Why a run does not pass, the one that decides first."""

    ERRORS = "errors"
    SERVICE = "service"
    GENERATOR = "generator"
    NETWORK = "network"
    EVIDENCE = "evidence"


MISS = {
    Cause.SERVICE: "the service missed it",
    Cause.GENERATOR: "the load generator made the miss, not the service",
    Cause.NETWORK: "the network made the miss, not the service",
}
"""Who made an objective's miss, in words."""

LIMIT = {
    Cause.SERVICE: "for the rate the service was the limit",
    Cause.GENERATOR: "for the rate the load generator was the limit",
    Cause.NETWORK: "for the rate the network was the limit",
}
"""The same for a rate, which stands beside objectives that others may have missed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that keeps a run from passing.

    Attributes:
        cause: who or what is answerable for it.
        reason: one sentence with the figures.
    """

    cause: Cause
    reason: str


@dataclass(frozen=True, slots=True)
class Statistic:
    """A percentile, the mean or the largest value of a sketch's variable.

    Attributes:
        quantile: between 0 and 1; None for the mean, 1 for the largest value.
    """

    quantile: float | None

    def of(self, sketch: Sketch, variable: str) -> float | None:
        """The value in nanoseconds, or None where no request counts."""
        histogram = sketch.histogram(variable)
        if not histogram.count:
            return None
        if self.quantile is None:
            return float(histogram.mean_ns)
        return float(
            histogram.max_ns if self.quantile >= 1 else histogram.quantile_ns(self.quantile)
        )

    def at_least(self, sketch: Sketch, variable: str) -> float:
        """The value over all requests if those without evidence had taken no time, nanoseconds."""
        histogram = sketch.histogram(variable)
        if not histogram.count or not sketch.requests:
            return 0.0
        covered = min(histogram.count / sketch.requests, 1.0)
        if self.quantile is None:
            return float(histogram.mean_ns) * covered
        if self.quantile >= 1:
            return float(histogram.max_ns)
        # The requests without evidence come first in order; the rest shares what is left.
        rank = (self.quantile - (1 - covered)) / covered
        return float(histogram.quantile_ns(rank)) if rank > 0 else 0.0


def coverage(sketch: Sketch) -> float:
    """The part of the requests for which the service's evidence is there."""
    return sketch.matched / sketch.requests if sketch.requests else 0.0


def shares(sketch: Sketch, quantile: float | None) -> dict[Side, float]:
    """Each side's part of the requests around a quantile (None: of all); all 0 without time."""
    made_of = sketch.makeup(quantile)
    parts = dict.fromkeys(Side, 0.0)
    for component in COMPONENTS:
        parts[component.side] += float(made_of[component])
    parts[Side.UNATTRIBUTED] = float(made_of[len(COMPONENTS)])
    whole = sum(parts.values())
    return {side: part / whole if whole > 0 else 0.0 for side, part in parts.items()}


def assign(
    sketch: Sketch,
    statistic: Statistic,
    fits: Callable[[float], bool],
    own: str = "response",
    blame: Mapping[Cause, str] = MISS,
) -> tuple[Cause, str]:
    """Who made a statistic of the response time too large.

    Args:
        sketch: the requests.
        statistic: what was too large.
        fits: whether a value in nanoseconds would have been small enough.
        own: ``response``, or ``without_generator`` where the generator's delay is out already.
        blame: who did it, in words: `MISS` or `LIMIT`.

    Returns:
        The cause, and the rest of the sentence that names the figure.
    """
    values = {
        variable: statistic.of(sketch, variable) or 0.0
        for variable in ("without_generator", "without_network", "without_both")
    }
    if own != "response":  # nothing of the generator's is left to take away
        values["without_network"] = values["without_both"]
    elif fits(values["without_generator"]):
        return Cause.GENERATOR, (
            "without the generator's own delay it would have been "
            f"{ms(values['without_generator'])}: {blame[Cause.GENERATOR]}"
        )
    if fits(values["without_network"]):
        if not fits(values["without_network"] + queue_in_network_ns(sketch)):
            return _undivided(sketch)
        return Cause.NETWORK, (
            f"without the network's part it would have been {ms(values['without_network'])}: "
            + blame[Cause.NETWORK]
        )
    parts = shares(sketch, statistic.quantile)
    if fits(values["without_both"]):
        if not fits(values["without_both"] + queue_in_network_ns(sketch)):
            return _undivided(sketch)
        return _larger(parts, values)
    return _service_or_unknown(sketch, statistic, fits, blame[Cause.SERVICE])


def queue_in_network_ns(sketch: Sketch) -> float:
    """How much of what counts as the network's may be the service's queue, on average.

    The clocks and the service's kernel set limits to the queue; the mean that is shown lies within.
    """
    queue = sketch.histogram(Component.SERVICE_QUEUE.label)
    if not queue.count:
        return 0.0
    return max(sketch.queue_bounds_ns[1] - float(queue.mean_ns), 0.0)


def _undivided(sketch: Sketch) -> tuple[Cause, str]:
    """Network and queue cannot be told apart well enough, and that decides."""
    return Cause.EVIDENCE, (
        f"without the network's part it would have held, but up to "
        f"{ms(queue_in_network_ns(sketch))} of that may be the service's queue: the clocks of both "
        "hosts could not be lined up well enough to say"
    )


def _larger(parts: dict[Side, float], values: dict[str, float]) -> tuple[Cause, str]:
    """Only both together explain it: the larger of the two names the cause."""
    generator, network = parts[Side.GENERATOR], parts[Side.NETWORK]
    cause = Cause.GENERATOR if generator >= network else Cause.NETWORK
    return cause, (
        "neither without the generator's delay "
        f"({ms(values['without_generator'])}) nor without the network's "
        f"({ms(values['without_network'])}) would it have held, but without both "
        f"({ms(values['without_both'])}); the {cause}'s part is the larger "
        f"(generator {percent(generator)}, network {percent(network)})"
    )


def _service_or_unknown(
    sketch: Sketch,
    statistic: Statistic,
    fits: Callable[[float], bool],
    blame: str,
) -> tuple[Cause, str]:
    """Neither generator nor network made it: the service did, if the evidence says so."""
    parts = shares(sketch, statistic.quantile)
    service = statistic.of(sketch, "service")
    certain = not fits(statistic.at_least(sketch, "service"))
    likely = coverage(sketch) >= COVERAGE_MIN and parts[Side.SERVICE] >= parts[Side.UNATTRIBUTED]
    if service is not None and (certain or likely):
        return Cause.SERVICE, (
            "with a perfect generator and network it would still have been "
            f"{ms(statistic.of(sketch, 'without_both') or 0.0)}: {blame}"
            + _mostly(sketch, statistic.quantile)
        )
    return Cause.EVIDENCE, (
        f"{without_evidence(sketch)}, and what is known of the rest does not decide it"
    )


def _mostly(sketch: Sketch, quantile: float | None) -> str:
    """Which of the service's components took most of its time there."""
    made_of = sketch.makeup(quantile)
    parts = {each: float(made_of[each]) for each in COMPONENTS if each.side is Side.SERVICE}
    whole = sum(parts.values())
    if whole <= 0:
        return ""
    largest = max(parts, key=lambda each: parts[each])
    told = f"{percent(parts[largest] / whole)} of its time is {largest.label}"
    blocked = blocked_part(sketch, quantile)
    if largest is Component.SERVICE_APP and blocked is not None and blocked.share >= MOSTLY:
        told += f"; {blocked.text}"
    return f" ({told})"


def without_evidence(sketch: Sketch) -> str:
    """For how many requests the service's evidence is missing, in words."""
    missing = sketch.requests - sketch.matched
    if missing == sketch.requests:
        return "no request has evidence from the service"
    return (
        f"{count(missing)} of {count(sketch.requests)} requests "
        f"({percent(missing / sketch.requests)}) have no evidence from the service"
    )


def ms(value_ns: float, beside_ns: float | None = None) -> str:
    """Nanoseconds as milliseconds with three significant digits.

    Beside another value that would read the same it has as many as tell the two apart.
    """
    text = milliseconds(value_ns / 1e6)
    if beside_ns is None or value_ns == beside_ns or text != milliseconds(beside_ns / 1e6):
        return f"{text} ms"
    return f"{value_ns / 1e6:,.3f} ms"
