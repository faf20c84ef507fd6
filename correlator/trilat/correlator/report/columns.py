"""What of a table fits into a terminal: which columns, and how much of a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["cut_middle", "kept_columns", "width_of"]


def kept_columns(
    headings: Sequence[str], widths: Sequence[int], droppable: Iterable[str], room: int
) -> list[int]:
    """The columns that fit; a column goes as a whole, since a figure that is cut is wrong.

    Args:
        headings: of the columns, each once.
        widths: of the columns in terminal cells, the gap after each included.
        droppable: headings in the order in which their columns may go.
        room: terminal cells for all of them.

    Returns:
        Positions in `headings`, ascending.
    """
    kept = list(range(len(headings)))
    for heading in droppable:
        if sum(widths[index] for index in kept) <= room:
            break
        kept = [index for index in kept if headings[index] != heading]
    return kept


def width_of(heading: str, cells: Iterable[str], gap: int) -> int:
    """Terminal cells that a column takes, the gap after it included."""
    return max(cell_len(heading), *(cell_len(cell) for cell in cells), 0) + gap


def cut_middle(text: str, width: int, mark: str = "…") -> str:
    """`text` in at most `width` terminal cells: where it is longer, its middle becomes `mark`.

    Both ends stay, since names of endpoints differ at their end and are told apart by their start.
    """
    if cell_len(text) <= width:
        return text
    room = width - cell_len(mark)
    head = _fitting(text, (room + 1) // 2)
    tail = _fitting(text[::-1], room // 2)[::-1]
    return f"{head}{mark}{tail}"


def _fitting(text: str, width: int) -> str:
    """The longest start of `text` that takes at most `width` cells."""
    used = 0
    for index, char in enumerate(text):
        used += cell_len(char)
        if used > width:
            return text[:index]
    return text
