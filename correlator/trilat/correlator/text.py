"""Numbers and foreign text, made fit for a person to read.

Names of endpoints, hosts and users come from outside. They may hold terminal escapes, line breaks
or marks that reverse the direction of writing; whatever is printed passes through `clean` first.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

__all__ = ["MISSING", "clean", "count", "duration", "instant", "milliseconds", "percent", "rate"]

MISSING = "-"
"""Stands where a figure is not known."""

_DIGITS = 3
_DECIMALS_MAX = 3  # of a millisecond: below a microsecond no mark of either side means anything
_TEXT_MAX = 300


def clean(text: object, limit: int = _TEXT_MAX) -> str:
    """Foreign text on one line, with everything that does not print written as an escape.

    Args:
        text: anything; what is no string is taken as its `str`.
        limit: longest result in characters; longer text loses its middle.
    """
    raw = str(text)
    if len(raw) > limit:
        head = (limit - 1) // 2
        raw = f"{raw[:head]}…{raw[len(raw) - (limit - 1 - head) :]}"
    if raw.isprintable():
        return raw
    return "".join(char if char.isprintable() else _escaped(char) for char in raw)


def _escaped(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _significant(value: float) -> str:
    """`value` with three significant digits and digit groups, never in exponent form."""
    rounded = float(f"{value:.{_DIGITS - 1}e}")
    magnitude = math.floor(math.log10(abs(rounded)))
    decimals = min(max(_DIGITS - 1 - magnitude, 0), _DECIMALS_MAX)
    return f"{rounded:,.{decimals}f}"


def milliseconds(value_ms: float | None) -> str:
    """A time in milliseconds with three significant digits, without its unit."""
    if value_ms is None or not math.isfinite(value_ms):
        return MISSING
    if value_ms == 0:
        return "0"
    if abs(value_ms) < 10**-_DECIMALS_MAX:
        return "<0.001"
    return _significant(value_ms)


def rate(value_per_s: float | None) -> str:
    """A rate with three significant digits, without its unit."""
    return milliseconds(value_per_s)


def count(value: int) -> str:
    """A count: exact below a million, then with three significant digits."""
    if value < 1_000_000:
        return f"{value:,}"
    if value < 1_000_000_000:
        return f"{_significant(value / 1e6)} M"
    return f"{_significant(value / 1e9)} G"


def percent(share: float | None) -> str:
    """A fraction of 1 as whole per cent; what is neither nothing nor all never reads as such."""
    if share is None or not math.isfinite(share):
        return MISSING
    if 0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{share * 100:.0f} %"


def duration(seconds: float | None) -> str:
    """A span of time in the two units that matter: ``45.0 s``, ``12 min 30 s``, ``3 h 5 min``."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return MISSING
    if seconds < 60:
        return f"{milliseconds(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def instant(wall_ns: float | None) -> str:
    """A moment of the wall clock (nanoseconds since the epoch) in UTC, to the second."""
    if wall_ns is None:
        return MISSING
    try:
        moment = datetime.fromtimestamp(wall_ns / 1e9, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return MISSING
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
