"""Texts in CSV files are no formulas."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trilat.correlator.records.spreadsheet import FORMULA_STARTS, as_text


@given(st.text())
def test_no_text_begins_as_a_formula_does(text: str) -> None:
    """It keeps all it says, and only what looks like a formula gets a quote before it."""
    made = as_text(text)
    assert not made.startswith(tuple(FORMULA_STARTS))
    assert made.endswith(text)
    assert made == text or text.startswith(tuple(FORMULA_STARTS))
