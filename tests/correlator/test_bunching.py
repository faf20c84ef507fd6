"""How bunched starts are: 1 for independent users, however many they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.correlator.sketches.bunching import CELL_NS, Bunching, StartCells

SECOND = 1_000_000_000


def _index(starts_s: np.ndarray, first: np.ndarray | None = None) -> float | None:
    """The index of starts that are told as they come, two seconds at once."""
    cells, bunching = StartCells(), Bunching()
    starts = np.sort(np.round(starts_s * SECOND).astype(np.int64)) + 10**12
    chosen = np.ones(starts.size, np.bool_) if first is None else first
    for end in range(10**12, int(starts.max()) + 2 * SECOND, 2 * SECOND):
        now = (starts >= end - 2 * SECOND) & (starts < end)
        cells.move(end, bunching)
        cells.add(starts[now], chosen[now])
    cells.flush(bunching)
    return bunching.index


@pytest.mark.parametrize("rate", [5, 100, 3000])
def test_independent_users_have_an_index_of_one(rate: int) -> None:
    """As many starts as a Poisson process of any rate makes."""
    random = np.random.default_rng(1)
    index = _index(random.uniform(0, 60, 60 * rate))
    assert index == pytest.approx(1, abs=0.15)


def test_a_ramp_is_no_bunching() -> None:
    """The rate grows twentyfold in a minute, and starts are independent all the time."""
    random = np.random.default_rng(2)
    assert _index(60 * np.sqrt(random.uniform(0.002, 1, 60_000))) == pytest.approx(1, abs=0.1)


def test_users_in_step_and_users_that_take_turns() -> None:
    """50 users with a period of a second: at once, or one after the other."""
    bursts = np.repeat(np.arange(60.0), 50) + 0.0001
    assert _index(bursts) == pytest.approx(50 * 100 / 99 * 0.99, rel=0.02)
    turns = np.arange(0, 60, 0.02) + 0.0001
    assert (_index(turns) or 0) < 0.6
    spread_over_cells = bursts + np.tile(np.arange(50) * 0.0008, 60)  # each sends for 0.8 ms
    assert 9 < (_index(spread_over_cells) or 0) < 14


def test_only_a_task_s_first_request_counts() -> None:
    """A user that makes ten requests in a row is not ten users in step."""
    random = np.random.default_rng(4)
    tasks = np.sort(random.uniform(0, 60, 600))
    starts = (tasks[:, None] + np.arange(10) * 0.0005).ravel()
    first = np.tile(np.arange(10) == 0, 600)
    order = np.argsort(starts, kind="stable")
    assert _index(starts[order], first[order]) == pytest.approx(1, abs=0.2)
    assert (_index(starts) or 0) > 5


@given(st.lists(st.integers(0, 50), min_size=300, max_size=300), st.sampled_from([100, 200]))
def test_adding_is_exact(counts: list[int], cut: int) -> None:
    """Two processes, or two parts of one: the same numbers, and back from JSON."""
    cells = np.array(counts, np.int64)
    whole, parts = Bunching(), Bunching()
    whole.count(cells)
    for part in (cells[:cut], cells[cut:]):
        other = Bunching()
        other.count(part)
        parts.add(Bunching.from_list(other.to_list()))
    assert parts == whole
    assert whole.starts == cells.sum()
    assert (whole.index is None) == (whole.starts == 0)


def test_requests_that_took_too_long_are_left_out() -> None:
    """Their second was counted already; what came before all is, too."""
    cells, bunching = StartCells(), Bunching()
    early = np.array([10**12, -(2**63), 2**63 - 1], np.int64)
    cells.add(early, np.ones(3, np.bool_))  # before anything moved
    cells.move(10**12 + 100 * SECOND, bunching)
    cells.add(early, np.ones(3, np.bool_))
    cells.add(np.array([10**12 + 99 * SECOND + CELL_NS]), np.ones(1, np.bool_))
    cells.flush(bunching)
    assert bunching.starts == 1


@pytest.mark.parametrize(
    "numbers", [None, [1, 2], [1, 2, 3, 4], [1, -1, 99], [1, 2, 100], [1.0, 2, 99], ["1", 2, 99]]
)
def test_numbers_that_nobody_counted(numbers: object) -> None:
    """They are refused."""
    with pytest.raises(ValueError, match="numbers of starts"):
        Bunching.from_list(numbers)
