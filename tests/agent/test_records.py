"""The nine components and what must hold for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.agent.records import COMPONENTS, Attribution, Component, Grade, Side

GRADES = (Grade.MEASURED,) * 9
PARTS = st.lists(st.integers(0, 10**12), min_size=9, max_size=9).map(tuple)


def test_components_have_their_names_and_sides() -> None:
    """Names, order and sides are those that reports and files are built on."""
    assert [(component.label, component.side) for component in COMPONENTS] == [
        ("generator.send", Side.GENERATOR),
        ("network.connect", Side.NETWORK),
        ("network.out", Side.NETWORK),
        ("service.queue", Side.SERVICE),
        ("service.app", Side.SERVICE),
        ("service.body", Side.SERVICE),
        ("network.back", Side.NETWORK),
        ("generator.read", Side.GENERATOR),
        ("generator.finish", Side.GENERATOR),
    ]
    assert list(COMPONENTS) == list(range(9)) == sorted(Component)


def test_a_larger_grade_is_weaker() -> None:
    """The weakest of several grades is their maximum."""
    assert max(Grade.MEASURED, Grade.ESTIMATED, Grade.BOUNDED) is Grade.ESTIMATED
    assert [grade.label for grade in Grade] == ["measured", "bounded", "estimated"]


@given(PARTS, st.integers(0, 10**12))
def test_parts_that_add_up_are_an_attribution(parts: tuple[int, ...], rest: int) -> None:
    """Nine parts and the rest make up the response time."""
    attribution = Attribution(sum(parts) + rest, parts, rest, GRADES)
    assert sum(attribution.components_ns) + attribution.unattributed_ns == attribution.response_ns


@given(PARTS, st.integers(-(10**6), 10**6).filter(bool))
def test_parts_that_do_not_add_up_are_refused(parts: tuple[int, ...], error: int) -> None:
    """A nanosecond too much or too little is a mistake in the arithmetic."""
    with pytest.raises(ValueError, match="do not add up"):
        Attribution(sum(parts) + error, parts, 0, GRADES)


@given(PARTS, st.integers(0, 8))
def test_negative_part_is_refused(parts: tuple[int, ...], at: int) -> None:
    """No part of a response time is less than nothing, also where the sum is right."""
    negative = (*parts[:at], -1, *parts[at + 1 :])
    with pytest.raises(ValueError, match="negative"):
        Attribution(sum(negative), negative, 0, GRADES)
    with pytest.raises(ValueError, match="negative"):
        Attribution(sum(parts) - 1, parts, -1, GRADES)


@pytest.mark.parametrize(("parts", "grades"), [(8, 9), (10, 9), (9, 8)])
def test_other_numbers_of_parts_are_refused(parts: int, grades: int) -> None:
    """It takes nine components and nine grades."""
    with pytest.raises(ValueError, match="nine components and nine grades"):
        Attribution(0, (0,) * parts, 0, (Grade.MEASURED,) * grades)
