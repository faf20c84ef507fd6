"""``--trilat-requests FILE``: every request of a run in one file, written when the run has ended.

Nothing is kept in memory for it: the requests come from the journals in the run directory. Those of
workers on other hosts are not there; each such host's own are written by ``trilat journal export
--attributed`` afterwards.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import gevent

from trilat.agent.errors import TrilatError, UsageError
from trilat.agent.segment import journal_files

if TYPE_CHECKING:
    from trilat.correlator.records.exporting import ExportFormat
    from trilat.correlator.run.rundir import RunDirectory

__all__ = ["RequestsFile", "format_of"]

_FORMATS: dict[str, ExportFormat] = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}

logger = logging.getLogger("trilat.locust")


def format_of(path: Path) -> ExportFormat:
    """The format that a file's name asks for.

    Raises:
        UsageError: none that there is.
    """
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise UsageError(f"{path}: the name ends in none of {', '.join(_FORMATS)}")
    return kind


class RequestsFile:
    """Where the requests of each run go: the second one's to ``FILE-2``, and so on.

    Args:
        path: of the first run's; a file that is there is replaced.

    Raises:
        UsageError: it cannot be written, or its name tells no format.
    """

    def __init__(self, path: Path) -> None:
        self._kind = format_of(path)
        self._path = path.absolute()
        self._runs = 0
        if not os.access(self._path.parent, os.W_OK) or self._path.is_dir():
            raise UsageError(f"{path}: cannot be written; name a file in a folder that can")

    def write(self, directory: RunDirectory, run_id: str, requests: int) -> None:
        """Write the requests of a run; a failure is logged.

        Other greenlets go on meanwhile.

        Args:
            directory: the run's; its journals are whole.
            run_id: the run's.
            requests: how many there were in all processes.
        """
        from trilat.correlator.requests.requests_file import export_requests  # noqa: PLC0415 - DuckDB

        self._runs += 1
        path = self._path
        if self._runs > 1:
            path = path.with_stem(f"{path.stem}-{self._runs}")

        def export() -> int:
            return export_requests(journal_files(directory.journals), path, self._kind, run=run_id)

        try:
            written: int = gevent.get_hub().threadpool.apply(export)
        except TrilatError as error:
            logger.error("the requests could not be written: %s", error)
            return
        if written < requests:
            logger.warning(
                "%s has %d of the run's %d requests. The others' records are on the workers' hosts,"
                " or no longer kept; write those with: trilat journal export --attributed",
                path,
                written,
                requests,
            )
