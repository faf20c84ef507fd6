"""Tasks that were never started, checked against users that send whatever the others do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import attribute
from trilat.correlator.attribution.cuts import cut
from trilat.correlator.sketches.arrivals import missed_arrivals
from trilat.correlator.sketches.sketch import Sketch

MS = 1_000_000
Rows = npt.NDArray[np.void]


@given(
    st.lists(
        st.tuples(st.integers(0, 10**12), st.integers(0, 10**9), st.integers(0, 5000)), max_size=5
    )
)
def test_missed_tasks_are_counted_one_by_one(times: list[tuple[int, int, int]]) -> None:
    """None is lost to the points they are put together at, and each lies within its lateness."""
    response, lateness, missed = np.array(times, np.int64).reshape(-1, 3).T
    found = missed_arrivals(response, lateness, missed)
    tasks = np.zeros(missed.size, np.int64)
    np.add.at(tasks, found.request, found.tasks)
    assert tasks.tolist() == missed.tolist()
    assert (found.tasks > 0).all()
    beyond = found.times_ns - response[found.request]
    assert (beyond >= 0).all()
    assert (beyond <= lateness[found.request]).all()
    # Evenly within the lateness: on average half of it.
    sums = np.zeros(missed.size)
    np.add.at(sums, found.request, beyond * found.tasks)
    np.testing.assert_allclose(sums, missed * lateness / 2, atol=float(missed.sum()) + 1)


def test_as_many_points_as_tasks() -> None:
    """Four tasks missed in 400 ms: as if each had been due in the middle of its 100 ms."""
    found = missed_arrivals(*(np.array([value]) for value in (10 * MS, 400 * MS, 4)))
    assert (found.times_ns // MS).tolist() == [60, 160, 260, 360]


@pytest.mark.parametrize("stall_ms", [300, 1000, 3000])
def test_a_stall_looks_as_to_independent_users(row: Callable[..., Rows], stall_ms: int) -> None:
    """Users of one period, started at random; the service answers in 5 ms but for one stall.

    Locust's users are stuck in it, and begin anew when it is over. Independent ones, of which as
    many arrive all the time, wait for what is left of it. Their percentiles are those counted
    from intended starts.
    """
    random, period, run_ms, at_ms = np.random.default_rng(3), 100.0, 20_000.0, 8_000.0
    end_ms, rows, truth = at_ms + stall_ms, [], []
    for begin in random.uniform(0, period, 200):
        plan, behind = begin, 0.0
        late, missed = 0.0, 0
        while plan < run_ms:
            now = plan + late
            took = (end_ms - now if at_ms <= now < end_ms else 0) + 5
            rows.append((took, late, missed))
            overrun = now + took - (now + period)  # Locust plans from when it did start
            plan, late, missed = now + period, 0.0, 0
            if overrun > 0:
                late = overrun
                missed, behind = divmod(behind + late, period)
        for due in np.arange(begin, run_ms, period):
            truth.append((end_ms - due if at_ms <= due < end_ms else 0) + 5)
    made = np.repeat(row(), len(rows))
    took_ms, late_ms, missed_tasks = np.array(rows).T
    made["response_ns"], made["lateness_ns"] = took_ms * MS, late_ms * MS
    made["missed"] = missed_tasks
    sketch = Sketch()
    for begin in range(0, made.size, 30_000):
        cuts = cut(made[begin : begin + 30_000])
        sketch.update(attribute(cuts, Aligner(1).align(cuts)))
    assert sketch.requests == sketch.scheduled == len(rows)
    # Of each user less than one task: by so much its tasks now come later than they were due.
    assert 0 <= len(truth) - sketch.requests - sketch.missed <= 200
    for q in (0.5, 0.9, 0.99, 0.999):
        seen = np.quantile(truth, q, method="inverted_cdf")
        corrected = sketch.histogram("corrected").quantile_ns(q) / MS
        assert corrected == pytest.approx(seen, rel=0.03, abs=period), q
    # One in so many requests is in the stall at all: Locust's own p95 knows nothing of it.
    assert sketch.histogram("response").quantile_ns(0.95) / MS < 6
    if stall_ms == 3000:
        assert sketch.histogram("corrected").quantile_ns(0.95) / MS > 1500


def test_without_a_schedule_it_is_the_response_time(row: Callable[..., Rows]) -> None:
    """Nothing is known to be late: no lateness, nothing missed, the same distribution."""
    cuts = cut(np.concatenate((row(), row(response_ns=20 * MS))))
    sketch = Sketch()
    sketch.update(attribute(cuts, Aligner(1).align(cuts)))
    assert (sketch.scheduled, sketch.missed) == (0, 0)
    assert np.isnan(sketch.lateness_ns)
    corrected, response = sketch.histogram("corrected"), sketch.histogram("response")
    assert corrected.buckets.tolist() == response.buckets.tolist()
    assert (corrected.mean_ns, corrected.max_ns) == (response.mean_ns, response.max_ns)
