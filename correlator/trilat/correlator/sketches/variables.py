"""The variables that a sketch keeps a distribution of, and which requests each is known of."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from trilat.agent.records import COMPONENTS, Component, Side

__all__ = ["BASES", "INDEX", "MADE_OF", "VARIABLES", "Basis"]

VARIABLES: tuple[str, ...] = (
    "response",
    "service",
    "network",
    "generator",
    "without_generator",
    "without_network",
    "without_both",
    "corrected",
    "missed",
    *(component.label for component in COMPONENTS),
)
"""All times of a request: the response time; each side's part of it; the response time without one
side's part or two; counted from the intended start; the same of tasks that were never started
(`trilat.correlator.sketches.arrivals`); each component."""

INDEX: dict[str, int] = {variable: index for index, variable in enumerate(VARIABLES)}
"""Place of each variable."""


class Basis(IntEnum):
    """Which requests a variable is known of."""

    ALL = 0
    MATCHED = 1
    """Those with the service's evidence."""
    MARKED = 2
    """Those that the generator's socket layer saw."""
    MISSED = 3
    """None of them: it is known of the tasks that were never started."""


def _basis(variable: str) -> Basis:
    if variable == "missed":
        return Basis.MISSED
    side = variable.partition(".")[0]
    if side == Side.GENERATOR:
        return Basis.MARKED
    return Basis.MATCHED if side in {Side.SERVICE, Side.NETWORK} else Basis.ALL


BASES = np.array([_basis(variable) for variable in VARIABLES])
"""The basis of each variable."""

MADE_OF: dict[Side, list[Component]] = {
    side: [component for component in COMPONENTS if component.side is side] for side in Side
}
"""The components of each side."""
