"""Journals for other tools: one table as CSV, JSON lines or Parquet.

The records go through a database file beside the output, one journal file at a time, and from there
into the output as DuckDB writes it: memory stays bounded whatever the journals' size. The output
appears whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import duckdb
import numpy as np

from trilat.agent.errors import InputError

from .journal_columns import COLUMNS, Column, Side
from .journals import JournalTable
from .spreadsheet import FORMULA_STARTS

__all__ = ["FORMATS", "ExportFormat", "export", "export_columns"]

ExportFormat = Literal["csv", "jsonl", "parquet"]
FORMATS: dict[ExportFormat, str] = {
    "csv": "FORMAT csv, HEADER",
    "jsonl": "FORMAT json",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}
"""DuckDB's options for each format."""

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",  # nothing is fetched: all that is needed is built in
    "autoload_known_extensions": "true",
    "memory_limit": "512MB",
    "threads": "1",
}


def export(tables: Iterable[JournalTable], side: Side, out: Path, kind: ExportFormat) -> int:
    """Write the records of journals into one file; one that is there is replaced.

    Args:
        tables: the records, all of one side; taken one after the other.
        side: which one; it has its columns even where there is no record.
        out: the file.
        kind: its format.

    Returns:
        How many records were written.

    Raises:
        InputError: the output cannot be written; the text says why.
        JournalError: from reading the tables.
    """
    types = {name: spec.sql for name, spec in COLUMNS[side].items()}
    return export_columns((table.columns for table in tables), types, out, kind)


def export_columns(
    tables: Iterable[Mapping[str, Column]],
    types: Mapping[str, str],
    out: Path,
    kind: ExportFormat,
) -> int:
    """Write tables of the same columns into one file, like `export`.

    Args:
        tables: columns by name, in the order of ``types``; masked or None: not known.
        types: of the columns, as DuckDB names them.
        out: the file.
        kind: its format.

    Returns:
        How many rows were written.

    Raises:
        InputError: the output cannot be written; the text says why.
    """
    definition = ", ".join(f"{name} {sql}" for name, sql in types.items())
    try:
        with TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
            whole = Path(folder) / "whole"
            with duckdb.connect(str(Path(folder) / "records.duckdb"), config=_CONFIG) as database:
                database.execute(f"CREATE TABLE records ({definition})")
                written = sum(_insert(database, table) for table in tables)
                target = str(whole).replace("'", "''")
                wanted = _selection(types) if kind == "csv" else "SELECT * FROM records"
                database.execute(f"COPY ({wanted}) TO '{target}' ({FORMATS[kind]})")
            whole.replace(out)
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror or error}") from error
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{out}: cannot be written: {reason}") from error
    return written


def _selection(types: Mapping[str, str]) -> str:
    """All columns, their texts like `trilat.correlator.records.spreadsheet.as_text`."""
    formula = f"IN ({', '.join(f'chr({ord(each)})' for each in FORMULA_STARTS)})"
    columns = [
        f"CASE WHEN left({name}, 1) {formula} THEN chr(39) || {name} ELSE {name} END AS {name}"
        if sql == "VARCHAR"
        else name
        for name, sql in types.items()
    ]
    return f"SELECT {', '.join(columns)} FROM records"  # noqa: S608 - names are our own


def _insert(database: duckdb.DuckDBPyConnection, table: Mapping[str, Column]) -> int:
    size = len(next(iter(table.values())))
    if not size:
        return 0
    arrays: dict[str, Column] = {}
    values = []
    for name, column in table.items():
        arrays[name] = column
        values.append(name)
        if isinstance(column, np.ma.MaskedArray):  # not every DuckDB reads masks
            arrays[name] = column.data
            arrays[f"{name}_unknown"] = np.ma.getmaskarray(column)
            values[-1] = f"CASE WHEN {name}_unknown THEN NULL ELSE {name} END"
    database.register("rows", arrays)
    database.execute(f"INSERT INTO records SELECT {', '.join(values)} FROM rows")  # noqa: S608
    database.unregister("rows")
    return size
