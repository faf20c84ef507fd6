"""`LagHistogram`: what a timer tells of the time in which it did not come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.correlator.samples.lag_histogram import LagHistogram

MS = 1_000_000
TICKS = st.lists(
    st.tuples(st.integers(0, 9_000 * MS), st.integers(5 * MS, 50 * MS)), min_size=1, max_size=30
)


def test_a_block_counts_for_all_the_ticks_that_it_kept_from_coming() -> None:
    """Half of the time blocked is half of the distribution, though it is one tick of 51."""
    lag = LagHistogram()
    for _ in range(50):
        lag.add(0, 10 * MS)
    lag.add(500 * MS, 10 * MS)
    assert lag.whole_ns == 1000 * MS
    assert lag.quantile_ms(0.5) <= 0.5
    assert lag.quantile_ms(0.75) == pytest.approx(250, rel=0.1)
    assert lag.mean_ms == pytest.approx(127.5)
    assert lag.max_ns == 500 * MS


def test_nothing_is_nothing() -> None:
    """Before the first tick."""
    lag = LagHistogram()
    assert (lag.mean_ms, lag.whole_ns, lag.spans_ms(), lag.quantile_ms(0.95)) == (0.0, 0, [], 0)


@given(TICKS)
def test_it_covers_the_time_and_keeps_order(ticks: list[tuple[int, int]]) -> None:
    """What it covers is what passed, to a period; percentiles rise and stay within the maximum."""
    lag = LagHistogram()
    passed = 0
    for late_ns, period_ns in ticks:
        lag.add(late_ns, period_ns)
        passed += late_ns + period_ns
    periods = sum(period_ns for _, period_ns in ticks)
    assert passed - periods <= lag.whole_ns <= passed + periods
    quantiles = [lag.quantile_ms(q) for q in (0.1, 0.5, 0.9, 0.95, 0.99, 1.0)]
    assert quantiles == sorted(quantiles)
    assert quantiles[-1] <= lag.max_ns / MS
    assert 0 <= lag.mean_ms <= lag.max_ns / MS
    assert lag.max_ns == max(late_ns for late_ns, _ in ticks)


@given(TICKS, TICKS)
def test_what_samples_tell_of_it_adds_up(
    ours: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    """Told in rounded milliseconds and merged, it is the histogram of all ticks."""
    merged, whole = LagHistogram(), LagHistogram()
    for ticks in (ours, theirs):
        part = LagHistogram()
        for late_ns, period_ns in ticks:
            part.add(late_ns, period_ns)
            whole.add(late_ns, period_ns)
        merged.merge_ms(part.spans_ms(), round(part.mean_ms, 3), round(part.max_ns / MS, 3))
    assert merged.spans_ms() == pytest.approx(whole.spans_ms(), abs=0.01)
    assert merged.mean_ms == pytest.approx(whole.mean_ms, abs=0.01)
    assert merged.max_ns == pytest.approx(whole.max_ns, abs=1000)
