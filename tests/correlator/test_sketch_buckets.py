"""Log-linear buckets and the quantiles read off them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.correlator.arrays import MAX_NS
from trilat.correlator.sketches.buckets import BUCKETS, bucket_of, middle_of
from trilat.correlator.sketches.histogram import Histogram, rank_of
from trilat.correlator.sketches.sparse import SparseSums, run_sizes, run_starts

DURATIONS = st.one_of(
    st.integers(0, MAX_NS), st.integers(0, 200), st.integers(10_000, 10_000_000_000)
)


def _histogram(values: list[int]) -> Histogram:
    buckets, counts = np.unique(bucket_of(np.array(values)), return_counts=True)
    return Histogram(
        buckets, counts, len(values), sum(values) / len(values), min(values), max(values)
    )


def test_every_bucket_holds_its_middle() -> None:
    """The middle of each bucket, rounded down, falls in that bucket, from 0 to the longest."""
    middles = np.array([int(middle_of(bucket)) for bucket in range(BUCKETS)])
    # Below 64 ns an octave has fewer integers than buckets.
    exact = 1 + 6 * 64
    assert bucket_of(middles[exact:]).tolist() == list(range(exact, BUCKETS))
    assert sorted(set(middles[:exact].tolist())) == list(range(64))
    assert bucket_of(np.array([0, 1, MAX_NS])).tolist() == [0, 1, BUCKETS - 1]


@given(DURATIONS, DURATIONS)
def test_buckets_grow_with_the_duration(one: int, other: int) -> None:
    """A longer duration is never in a lower bucket."""
    low, high = sorted((one, other))
    first, second = bucket_of(np.array([low, high])).tolist()
    assert first <= second


@given(DURATIONS)
def test_the_middle_is_within_one_percent(duration: int) -> None:
    """Within 1/128 in fact, and exact for few nanoseconds."""
    middle = middle_of(int(bucket_of(np.array([duration]))[0]))
    assert abs(middle - duration) <= duration / 128
    assert duration >= 64 or middle == duration


@given(st.lists(DURATIONS, min_size=1, max_size=200), st.floats(0, 1))
@settings(deadline=None)
def test_quantiles_are_within_one_percent(values: list[int], q: float) -> None:
    """Of what numpy's inverted distribution function says, or of the value at its own rank."""
    got = _histogram(values).quantile_ns(q)
    inverted = int(np.quantile(values, q, method="inverted_cdf"))
    by_rank = sorted(values)[rank_of(q, len(values)) - 1]
    assert min(abs(got - inverted) - inverted / 100, abs(got - by_rank) - by_rank / 100) <= 0


@given(st.integers(1, 10**9), st.sampled_from(["0.5", "0.9", "0.95", "0.99", "0.999", "0.07"]))
def test_the_rank_is_exact_for_decimal_quantiles(count: int, q: str) -> None:
    """Rounding errors of the product do not lift the rank over a whole number."""
    assert rank_of(float(q), count) == math.ceil(Fraction(q) * count)


def test_first_and_last_are_exact() -> None:
    """The smallest and the largest value are kept beside the buckets."""
    histogram = _histogram([1_000_003, 2_000_000, 3_000_005])
    assert histogram.quantile_ns(0) == 1_000_003
    assert histogram.quantile_ns(1) == 3_000_005
    assert abs(histogram.quantile_ns(0.5) - 2_000_000) < 20_000


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
def test_there_is_no_quantile_outside_0_to_1(q: float) -> None:
    """Percentages are a usual mistake."""
    with pytest.raises(ValueError, match="a quantile is from 0 to 1"):
        _histogram([1]).quantile_ns(q)


@given(st.lists(st.dictionaries(st.integers(0, 30), st.integers(0, 99)), max_size=40))
def test_sparse_sums_add_up(pieces: list[dict[int, int]]) -> None:
    """Whatever is added, and however often it is read in between."""
    total = SparseSums(np.zeros(0, np.int32), np.zeros((2, 0), np.int64))
    expected: dict[int, int] = {}
    for number, piece in enumerate(pieces):
        keys = np.array(sorted(piece), np.int32)
        sums = np.array([piece[key] for key in keys.tolist()], np.int64)
        total.add(SparseSums(keys, np.stack((sums, 2 * sums))))
        for key, value in piece.items():
            expected[key] = expected.get(key, 0) + value
        if number % 3 == 0:
            assert total.keys.size == len(expected)
    assert total.keys.tolist() == sorted(expected)
    assert total.sums[0].tolist() == [expected[key] for key in sorted(expected)]
    assert (total.sums[1] == 2 * total.sums[0]).all()


def test_many_small_additions_are_merged_by_themselves() -> None:
    """What was set aside does not grow without bound."""
    total = SparseSums(np.zeros(0, np.int32), np.zeros(0, np.int64))
    one = SparseSums(np.arange(100, dtype=np.int32), np.ones(100, np.int64))
    for _ in range(1000):
        total.add(one)
        assert len(total._pieces) < 20
    assert total.sums.tolist() == [1000] * 100


def test_runs() -> None:
    """Starts and sizes of equal neighbours."""
    keys = np.array([3, 3, 5, 9, 9, 9], np.int32)
    starts = run_starts(keys)
    assert starts.tolist() == [0, 2, 3]
    assert run_sizes(starts, 6).tolist() == [2, 1, 3]
    assert run_sizes(run_starts(keys[:0]), 0).tolist() == []
