"""The rows and series that reports show, and the order in which sides and components stand.

Times are in milliseconds, shares are fractions of 1, `None` is a figure that is not known. Every
text in them is clean: one line, nothing that does not print.
"""

from __future__ import annotations

from dataclasses import dataclass

from trilat.agent.records import COMPONENTS, Component, Side
from trilat.correlator.text import MISSING, milliseconds

__all__ = [
    "MEANINGS",
    "SIDES",
    "STACK",
    "CheckRow",
    "ComponentRow",
    "EndpointRow",
    "Headline",
    "Makeup",
    "ObjectiveRow",
    "Series",
    "Shares",
]

SIDES: tuple[Side, ...] = (Side.SERVICE, Side.NETWORK, Side.GENERATOR, Side.UNATTRIBUTED)
"""The order in which sides are drawn: the service is the ground, the rest stands on it."""

STACK: tuple[Component, ...] = tuple(
    component for side in SIDES for component in COMPONENTS if component.side is side
)
"""The nine components in the order in which they are stacked: by side, then as a request lives."""

MEANINGS: dict[Component, str] = {
    Component.GENERATOR_SEND: "timer started, until the request is handed to the kernel",
    Component.NETWORK_CONNECT: "opening the connection, TLS included",
    Component.NETWORK_OUT: "request on its way to the service's host",
    Component.SERVICE_QUEUE: "arrived, until the application is called",
    Component.SERVICE_APP: "application called, until the answer starts",
    Component.SERVICE_BODY: "answer started, until its last byte is sent",
    Component.NETWORK_BACK: "answer on its way to the generator's host",
    Component.GENERATOR_READ: "answer arrived, until the generator reads it",
    Component.GENERATOR_FINISH: "answer read, until the timer stops",
}


@dataclass(frozen=True, slots=True)
class Headline:
    """The verdict: one sentence, what stands behind it, and what to do.

    Attributes:
        outcome: pass, fail, invalid, or unknown where the result holds none of them.
        cause: who made it so, empty where nobody did.
        sentence: the first reason, or the outcome in words where there is none.
        reasons: the reasons after the first.
        warnings: what does not change the outcome and has to be known.
        notes: how the load was made and what became of the run.
        remedies: what to do, from the checks that failed, without repetition.
    """

    outcome: str
    cause: str
    sentence: str
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    remedies: tuple[str, ...]

    @property
    def label(self) -> str:
        """Outcome and cause: ``INVALID (generator)``."""
        outcome = self.outcome.upper()
        return f"{outcome} ({self.cause})" if self.cause else outcome


@dataclass(frozen=True, slots=True)
class Shares:
    """Fractions of a response time in the order of `SIDES`; they add up to 1."""

    service: float
    network: float
    generator: float
    unattributed: float

    def parts(self) -> tuple[tuple[Side, float], ...]:
        """Each side with its fraction."""
        values = (self.service, self.network, self.generator, self.unattributed)
        return tuple(zip(SIDES, values, strict=True))


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """One endpoint's figures.

    Attributes:
        corrected_p95_ms: p95 counted from the moment at which the schedule wanted a request to
            start, tasks that were never started included; where the wait time makes a schedule.
        corrected_p99_ms: likewise.
    """

    title: str
    requests: int
    failures: int
    matched: int
    rate_per_s: float | None
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    service_p95_ms: float | None
    without_generator_p95_ms: float | None
    corrected_p95_ms: float | None
    corrected_p99_ms: float | None
    shares_p95: Shares | None


@dataclass(frozen=True, slots=True)
class ComponentRow:
    """One of the nine components at one endpoint, or what is left; times in milliseconds.

    Attributes:
        mean_ms: over the requests for which it is known.
        share: of the mean response time of all requests; those of all rows add up to 1.
    """

    label: str
    side: Side
    meaning: str
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    share: float | None
    grade: str | None


@dataclass(frozen=True, slots=True)
class Series:
    """One layer of the stack: its value in milliseconds at each percentile of the `Makeup`."""

    label: str
    side: Side
    grade: str | None
    values_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Makeup:
    """What the response time is made of at each percentile: ten layers, bottom first."""

    percentiles: tuple[str, ...]
    response_ms: tuple[float, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check of the run: what was found and what to do about it."""

    id: str
    title: str
    outcome: str
    evidence: str
    remedy: str

    @property
    def steps(self) -> tuple[str, ...]:
        """The remedy's steps; the same one may be the remedy of several checks."""
        return tuple(step for step in self.remedy.split("; ") if step)


@dataclass(frozen=True, slots=True)
class ObjectiveRow:
    """One objective with its figures in `unit`.

    Attributes:
        percentile: as in `Makeup.percentiles`, where the objective is an upper limit of a
            percentile of the client's response time and can be drawn; else `None`.
        limit_ms: that limit.
        name: the endpoint's name where the objective is about one, else empty.
    """

    text: str
    value: float | None
    value_without_generator: float | None
    unit: str
    holds: bool | None
    percentile: str | None
    limit_ms: float | None
    name: str

    @property
    def reached(self) -> str:
        """The measured value with its unit."""
        return _with_unit(self.value, self.unit)

    @property
    def reached_without_generator(self) -> str:
        """The value without the generator's own delay, with its unit."""
        return _with_unit(self.value_without_generator, self.unit)


def _with_unit(value: float | None, unit: str) -> str:
    if value is None:
        return MISSING
    shown = milliseconds(value)
    return f"{shown}{unit}" if unit.startswith("/") else f"{shown} {unit}".rstrip()
