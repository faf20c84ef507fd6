"""Records of journals as tables for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from trilat.correlator.records.journal_columns import STARTS, Side
from trilat.correlator.report.console import without_blanks
from trilat.correlator.text import MISSING, clean, count, instant, milliseconds

if TYPE_CHECKING:
    from rich.console import Console

    from trilat.correlator.records.journals import JournalTable

__all__ = ["Shown", "print_tables"]

Row = Mapping[str, Any]
_NAME_MAX = 60
_NOTES: Mapping[Side, tuple[str, ...]] = {
    "generator": ("failed", "connected", "tls", "unmarked"),
    "service": ("streamed", "disconnected", "raised", "unfinished"),
}


@dataclass(slots=True)
class _Part:
    """What was found of one side."""

    files: int = 0
    records: int = 0
    chosen: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)


class Shown:
    """The records to show: so many of each side, whatever number of files they come from.

    Args:
        limit: records of each side.
        oldest: whether the oldest are shown, not the newest.

    Attributes:
        parts: what was found, by side.
    """

    def __init__(self, limit: int, *, oldest: bool = False) -> None:
        self.parts: dict[Side, _Part] = {}
        self.oldest = oldest
        self._limit = limit

    def add(self, table: JournalTable) -> None:
        """Take the records of one more file in."""
        part = self.parts.setdefault(table.side, _Part())
        part.files += 1
        part.records += table.records
        part.chosen += table.size
        start = STARTS[table.side]
        rows = [*part.rows, *table.rows(self._limit, oldest=self.oldest)]
        rows.sort(key=lambda row: int(row[start]))
        part.rows = rows[: self._limit] if self.oldest else rows[-self._limit :]

    def to_json(self) -> dict[str, Any]:
        """All that is known, for programs."""
        sides: dict[str, Any] = {
            side: {
                "files": part.files,
                "records": part.records,
                "chosen": part.chosen,
                "rows": part.rows,
            }
            for side, part in self.parts.items()
        }
        return {"schema": "trilat.records/1", **sides}


def print_tables(shown: Shown, console: Console) -> None:
    """Print one table for each side."""
    with without_blanks(console):
        for side, part in shown.parts.items():
            which = "oldest" if shown.oldest else "newest"
            found = f"{_counted(part.records, 'record')} in {_counted(part.files, 'file')}"
            chosen = "" if part.chosen == part.records else f", {count(part.chosen)} of them chosen"
            shown_here = f"the {which} {count(len(part.rows))}" if part.rows else "none to show"
            console.print(f"{side}: {found}{chosen}; {shown_here}", highlight=False)
            if not part.rows:
                continue
            console.print(_table(side, part.rows))


def _counted(number: int, what: str) -> str:
    return f"{count(number)} {what}{'' if number == 1 else 's'}"


def _table(side: Side, rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading, is_number, _ in _SHOWN[side]:
        table.add_column(
            heading,
            justify="right" if is_number else "left",
            no_wrap=heading != "name",
            overflow="fold",
        )
    for row in rows:
        # Text, not str: a name must not be read as rich's markup.
        table.add_row(*(Text(show(row)) for _, _, show in _SHOWN[side]))
    return table


def _text(key: str) -> Callable[[Row], str]:
    return lambda row: MISSING if row[key] is None else clean(row[key], limit=_NAME_MAX)


def _from_ns(key: str) -> Callable[[Row], str]:
    return lambda row: MISSING if row[key] is None else milliseconds(row[key] / 1e6)


def _moment(side: Side) -> Callable[[Row], str]:
    def show(row: Row) -> str:
        wall_ns = row[STARTS[side]]
        second, zone, _ = instant(wall_ns // 10**9 * 10**9).partition(" UTC")
        return f"{second}.{wall_ns // 10**6 % 1000:03d}" if zone else MISSING

    return show


def _notes(side: Side) -> Callable[[Row], str]:
    return lambda row: " ".join(note for note in _NOTES[side] if row[note])


_SHOWN: Mapping[Side, tuple[tuple[str, bool, Callable[[Row], str]], ...]] = {
    "generator": (
        ("started (UTC)", False, _moment("generator")),
        ("method", False, _text("method")),
        ("name", False, _text("name")),
        ("status", True, _text("status")),
        ("response ms", True, _from_ns("response_ns")),
        ("service.app ms", True, _from_ns("service_app_ns")),
        ("queue ms", True, _text("service_queue_ms")),
        ("trace", False, _text("trace_id")),
        ("notes", False, _notes("generator")),
    ),
    "service": (
        ("called (UTC)", False, _moment("service")),
        ("method", False, _text("method")),
        ("name", False, _text("name")),
        ("status", True, _text("status")),
        ("start ms", True, _from_ns("app_ns")),
        ("end ms", True, _from_ns("end_ns")),
        ("blocked ms", True, _from_ns("blocked_ns")),
        ("queue ms", True, _text("queue_ms")),
        ("trace", False, _text("trace_id")),
        ("notes", False, _notes("service")),
    ),
}
"""Heading, whether it is a number, and how a row shows it."""
