"""Shares of a response time as a bar of characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from trilat.agent.records import Side

if TYPE_CHECKING:
    from trilat.correlator.report.rows import Shares

__all__ = ["SIDE_STYLES", "bar", "glyphs_of", "is_utf8", "share_bar"]

SIDE_STYLES = {
    Side.SERVICE: "bright_blue",
    Side.NETWORK: "green",
    Side.GENERATOR: "yellow",
    Side.UNATTRIBUTED: "dim",
}
"""Colours of the sides."""

# Told apart by shape, so that the bar reads without colour.
_GLYPHS = {Side.SERVICE: "█", Side.NETWORK: "━", Side.GENERATOR: "▒", Side.UNATTRIBUTED: "?"}
_GLYPHS_ASCII = {Side.SERVICE: "S", Side.NETWORK: "-", Side.GENERATOR: "g", Side.UNATTRIBUTED: "?"}


def share_bar(shares: Shares, width: int, encoding: str) -> Text:
    """`shares` drawn as a bar of `width` cells, in characters that `encoding` has."""
    glyphs = glyphs_of(encoding)
    drawn = Text()
    for side, cells in bar(shares, width):
        drawn.append(glyphs[side] * cells, style=SIDE_STYLES[side])
    return drawn


def is_utf8(encoding: str) -> bool:
    """Whether an encoding has every character."""
    return encoding.lower().replace("-", "").startswith("utf8")


def glyphs_of(encoding: str) -> dict[Side, str]:
    """The character of each side's cells, of those that `encoding` has."""
    return _GLYPHS if is_utf8(encoding) else _GLYPHS_ASCII


def bar(shares: Shares, width: int) -> list[tuple[Side, int]]:
    """How many of `width` cells each side gets: largest remainders, so they add up to `width`."""
    exact = [(side, share * width) for side, share in shares.parts()]
    cells = {side: int(value) for side, value in exact}
    by_remainder = sorted(exact, key=lambda item: item[1] - int(item[1]), reverse=True)
    for side, _ in by_remainder[: width - sum(cells.values())]:
        cells[side] += 1
    return [(side, cells[side]) for side, _ in exact]
