"""Reading of journal files record by record, of either side; nothing is attributed here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from trilat.agent.errors import InputError, JournalError, UsageError
from trilat.agent.layout import MarkFlag, ServedFlag
from trilat.agent.marking import RUN_ID_LENGTH
from trilat.agent.segment import Segment, SegmentHead, journal_files, read_head, read_segment
from trilat.correlator.arrays import Bools, Rows

from .frames import Names, split_records
from .journal_columns import COLUMNS, LAYOUTS_BY_SIDE, STARTS, Column, Context, Side

__all__ = ["Choice", "JournalTable", "find_journals", "read_journal", "side_of"]

_Read = TypeVar("_Read")
_ERROR_STATUS = 500
_SERVICE_FAILED = int(ServedFlag.RAISED | ServedFlag.UNFINISHED)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which records are wanted.

    Attributes:
        run: id of a run, or None for all.
        failed: only requests that failed: at a generator, as Locust counts them; at a service,
            those that raised, were not finished or ended in a status of 500 or more.
        side: only this side's.

    Raises:
        UsageError: not the id of a run.
    """

    run: str | None = None
    failed: bool = False
    side: Side | None = None

    def __post_init__(self) -> None:
        if self.run is not None and not _is_run_id(self.run):
            raise UsageError(
                f"{self.run}: not the id of a run; that has {RUN_ID_LENGTH} hexadecimal digits and"
                " stands in run.json"
            )

    def of(self, rows: Rows, segment: Segment, side: Side) -> Rows:
        """The rows of a file that are wanted."""
        wanted: Bools = np.ones(rows.size, np.bool_)
        if self.run is not None:
            if side == "service":
                wanted &= rows["run"] == int(self.run, 16)
            else:
                wanted &= segment.facts.get("run") == self.run.lower()
        if self.failed:
            wanted &= _failed(rows, side)
        return rows if wanted.all() else rows.take(np.flatnonzero(wanted))


@dataclass(frozen=True, slots=True)
class JournalTable:
    """The wanted records of one file.

    Attributes:
        side: which side wrote them.
        records: how many the file holds, wanted or not.
        columns: by name, all of one length; those of `COLUMNS`, in that order.
    """

    side: Side
    records: int
    columns: Mapping[str, Column] = field(repr=False)

    @property
    def starts_ns(self) -> Column:
        """When each request started, on the writer's wall clock, in nanoseconds."""
        return self.columns[STARTS[self.side]]

    @property
    def size(self) -> int:
        """How many records are wanted."""
        return int(self.starts_ns.size)

    def rows(self, limit: int, *, oldest: bool = False) -> list[dict[str, Any]]:
        """The newest records (or the oldest), by their start; None where a value is not known."""
        order = np.argsort(self.starts_ns, kind="stable")
        chosen = order[:limit] if oldest else order[max(order.size - limit, 0) :]
        values = zip(*(column[chosen].tolist() for column in self.columns.values()), strict=True)
        return [dict(zip(self.columns, row, strict=True)) for row in values]


def find_journals(paths: Iterable[Path]) -> list[Path]:
    """The journal files that paths stand for, each once.

    Args:
        paths: files, folders of them, or run directories.

    Raises:
        InputError: there is none at a path.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise InputError(f"{path}: no such file or directory")
            found[path] = None
            continue
        files = journal_files(path) or journal_files(path / "journals")
        if not files:
            raise InputError(f"{path}: no journal in it; the names of journal files end in .trilat")
        found |= dict.fromkeys(files)
    return list(found)


def side_of(path: Path) -> Side | None:
    """Which side wrote a file; None where it is there no more.

    Raises:
        JournalError: it is not a journal.
    """
    head = _unless_gone(read_head, path)
    return None if head is None else _side(head)


def read_journal(path: Path, choice: Choice) -> JournalTable | None:
    """Read the wanted records of one file.

    Returns:
        None where there is nothing to read: the file is another side's, or is there no more (the
        oldest one goes while a service writes).

    Raises:
        JournalError: it is not a journal.
    """
    side = side_of(path)
    if side is None or choice.side not in {None, side}:
        return None
    if (segment := _unless_gone(read_segment, path)) is None:
        return None
    rows, parts = split_records(segment.records, segment.layout)
    names = Names()
    names.learn(parts)
    wanted, context = choice.of(rows, segment, side), Context(names, segment.facts)
    columns = {name: spec.make(wanted, context) for name, spec in COLUMNS[side].items()}
    return JournalTable(side, rows.size, columns)


def _side(head: SegmentHead) -> Side:
    return next(side for side, layout in LAYOUTS_BY_SIDE.items() if layout is head.layout)


def _unless_gone(read: Callable[[Path], _Read], path: Path) -> _Read | None:
    try:
        return read(path)
    except JournalError:
        if path.exists():
            raise
        return None


def _is_run_id(text: str) -> bool:
    return len(text) == RUN_ID_LENGTH and set(text.lower()) <= set("0123456789abcdef")


def _failed(rows: Rows, side: Side) -> Bools:
    failed: Bools
    if side == "generator":
        failed = rows["flags"] & int(MarkFlag.FAILED) != 0
    else:
        raised = rows["flags"] & _SERVICE_FAILED != 0
        failed = raised | (rows["status"] >= _ERROR_STATUS)
    return failed
