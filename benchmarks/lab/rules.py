"""What people go by without trilat, asked the same question on the same runs.

The question: did the generator make the number? It did if p95 falls by more than `DISTORTS` of
itself once the generator's own part is taken out of each request.

- The processor gauge: yes if the generator used more than 80 % of a processor.
- Locust's own warning: yes if its log has it (more than 90 % of a processor).
- The baseline: what p95 under load has over p95 of single requests before, is the generator's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from .score import Score

__all__ = ["DISTORTS", "RULES", "Answers", "answer"]

DISTORTS = 0.15
"""Above this part of p95, trilat warns; and so the number is not the service's."""

RULES = ("trilat", "gauge", "warning", "baseline")
_GAUGE_MAX = 80.0
_LOCUST_WARNS = "CPU usage above 90%"


@dataclass(frozen=True, slots=True)
class Answers:
    """What each says to the question; None: it has nothing to go by.

    Attributes:
        truth: whether the generator did make the number.
        trilat: by its attribution.
        gauge: by the processor gauge.
        warning: by Locust's log.
        baseline: by the response time at a low rate.
    """

    truth: bool | None
    trilat: bool | None
    gauge: bool | None
    warning: bool | None
    baseline: bool | None

    @property
    def right(self) -> dict[str, bool | None]:
        """Which of them are right; None where that cannot be said."""
        said = asdict(self)
        unknown = self.truth is None
        return {
            rule: None if unknown or said[rule] is None else said[rule] == self.truth
            for rule in RULES
        }


def answer(
    scored: Score, cpu_percent: float, log: str, baseline_ms: list[float], p95_ms: float
) -> Answers:
    """Ask all of them.

    Args:
        scored: the scenario's score.
        cpu_percent: of the busiest generator process under load.
        log: Locust's.
        baseline_ms: response times at a low rate.
        p95_ms: Locust's p95 under load.
    """
    low = float(np.quantile(baseline_ms, 0.95)) if baseline_ms else None
    return Answers(
        truth=_distorts(scored.distorts["truth"]),
        trilat=_distorts(scored.distorts["trilat"]),
        gauge=cpu_percent > _GAUGE_MAX,
        warning=_LOCUST_WARNS in log,
        baseline=None if low is None or not p95_ms else 1 - low / p95_ms > DISTORTS,
    )


def _distorts(part: float) -> bool | None:
    return None if np.isnan(part) else part > DISTORTS
