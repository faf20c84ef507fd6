"""Single requests and what they are made of, as columns: names with their units, null if unknown.

The figures are those of the run's result, request by request: the same code cuts the same records,
with the clocks lined up over the same windows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trilat.agent.records import COMPONENTS, Component, Grade
from trilat.correlator.arrays import Bools, Rows
from trilat.correlator.attribution.attribute import Attributed
from trilat.correlator.records.frames import Names
from trilat.correlator.records.journal_columns import Column, Context, columns_of

__all__ = ["REQUEST_TYPES", "request_columns"]

_GRADES = np.array([grade.label for grade in Grade], object)
_OF_THE_ROW = ("method", "name", "status", "exchanges", "trace_id", "span_id")
_OF_THE_FILE = ("run", "host", "pid")


def _part(component: Component) -> str:
    return component.label.replace(".", "_")


REQUEST_TYPES: Mapping[str, str] = {
    "started_wall_ns": "BIGINT",
    "method": "VARCHAR",
    "name": "VARCHAR",
    "status": "USMALLINT",
    "response_ns": "BIGINT",
    "service_ns": "BIGINT",
    "network_ns": "BIGINT",
    "generator_ns": "BIGINT",
    **{f"{_part(component)}_ns": "BIGINT" for component in COMPONENTS},
    "unattributed_ns": "BIGINT",
    "lateness_ns": "BIGINT",
    "queue_low_ns": "BIGINT",
    "queue_high_ns": "BIGINT",
    "loop_blocked_ns": "BIGINT",
    "matched": "BOOLEAN",
    "marked": "BOOLEAN",
    "failed": "BOOLEAN",
    **{f"{_part(component)}_grade": "VARCHAR" for component in COMPONENTS},
    "exchanges": "USMALLINT",
    "trace_id": "VARCHAR",
    "span_id": "VARCHAR",
    "run": "VARCHAR",
    "host": "BIGINT",
    "pid": "BIGINT",
}
"""The columns and their types for DuckDB."""


def request_columns(
    rows: Rows, requests: Attributed, names: Names, facts: Mapping[str, object]
) -> dict[str, Column]:
    """The columns of `REQUEST_TYPES`, in their order, by the start of each request.

    Args:
        rows: n records.
        requests: the n requests that they are of.
        names: the texts of their name ids.
        facts: what the file's header says.
    """
    order = np.argsort(requests.started_wall_ns, kind="stable")
    columns: dict[str, Column] = columns_of(rows, Context(names, facts), _OF_THE_ROW + _OF_THE_FILE)
    parts = requests.components_ns
    columns |= {
        "started_wall_ns": requests.started_wall_ns,
        "response_ns": requests.response_ns,
        "unattributed_ns": requests.unattributed_ns,
        "lateness_ns": _known(requests.lateness_ns, requests.lateness_ns >= 0),
        "queue_low_ns": _known(requests.queue_low_ns, requests.matched),
        "queue_high_ns": _known(requests.queue_high_ns, requests.matched),
        "loop_blocked_ns": _known(requests.blocked_ns, requests.blocked_ns >= 0),
        "matched": requests.matched,
        "marked": requests.marked,
        "failed": requests.failed,
    }
    for side in ("service", "network", "generator"):
        own = [component for component in COMPONENTS if component.side == side]
        columns[f"{side}_ns"] = parts[:, own].sum(axis=1)
    for component in COMPONENTS:
        columns[f"{_part(component)}_ns"] = parts[:, component]
        # Where a component does not count, its grade means nothing.
        known = requests.marked if component.side == "generator" else requests.matched
        grades = _GRADES[requests.grades[:, component]]
        grades[~known] = None
        columns[f"{_part(component)}_grade"] = grades
    return {name: columns[name][order] for name in REQUEST_TYPES}


def _known(values: Column, known: Bools) -> Column:
    masked: Column = np.ma.MaskedArray(values, ~known)
    return masked
