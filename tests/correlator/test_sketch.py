"""Sketches: what they tell of requests, and that merging is addition."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.layout import MarkFlag
from trilat.agent.records import COMPONENTS, Component, Grade, Side
from trilat.correlator.arrays import MAX_NS
from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import Attributed, attribute
from trilat.correlator.attribution.cuts import cut
from trilat.correlator.records.frames import EXCHANGE_DTYPE
from trilat.correlator.sketches.arrivals import missed_arrivals
from trilat.correlator.sketches.sketch import VARIABLES, Sketch
from trilat.correlator.sketches.tally import BATCH_MAX

MS = 1_000_000
Rows = npt.NDArray[np.void]
Garbage = Callable[[int, int], Rows]
BATCHES = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 2**32)), max_size=4)


def _requests(rows: Rows) -> Attributed:
    cuts = cut(rows)
    return attribute(cuts, Aligner(1).align(cuts))


def _sketch(*batches: Rows) -> Sketch:
    sketch = Sketch()
    for rows in batches:
        sketch.update(_requests(rows))
    return sketch


def _merged(*sketches: Sketch) -> Sketch:
    total = Sketch()
    for sketch in sketches:
        total.merge(sketch)
    return total


@pytest.fixture(scope="module")
def rows(simulate: Callable[..., Any]) -> Rows:
    """10,000 requests to a service on the generator's host."""
    return simulate(10_000, host=1, offset_ms=0, drift_ppm=0).rows  # type: ignore[no-any-return]


@given(BATCHES, BATCHES, BATCHES)
@settings(deadline=None, max_examples=50)
def test_merging_is_commutative_and_associative(
    garbage: Garbage, one: Any, two: Any, three: Any
) -> None:
    """Exactly, for whatever was counted; and the parts stay as they were."""
    a, b, c = (_sketch(*(garbage(*batch) for batch in batches)) for batches in (one, two, three))
    before = a.to_bytes()
    expected = _merged(a, b, c).to_bytes()
    assert _merged(c, b, a).to_bytes() == expected
    assert _merged(a, _merged(b, c)).to_bytes() == expected
    assert _merged(_merged(a, b), c).to_bytes() == expected
    assert a.to_bytes() == before
    assert _merged(Sketch(), a).to_bytes() == before


@given(st.integers(1, 60), st.integers(0, 2**32), st.integers(0, 60), st.randoms())
@settings(deadline=None, max_examples=50)
def test_a_sketch_does_not_depend_on_order_or_batches(
    garbage: Garbage, n: int, seed: int, split: int, random: Any
) -> None:
    """The same requests, shuffled and cut in two, give the same bytes."""
    requests = garbage(n, seed)
    # Clocks are lined up over all requests of a window, which here are cut in two.
    requests["service_called_wall_ns"] = 0
    order = np.array(random.sample(range(n), n))
    parts = _sketch(requests[order[:split]], requests[order[split:]])
    assert parts.to_bytes() == _sketch(requests).to_bytes()


@given(st.integers(1, 60), st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_histograms_agree_with_the_requests(garbage: Garbage, n: int, seed: int) -> None:
    """Count, mean, extremes and median of each variable, over the requests it is known of."""
    requests = _requests(garbage(n, seed))
    sketch = Sketch()
    parts = requests.components_ns
    sides = {side: parts[:, [c for c in COMPONENTS if c.side is side]].sum(axis=1) for side in Side}
    everyone = np.ones(n, np.bool_)
    requests = replace(requests, missed=np.minimum(requests.missed, 1000))
    sketch.update(requests)
    corrected = requests.response_ns + np.maximum(requests.lateness_ns, 0)
    made_up = missed_arrivals(requests.response_ns, requests.lateness_ns, requests.missed)
    tasks = made_up.tasks
    of_side = {Side.SERVICE: requests.matched, Side.NETWORK: requests.matched}
    expected = {
        "response": (requests.response_ns, everyone),
        "without_generator": (requests.response_ns - sides[Side.GENERATOR], everyone),
        "without_network": (requests.response_ns - sides[Side.NETWORK], everyone),
        "without_both": (sides[Side.SERVICE] + requests.unattributed_ns, everyone),
        "corrected": (np.append(corrected, np.repeat(made_up.times_ns, tasks)), None),
        "missed": (np.repeat(made_up.times_ns, tasks), None),
        "service": (sides[Side.SERVICE], requests.matched),
        "network": (sides[Side.NETWORK], requests.matched),
        "generator": (sides[Side.GENERATOR], requests.marked),
    } | {c.label: (parts[:, c], of_side.get(c.side, requests.marked)) for c in COMPONENTS}
    assert set(expected) == set(VARIABLES)
    for variable, (of_all, known) in expected.items():
        histogram, values = sketch.histogram(variable), of_all if known is None else of_all[known]
        assert histogram.count == values.size
        if values.size:
            assert histogram.mean_ns == pytest.approx(float(values.mean()), rel=1e-12)
            assert (histogram.min_ns, histogram.max_ns) == (values.min(), values.max())
            median = np.quantile(values, 0.5, method="inverted_cdf")
            assert histogram.quantile_ns(0.5) == pytest.approx(median, rel=0.01)


def test_quantiles_of_a_run(rows: Rows) -> None:
    """Within 1 % of the exact ones."""
    sketch = _sketch(rows)
    assert sketch.requests == sketch.matched == 10_000
    for q in (0.5, 0.9, 0.95, 0.99, 0.999):
        exact = np.quantile(rows["response_ns"], q, method="inverted_cdf")
        assert sketch.histogram("response").quantile_ns(q) == pytest.approx(exact, rel=0.01)


@given(st.integers(1, 200), st.integers(0, 2**32), st.one_of(st.none(), st.floats(0, 1)))
@settings(deadline=None, max_examples=50)
def test_a_makeup_adds_up_to_a_response_time(
    garbage: Garbage, n: int, seed: int, q: float | None
) -> None:
    """Its parts are not negative, and their sum is between the smallest and the largest R."""
    requests = garbage(n, seed)
    sketch = _sketch(requests)
    makeup = sketch.makeup(q)
    response = sketch.histogram("response")
    assert makeup.shape == (10,)
    assert (makeup >= 0).all()
    total = float(makeup.sum())
    assert response.min_ns * 0.999999 <= total <= response.max_ns * 1.000001
    if q is None or n <= 20:
        assert total == pytest.approx(response.mean_ns)


def test_the_makeup_around_a_quantile(simulate: Callable[..., Any]) -> None:
    """The slowest requests of a service that sometimes queues for long are made of queue."""
    run = simulate(10_000, host=1, offset_ms=0, drift_ppm=0, queue_ms=50)
    sketch = _sketch(run.rows)
    slow = np.argsort(run.rows["response_ns"])[9850:9950]
    truth = run.truth[slow].mean(axis=0)
    makeup = sketch.makeup(0.99)
    assert float(makeup.sum()) == pytest.approx(
        sketch.histogram("response").quantile_ns(0.99), rel=0.02
    )
    assert makeup[Component.SERVICE_QUEUE] == pytest.approx(
        truth[Component.SERVICE_QUEUE], rel=0.05
    )
    assert makeup[Component.SERVICE_QUEUE] > 5 * sketch.makeup(0.1)[Component.SERVICE_QUEUE]


def test_bounds_of_the_queues_mean(simulate: Callable[..., Any]) -> None:
    """The truth lies between them."""
    run = simulate(5000, host=1, offset_ms=0, drift_ppm=0)
    low, high = _sketch(run.rows).queue_bounds_ns
    assert low <= run.truth[:, Component.SERVICE_QUEUE].mean() <= high


def test_the_weakest_grade_counts(row: Callable[..., Rows]) -> None:
    """One estimated reading makes the component's figures estimated, where it counts at all."""
    measured = _sketch(row())
    assert measured.grades[Component.GENERATOR_READ] is Grade.MEASURED
    assert measured.grades[Component.SERVICE_QUEUE] is Grade.BOUNDED
    both = _sketch(row(), row(last_lay_ns=-1))
    assert both.grades[Component.GENERATOR_READ] is Grade.ESTIMATED
    unmatched = _sketch(row(service_called_wall_ns=0, last_lay_ns=-1))
    assert unmatched.grades[Component.GENERATOR_READ] is Grade.ESTIMATED
    assert unmatched.grades[Component.SERVICE_QUEUE] is Grade.MEASURED
    custom = _sketch(row(flags=MarkFlag.UNMARKED, last_lay_ns=-1))
    assert custom.grades[Component.GENERATOR_READ] is Grade.MEASURED


def test_plain_numbers(row: Callable[..., Rows]) -> None:
    """Counts, and when the first request began and the last one ended."""
    failed = MarkFlag.SENT | MarkFlag.FAILED
    sketch = _sketch(row(flags=failed, started_wall_ns=5000), row(started_wall_ns=9000))
    sketch.merge(_sketch(row(started_wall_ns=0)))
    assert (sketch.requests, sketch.failures, sketch.matched) == (3, 1, 2)
    assert (sketch.first_wall_ns, sketch.last_wall_ns) == (5000, 9000 + 10 * MS)


def test_an_empty_sketch_knows_nothing() -> None:
    """Counts are 0, figures are NaN, and updating with nothing changes nothing."""
    sketch = _sketch(np.zeros(0, EXCHANGE_DTYPE))
    histogram = sketch.histogram("response")
    assert (sketch.requests, histogram.count) == (0, 0)
    assert (sketch.first_wall_ns, sketch.last_wall_ns) == (0, 0)
    figures = [histogram.mean_ns, histogram.min_ns, histogram.max_ns, histogram.quantile_ns(0.5)]
    assert np.isnan([*figures, *sketch.queue_bounds_ns, *sketch.makeup(None)]).all()
    assert Sketch.from_bytes(sketch.to_bytes()).to_bytes() == sketch.to_bytes()


def test_a_duration_longer_than_can_be_counted(row: Callable[..., Rows]) -> None:
    """It counts as the longest; parts and response time still agree."""
    sketch = _sketch(row(response_ns=2**63 - 1))
    assert sketch.histogram("response").max_ns == MAX_NS
    assert math.isclose(float(sketch.makeup(None).sum()), MAX_NS)


def test_too_many_at_once(row: Callable[..., Rows]) -> None:
    """More than a batch is a mistake of the caller's."""
    requests = _requests(np.repeat(row(), BATCH_MAX + 1))
    with pytest.raises(ValueError, match="at most"):
        Sketch().update(requests)


def test_an_unknown_variable() -> None:
    """There is no such histogram."""
    with pytest.raises(KeyError):
        Sketch().histogram("services")
