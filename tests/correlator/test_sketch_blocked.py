"""How long the service's event loop was blocked in requests, through cuts, sketches and bytes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.records import Component
from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import Attributed, attribute
from trilat.correlator.attribution.cuts import cut
from trilat.correlator.sketches.sketch import Sketch

Rows = npt.NDArray[np.void]
MS = 1_000_000


def attributed(rows: Rows) -> Attributed:
    """Rows with their clocks lined up."""
    cuts = cut(rows)
    return attribute(cuts, Aligner(1).align(cuts))


def sketch_of(rows: Rows) -> Sketch:
    """A sketch of rows."""
    sketch = Sketch()
    sketch.update(attributed(rows))
    return sketch


def several(row: Callable[..., Rows], *blocked_ms: float) -> Rows:
    """Requests of one length; the loop was blocked for so long in each."""
    return np.concatenate([row(service_blocked_ns=round(each * MS)) for each in blocked_ms])


@given(st.integers(1, 60), st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_it_is_within_the_services_own_time(
    garbage: Callable[[int, int], Rows], n: int, seed: int
) -> None:
    """Whatever the rows hold: at most ``service.app``, and unknown where nothing is matched."""
    requests = attributed(garbage(n, seed))
    blocked, app = requests.blocked_ns, requests.components_ns[:, Component.SERVICE_APP]
    assert (blocked >= -1).all()
    assert (blocked <= app).all()
    assert (blocked[~requests.matched] == -1).all()
    sketch = Sketch()
    sketch.update(requests)
    around = sketch.blocked_around_ns(0.95)
    assert around <= sketch.makeup(0.95)[Component.SERVICE_APP] + 1e-3


def test_mean_and_maximum(row: Callable[..., Rows]) -> None:
    """Of the requests of which it is known; the others are not taken for unblocked ones."""
    blocked = sketch_of(several(row, 0, 1, 2, -1e-6, 9)).blocked
    assert blocked.known == 4
    assert blocked.requests == 3
    assert blocked.max_ns == 4 * MS  # all of service.app
    assert blocked.mean_ns == pytest.approx(7 / 4 * MS)


def test_nothing_is_known() -> None:
    """Without a request, and without a word from the service."""
    sketch = Sketch()
    assert math.isnan(sketch.blocked.mean_ns)
    assert math.isnan(sketch.blocked_around_ns(0.5))


def test_it_belongs_to_the_requests_that_were_slow(row: Callable[..., Rows]) -> None:
    """Around the median nothing was blocked where only the slowest were."""
    fast = [row() for _ in range(900)]
    slow = [
        row(
            response_ns=50 * MS,
            first_read_ns=49 * MS,
            last_read_ns=49 * MS,
            read_wall_ns=int(row()["read_wall_ns"][0]) + 40 * MS,
            service_app_ns=44 * MS,
            service_blocked_ns=30 * MS,
        )
        for _ in range(100)
    ]
    sketch = sketch_of(np.concatenate([*fast, *slow]))
    assert sketch.blocked_around_ns(0.5) == 0
    assert sketch.blocked_around_ns(0.95) == pytest.approx(30 * MS)


@given(st.lists(st.integers(0, 59), max_size=3), st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_merging_is_counting_at_once(
    garbage: Callable[[int, int], Rows], borders: list[int], seed: int
) -> None:
    """However the requests are cut into sketches, and through bytes."""
    requests = garbage(60, seed)
    whole = sketch_of(requests)
    merged = Sketch()
    for piece in np.split(requests, sorted(borders)):
        if piece.size:
            merged.merge(Sketch.from_bytes(sketch_of(piece).to_bytes()))
    assert merged.blocked.known == whole.blocked.known
    copy = Sketch.from_bytes(whole.to_bytes())
    assert copy.blocked == whole.blocked
    assert copy.blocked_around_ns(0.9) == whole.blocked_around_ns(0.9)
