"""Where a report is printed: a terminal as it is, a pipe or a file wide and without blanks."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

__all__ = ["widened", "without_blanks"]

_PIPED_WIDTH = 160  # columns of what goes into a file: nothing there wraps by itself


def widened(console: Console) -> Console:
    """A console for a report, made wide if it writes into a pipe or a file.

    rich takes 80 columns there, though nothing wraps by itself; ``COLUMNS`` has the last word.
    """
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = _PIPED_WIDTH
    return console


@contextmanager
def without_blanks(console: Console) -> Iterator[None]:
    """Leave out the blanks that fill tables up on the right, where a file would keep them."""
    if console.is_terminal:
        yield
        return
    with console.capture() as capture:
        yield
    lines = capture.get().splitlines(keepends=True)
    console.file.write("".join(f"{line.rstrip()}\n" for line in lines))
    console.file.flush()
