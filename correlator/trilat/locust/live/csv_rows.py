"""Rows of attribution in the style of Locust's CSV files: what a sketch says, as cells."""

from __future__ import annotations

from trilat.agent.records import COMPONENTS, Side
from trilat.correlator.judge.cause import shares
from trilat.correlator.records.spreadsheet import as_text
from trilat.correlator.sketches.book import Endpoint
from trilat.correlator.sketches.sketch import Sketch

__all__ = ["AGGREGATED", "COLUMNS", "FIGURES", "UNKNOWN", "Cell", "figures", "row"]

Cell = str | int | float

AGGREGATED: Endpoint = ("", "Aggregated")
"""The row of all endpoints together, as Locust names it."""
UNKNOWN = "N/A"
"""A cell without a value, as Locust writes it."""

_VARIABLES = ("response", "service", "network", "generator")
_QUANTILES = {"50%": 0.5, "95%": 0.95, "99%": 0.99}
_SHARES = {"": None, " 95%": 0.95}
_MS = 1e6

FIGURES: tuple[str, ...] = (
    *(
        f"{variable.capitalize()} {statistic}"
        for variable in _VARIABLES
        for statistic in ("Average", *_QUANTILES)
    ),
    *(f"{side.capitalize()} Share{which}" for which in _SHARES for side in Side),
)
"""Columns with times in milliseconds, and shares as fractions of 1: of the mean response time, and
of the requests around its 95th percentile."""

COLUMNS: tuple[str, ...] = (
    *("Type", "Name", "Request Count", "Failure Count", "Matched Count"),
    *FIGURES,
    *(f"{component.label} Average" for component in COMPONENTS),
    "unattributed Average",
    *(f"{component.label} Grade" for component in COMPONENTS),
)
"""Columns of what is known of an endpoint up to now."""


def row(endpoint: Endpoint, sketch: Sketch) -> list[Cell]:
    """An endpoint's row for `COLUMNS`."""
    method, name = endpoint
    known = sketch.requests > 0
    return [
        *(as_text(method), as_text(name), sketch.requests, sketch.failures, sketch.matched),
        *figures(sketch),
        *(_ms(part) if known else UNKNOWN for part in sketch.makeup(None).tolist()),
        *(
            grade.label if sketch.histogram(component.label).count else UNKNOWN
            for component, grade in zip(COMPONENTS, sketch.grades, strict=True)
        ),
    ]


def figures(sketch: Sketch) -> list[Cell]:
    """The cells of `FIGURES`."""
    cells: list[Cell] = []
    for variable in _VARIABLES:
        histogram = sketch.histogram(variable)
        if histogram.count:
            cells.append(_ms(histogram.mean_ns))
            cells += (_ms(histogram.quantile_ns(q)) for q in _QUANTILES.values())
        else:
            cells += [UNKNOWN] * (1 + len(_QUANTILES))
    for quantile in _SHARES.values():
        if sketch.requests:
            cells += (round(part, 4) for part in shares(sketch, quantile).values())
        else:
            cells += [UNKNOWN] * len(Side)
    return cells


def _ms(value_ns: float) -> float:
    return round(value_ns / _MS, 3)
