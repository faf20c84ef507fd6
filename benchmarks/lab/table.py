"""Requests and what they are made of, as columns: one form for the truth and for trilat's word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["COLUMNS", "PARTS", "SIDES", "Floats", "Table", "side_of"]

Floats = npt.NDArray[np.float64]

PARTS = (
    "generator.send",
    "network.connect",
    "network.out",
    "service.queue",
    "service.app",
    "service.body",
    "network.back",
    "generator.end",
    "unattributed",
)
"""What a response time is made of. No packet tells when the generator had read an answer, so
``generator.end`` is trilat's ``generator.read`` and ``generator.finish`` together."""

SIDES = ("generator", "network", "service", "unattributed")
COLUMNS = (*PARTS, *SIDES[:3], "before", "after")
"""Beside the parts: the sides; all before the application was called, and all after its answer."""


def side_of(part: str) -> str:
    """Who a part belongs to."""
    return part.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Table:
    """n requests.

    Attributes:
        spans: the span id of each one's last exchange.
        started_ns: when it started, ns since the epoch.
        response_ns: Locust's response time.
        columns: those of `COLUMNS`, ns; NaN where nothing is known.
    """

    spans: npt.NDArray[np.uint64]
    started_ns: npt.NDArray[np.int64]
    response_ns: Floats
    columns: Mapping[str, Floats]

    @property
    def size(self) -> int:
        """How many requests."""
        return int(self.spans.size)

    def take(self, places: npt.NDArray[np.intp]) -> Table:
        """Some of the requests."""
        return Table(
            self.spans[places],
            self.started_ns[places],
            self.response_ns[places],
            {name: column[places] for name, column in self.columns.items()},
        )
