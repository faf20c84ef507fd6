"""Journals for other tools: one table as CSV, JSON lines or Parquet.

The records go through a database file beside the output, one journal file at a time, and from there
into the output as DuckDB writes it: memory stays bounded whatever the journals' size. The output
appears whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import duckdb
import numpy as np

from trilat.agent.errors import InputError

from .journal_columns import COLUMNS, Column, Side
from .journals import JournalTable

__all__ = ["FORMATS", "ExportFormat", "export"]

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
    columns = COLUMNS[side]
    definition = ", ".join(f"{name} {spec.sql}" for name, spec in columns.items())
    try:
        with TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
            whole = Path(folder) / "whole"
            with duckdb.connect(str(Path(folder) / "records.duckdb"), config=_CONFIG) as database:
                database.execute(f"CREATE TABLE records ({definition})")
                written = sum(_insert(database, table) for table in tables)
                target = str(whole).replace("'", "''")
                database.execute(f"COPY records TO '{target}' ({FORMATS[kind]})")
            whole.replace(out)
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror or error}") from error
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{out}: cannot be written: {reason}") from error
    return written


def _insert(database: duckdb.DuckDBPyConnection, table: JournalTable) -> int:
    if not table.size:
        return 0
    arrays: dict[str, Column] = {}
    values = []
    for name, column in table.columns.items():
        arrays[name] = column
        values.append(name)
        if isinstance(column, np.ma.MaskedArray):  # not every DuckDB reads masks
            arrays[name] = column.data
            arrays[f"{name}_unknown"] = np.ma.getmaskarray(column)
            values[-1] = f"CASE WHEN {name}_unknown THEN NULL ELSE {name} END"
    database.register("rows", arrays)
    database.execute(f"INSERT INTO records SELECT {', '.join(values)} FROM rows")  # noqa: S608
    database.unregister("rows")
    return table.size
