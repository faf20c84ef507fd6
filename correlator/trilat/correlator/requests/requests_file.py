"""Every request of a run in one file for other tools, split up: from the generators' journals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from trilat.agent.segment import Segment, read_segment
from trilat.correlator.arrays import Rows
from trilat.correlator.attribution.attribute import Attributed
from trilat.correlator.records.exporting import ExportFormat, export_columns
from trilat.correlator.records.frames import Names
from trilat.correlator.records.journal_columns import Column

from .pipeline import Attributor
from .request_columns import REQUEST_TYPES, request_columns

__all__ = ["attributed_requests", "export_requests"]

_PIECE = 2**14  # records; as columns of texts and numbers they take some twenty megabytes

Table = Mapping[str, Column]


def export_requests(
    journals: Iterable[Path],
    out: Path,
    kind: ExportFormat,
    *,
    run: str | None = None,
    failed: bool = False,
) -> int:
    """Write the requests in journals into one file; one that is there is replaced.

    Args:
        journals: the files, those of one process in the order in which they were written;
            a service's are left out.
        out: the file.
        kind: its format.
        run: only requests of the run with this id.
        failed: only those that Locust counted as failed.

    Returns:
        How many requests were written.

    Raises:
        InputError: the output cannot be written; the text says why.
        JournalError: a journal cannot be read.
    """
    tables = attributed_requests(journals, run)
    if failed:
        tables = (_only(table, table["failed"]) for table in tables)
    return export_columns(tables, REQUEST_TYPES, out, kind)


def attributed_requests(journals: Iterable[Path], run: str | None = None) -> Iterator[Table]:
    """The requests in journals in pieces of bounded size: see `request_columns`.

    Raises:
        JournalError: a journal cannot be read.
    """
    series: dict[str, list[Path]] = {}
    for path in journals:  # a process numbers its names for itself, and its files lie together
        series.setdefault(str(path.parent / path.stem.rpartition("-")[0]), []).append(path)
    for paths in series.values():
        yield from _of_process(paths, run)


def _of_process(paths: Iterable[Path], run: str | None) -> Iterator[Table]:
    found: list[Table] = []
    attributor: Attributor | None = None
    for path in paths:
        segment = read_segment(path)
        facts = segment.facts
        if facts.get("side", "generator") != "generator" or run not in {None, facts.get("run")}:
            continue
        if attributor is None:

            def take(rows: Rows, requests: Attributed, names: Names, of: Segment = segment) -> None:
                found.append(request_columns(rows, requests, names, of.facts))

            host = facts.get("host")
            attributor = Attributor(host if isinstance(host, int) else 0, take)
        piece = _PIECE * segment.layout.size
        for begin in range(0, len(segment.records), piece):
            attributor.feed(segment.records[begin : begin + piece])
            yield from found
            found.clear()
    if attributor is not None:
        attributor.flush()
        yield from found


def _only(table: Table, wanted: Column) -> Table:
    places = np.flatnonzero(wanted)
    return {name: column[places] for name, column in table.items()}
