"""Texts from outside in CSV files, which people open in spreadsheets."""

from __future__ import annotations

__all__ = ["FORMULA_STARTS", "as_text"]

FORMULA_STARTS = "=+-@\t\r\n"
"""A text that begins with one of these is a formula to a spreadsheet, and may do what it likes
(OWASP, *CSV Injection*, https://owasp.org/www-community/attacks/CSV_Injection)."""


def as_text(text: str) -> str:
    """A text that no spreadsheet takes for a formula: before what looks like one stands a quote.

    That is the apostrophe which spreadsheets themselves use to say that a cell is text.
    """
    return f"'{text}" if text.startswith(tuple(FORMULA_STARTS)) else text
