"""Printing onto a console: text that fits its encoding, tables that fit its width."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilat.correlator.report.bars import glyphs_of, is_utf8
from trilat.correlator.report.columns import cut_middle, kept_columns, width_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from rich.console import Console

__all__ = ["Page", "Point"]

_WIDE = 110  # columns from which on shares are written out and components explained


class Point(NamedTuple):
    """A sentence under a mark."""

    mark: str
    sentence: str
    style: str = ""


class Page:
    """A console, and what fits it.

    Args:
        console: where to print; its width, encoding and colours are honoured.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.encoding = console.encoding
        self.utf8 = is_utf8(self.encoding)
        self.glyphs = glyphs_of(self.encoding)
        self.wide = console.width >= _WIDE
        self.gap = 2 if self.wide else 1

    def fit(self, text: str) -> str:
        """`text` in the console's encoding; what it lacks is written as an escape."""
        if self.utf8:
            return text
        plain = text.replace("…", "...")
        return plain.encode(self.encoding, "backslashreplace").decode(self.encoding)

    def name(self, title: str, width: int, style: str) -> Text:
        """A name that comes from outside, in at most so many cells."""
        return Text(cut_middle(self.fit(title), width, "…" if self.utf8 else "..."), style=style)

    def points(self, points: Sequence[Point]) -> None:
        """A list of sentences; where one wraps, the rest hangs under its start."""
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column()
        for point in points:
            grid.add_row(Text(point.mark, style=point.style), Text(self.fit(point.sentence)))
        if points:
            self.console.print(Padding(grid, (0, 0, 0, 2), expand=False))

    def table(self, headings: Sequence[str], right: Container[int]) -> Table:
        """An empty table; columns whose positions are in `right` are flush right."""
        padding = (0, self.gap, 0, 0)
        table = Table(box=None, padding=padding, pad_edge=False, header_style="dim")
        for index, heading in enumerate(headings):
            table.add_column(heading, justify="right" if index in right else "left", no_wrap=True)
        return table

    def fitting_table(
        self,
        headings: Sequence[str],
        cells: Sequence[Sequence[Text]],
        right: Container[int],
        droppable: Sequence[str],
    ) -> None:
        """Print a table without the columns that the console has no room for."""
        widths = [
            width_of(heading, (line[index].plain for line in cells), self.gap)
            for index, heading in enumerate(headings)
        ]
        kept = kept_columns(headings, widths, droppable, self.console.width + self.gap)
        table = self.table(
            [headings[index] for index in kept],
            [place for place, index in enumerate(kept) if index in right],
        )
        for line in cells:
            table.add_row(*(line[index] for index in kept))
        self.console.print(table)
