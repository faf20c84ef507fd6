"""Numbers and foreign text as reports write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.correlator.text import (
    MISSING,
    clean,
    count,
    duration,
    instant,
    milliseconds,
    percent,
)


@pytest.mark.parametrize(
    ("value_ms", "written"),
    [
        (None, MISSING),
        (math.nan, MISSING),
        (math.inf, MISSING),
        (0.0, "0"),
        (0.0004, "<0.001"),
        (0.0312, "0.031"),
        (0.9996, "1.00"),
        (1.0, "1.00"),
        (57.0, "57.0"),
        (99.96, "100"),
        (999.6, "1,000"),
        (57_312.4, "57,300"),
        (-3.2, "-3.20"),
    ],
)
def test_milliseconds_have_three_significant_digits(value_ms: float | None, written: str) -> None:
    """Times carry three significant digits, no finer than a microsecond, and never an exponent."""
    assert milliseconds(value_ms) == written


@given(st.floats(min_value=0.1, max_value=1e9))
def test_milliseconds_are_within_half_a_per_cent(value_ms: float) -> None:
    """What is written is what was measured, to the last of the three digits."""
    assert float(milliseconds(value_ms).replace(",", "")) == pytest.approx(value_ms, rel=0.00501)


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "0"), (999_999, "999,999"), (1_234_567, "1.23 M"), (5_000_000_000, "5.00 G")],
)
def test_counts_are_exact_below_a_million(value: int, written: str) -> None:
    """Counts stay short enough for a column and exact where a reader would check them."""
    assert count(value) == written


@given(st.floats(min_value=0, max_value=1, exclude_min=True, exclude_max=True))
def test_a_part_never_reads_as_nothing_or_all(share: float) -> None:
    """A share strictly between 0 and 1 is written as neither 0 % nor 100 %."""
    assert percent(share) not in {"0 %", "100 %"}


def test_spans_and_moments() -> None:
    """Durations use two units at most; moments are in UTC and survive absurd values."""
    assert duration(45.0) == "45.0 s"
    assert duration(750) == "12 min 30 s"
    assert duration(11_100) == "3 h 5 min"
    assert duration(-1) == MISSING
    assert instant(1_790_000_000_000_000_000) == "2026-09-21 14:13:20 UTC"
    assert instant(1e30) == MISSING


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_cleaned_text_prints(text: str, limit: int) -> None:
    """Whatever comes in, the result is printable, on one line, and encodes."""
    cleaned = clean(text, limit)
    assert cleaned.isprintable()
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    if text.isprintable():
        assert len(cleaned) == min(len(text), limit)


def test_escapes_and_direction_marks_are_written_out() -> None:
    """A terminal escape and a right-to-left override become visible text."""
    assert clean("a\x1b[31mb\u202ec\nd") == "a\\x1b[31mb\\u202ec\\x0ad"


def test_long_text_keeps_both_ends() -> None:
    """Text over the limit loses its middle."""
    assert clean("start-" + "x" * 100 + "-end", limit=11) == "start…x-end"
