"""A journal's records as columns: what each field says, under a name that tells its unit.

Both sides' columns are made from their layouts. What a record does not know is masked, and ids are
text as they stand in ``traceparent``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntFlag
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from trilat.agent.layout import EXCHANGE, SERVED, Field, MarkFlag, RecordLayout, ServedFlag
from trilat.agent.marking import RUN_ID_LENGTH
from trilat.correlator.arrays import Bools, Rows

from .frames import Names

__all__ = [
    "COLUMNS",
    "LAYOUTS_BY_SIDE",
    "STARTS",
    "Column",
    "ColumnSpec",
    "Context",
    "Side",
    "columns_of",
]

Side = Literal["generator", "service"]
Column = npt.NDArray[Any]
"""A column; a masked array where values may be unknown."""

LAYOUTS_BY_SIDE: Mapping[Side, RecordLayout] = {"generator": EXCHANGE, "service": SERVED}
STARTS: Mapping[Side, str] = {"generator": "started_wall_ns", "service": "called_wall_ns"}
"""The column that says when a request started, on the writer's wall clock."""

_FLAGS: Mapping[Side, type[IntFlag]] = {"generator": MarkFlag, "service": ServedFlag}
_LEFT_OUT = {"kind", "trace_low", "pad", "commit"}
_STAMP = "service_"
_STAMP_UNKNOWN = {"service_blocked_ns", "service_queue_ms"}
_FACTS = ("host", "pid", "instance")
_TYPES = {"H": "USMALLINT", "I": "UINTEGER", "Q": "UBIGINT", "i": "INTEGER", "q": "BIGINT"}
_ID_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Context:
    """What is needed to read a row besides the row.

    Attributes:
        names: of the file.
        facts: of the file's header, from outside: any JSON.
    """

    names: Names
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One column.

    Attributes:
        sql: its type for DuckDB.
        make: makes the column from rows.
    """

    sql: str
    make: Callable[[Rows, Context], Column]


def _columns(side: Side) -> dict[str, ColumnSpec]:
    columns: dict[str, ColumnSpec] = {}
    for field in LAYOUTS_BY_SIDE[side].fields:
        if field.name not in _LEFT_OUT:
            columns.update(_of_field(field, side))
    if side == "generator":
        columns["run"] = ColumnSpec("VARCHAR", lambda rows, at: _repeat(rows, at.facts.get("run")))
    columns |= {name: _of_fact(name) for name in _FACTS}
    first = (STARTS[side], "method", "name", "status")  # what a person looks for
    return {name: columns.pop(name) for name in first} | columns


def _of_field(field: Field, side: Side) -> Iterator[tuple[str, ColumnSpec]]:
    """The columns that a field becomes."""
    name = field.name
    if name == "flags":
        for flag in _FLAGS[side]:
            yield str(flag.name).lower(), _of_flag(int(flag))
    elif name == "name_id":
        yield "method", ColumnSpec("VARCHAR", lambda rows, at: _labels(rows, at.names, 0))
        yield "name", ColumnSpec("VARCHAR", lambda rows, at: _labels(rows, at.names, 1))
    elif name == "trace_high":
        yield "trace_id", ColumnSpec("VARCHAR", lambda rows, _: _trace_ids(rows))
    elif name == "run":
        yield name, ColumnSpec("VARCHAR", lambda rows, _: _hex(rows["run"], RUN_ID_LENGTH))
    elif name.endswith("span"):
        yield f"{name}_id", ColumnSpec("VARCHAR", lambda rows, _: _hex(rows[name], _ID_DIGITS))
    elif name.startswith(_STAMP):
        yield name, ColumnSpec(_TYPES[field.format], lambda rows, _: _of_stamp(rows, name))
    elif "-1" in field.unit:
        yield name, ColumnSpec(_TYPES[field.format], lambda rows, _: _known(rows[name]))
    else:
        yield name, ColumnSpec(_TYPES[field.format], lambda rows, _: rows[name])


def _of_flag(bit: int) -> ColumnSpec:
    return ColumnSpec("BOOLEAN", lambda rows, _: rows["flags"] & bit != 0)


def _of_fact(name: str) -> ColumnSpec:
    def make(rows: Rows, at: Context) -> Column:
        value = at.facts.get(name)
        sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
        return _repeat(rows, value if sound else None)

    return ColumnSpec("BIGINT", make)


def _known(values: Column, unknown: Bools | None = None) -> Column:
    """The values, with -1 (or what else is unknown) masked."""
    masked: Column = np.ma.MaskedArray(values, values == -1 if unknown is None else unknown)
    return masked


def _of_stamp(rows: Rows, name: str) -> Column:
    """A field of the service's stamp; unknown in all rows that have none."""
    unknown: Bools = (rows["service_span"] == 0) & (rows["service_host"] == 0)
    if name in _STAMP_UNKNOWN:
        unknown |= rows[name] == -1
    return _known(rows[name], unknown)


def _hex(values: Column, digits: int) -> Column:
    """Numbers as so many hexadecimal digits; 0 is none."""
    text = values.astype(">u8").tobytes().hex().encode()
    whole = np.frombuffer(text, f"S{_ID_DIGITS}").astype(f"U{_ID_DIGITS}").astype(object)
    cut = np.array([each[-digits:] for each in whole.tolist()], object)
    return _nulled(cut, values == 0)


def _trace_ids(rows: Rows) -> Column:
    high, low = rows["trace_high"], rows["trace_low"]
    joined = np.stack([high, low], axis=1).astype(">u8").tobytes().hex().encode()
    text = np.frombuffer(joined, f"S{2 * _ID_DIGITS}").astype(f"U{2 * _ID_DIGITS}").astype(object)
    return _nulled(text, (high == 0) & (low == 0))


def _labels(rows: Rows, names: Names, part: int) -> Column:
    """Method (part 0) or name (part 1) of each row."""
    numbers, index = np.unique(rows["name_id"], return_inverse=True)
    labels = np.array([names.label(number)[part] for number in numbers.tolist()], object)
    column: Column = labels[index]
    return column


def _repeat(rows: Rows, value: object) -> Column:
    """One value of the file's header for all rows; text where it is none that fits."""
    known = value if value is None or isinstance(value, int) else str(value)
    return np.full(rows.size, known, object)


def _nulled(values: Column, unknown: Bools) -> Column:
    values[unknown] = None
    return values


COLUMNS: Mapping[Side, Mapping[str, ColumnSpec]] = {
    "generator": _columns("generator"),
    "service": _columns("service"),
}
"""The columns of each side's records, in order."""


def columns_of(rows: Rows, at: Context, names: Iterable[str]) -> dict[str, Column]:
    """Some of the columns of a generator's records."""
    return {name: COLUMNS["generator"][name].make(rows, at) for name in names}
