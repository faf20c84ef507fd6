"""What a sketch counted between two looks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import Attributed, attribute
from trilat.correlator.attribution.cuts import cut
from trilat.correlator.sketches.sketch import VARIABLES, Sketch

BATCH = st.tuples(st.integers(1, 40), st.integers(0, 2**32))


def _requests(rows: Any) -> Attributed:
    cuts = cut(rows)
    return attribute(cuts, Aligner(1).align(cuts))


@given(BATCH, BATCH)
@settings(deadline=None, max_examples=60)
def test_the_difference_is_what_came_between(
    garbage: Callable[[int, int], Any], before: tuple[int, int], between: tuple[int, int]
) -> None:
    """Counts, means and makeups are those of a sketch of the later requests alone."""
    sketch, alone = Sketch(), Sketch()
    sketch.update(_requests(garbage(*before)))
    earlier = sketch.copy()
    later = _requests(garbage(*between))
    sketch.update(later)
    alone.update(later)
    found = sketch.since(earlier)
    assert found.requests == alone.requests == between[0]
    assert (found.failures, found.matched) == (alone.failures, alone.matched)
    for q in (None, 0.5, 0.95):
        np.testing.assert_array_equal(found.makeup(q), alone.makeup(q))
    assert found.blocked.known == alone.blocked.known
    assert found.blocked.total_ns == alone.blocked.total_ns
    for variable in VARIABLES:
        mine, true = found.histogram(variable), alone.histogram(variable)
        assert mine.count == true.count
        assert mine.mean_ns == true.mean_ns or math.isnan(mine.mean_ns)
        for q in (0, 0.5, 0.95, 1):
            assert mine.quantile_ns(q) == pytest.approx(true.quantile_ns(q), rel=0.01, nan_ok=True)


def test_nothing_came_between(garbage: Callable[[int, int], Any]) -> None:
    """Two looks at the same state leave no request, and no figure."""
    sketch = Sketch()
    sketch.update(_requests(garbage(20, 1)))
    found = sketch.since(sketch.copy())
    assert found.requests == 0
    assert np.isnan(found.makeup(0.5)).all()
    assert math.isnan(found.histogram("response").mean_ns)


def test_another_sketch_is_not_an_earlier_state(row: Callable[..., Any]) -> None:
    """A key that is not among these cannot have been there before."""
    sketch, other = Sketch(), Sketch()
    sketch.update(_requests(row()))
    other.update(_requests(row(response_ns=12_000_000)))
    with pytest.raises(ValueError, match="not an earlier state"):
        sketch.since(other)
