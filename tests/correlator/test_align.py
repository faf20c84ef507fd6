"""Two hosts' clocks lined up. Seeds are fixed and nothing is timed, so figures can be asserted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.records import Component
from trilat.correlator.attribution import align as module
from trilat.correlator.attribution.align import DRIFT_PPM, Aligner, Alignment
from trilat.correlator.attribution.attribute import Attributed, attribute
from trilat.correlator.attribution.cuts import cut

MS = 1_000_000
OWN, SERVICE = 1, 7
Rows = npt.NDArray[np.void]
Ints = npt.NDArray[np.int64]
Simulate = Callable[..., Any]


def _windows(
    rows: Rows, size: int = 1000, aligner: Aligner | None = None
) -> list[tuple[Alignment, Attributed]]:
    aligner = aligner or Aligner(OWN)
    result = []
    for at in range(0, rows.size, size):
        cuts = cut(rows[at : at + size])
        alignment = aligner.align(cuts)
        result.append((alignment, attribute(cuts, alignment)))
    return result


def _joined(windows: list[tuple[Alignment, Attributed]], name: str) -> Ints:
    return np.concatenate([getattr(w[name in Attributed.__slots__], name) for w in windows])


@pytest.mark.parametrize(
    ("network", "offset_us", "queue_ms"),
    [
        ({}, 5, 0.03),
        ({"jitter_ms": 1}, 50, 0.5),
        ({"floor_ms": 20, "jitter_ms": 5}, 150, 1.5),
        ({"kernel": False}, 5, 0.03),
        ({"drift_ppm": -DRIFT_PPM}, 20, 0.03),
    ],
    ids=["LAN", "1 ms of jitter", "WAN", "no kernel evidence", "fast drift"],
)
def test_offset_and_queue_of_a_simulated_run(
    simulate: Simulate, network: dict[str, float], offset_us: float, queue_ms: float
) -> None:
    """The offset is always within its bound; offset and queue are close at the median."""
    run = simulate(10_000, **network)
    windows = _windows(run.rows)
    error = np.abs(_joined(windows, "offset_ns") - run.offset)
    assert (error <= _joined(windows, "bound_ns")).all()
    assert np.median(error) < offset_us * 1000
    assert _joined(windows, "split_ok").all()
    parts = _joined(windows, "components_ns")
    queue, truth = parts[:, Component.SERVICE_QUEUE], run.truth[:, Component.SERVICE_QUEUE]
    assert np.median(np.abs(queue - truth)) < queue_ms * MS
    assert (_joined(windows, "queue_low_ns") <= truth).all()
    assert (truth <= _joined(windows, "queue_high_ns")).all()


@pytest.mark.parametrize(("jitter_ms", "tolerance"), [(0.02, 0.01), (1, 0.04), (5, 0.03)])
def test_the_mean_of_the_queue(simulate: Simulate, jitter_ms: float, tolerance: float) -> None:
    """The kernel's readings tell it, whatever the network's jitter."""
    run = simulate(10_000, jitter_ms=jitter_ms)
    parts = _joined(_windows(run.rows), "components_ns")
    means = parts.mean(axis=0), run.truth.mean(axis=0)
    queue, truth = (float(mean[Component.SERVICE_QUEUE]) for mean in means)
    assert queue == pytest.approx(truth, rel=tolerance)


def test_one_host_has_one_clock(simulate: Simulate) -> None:
    """Offset and bound are 0, and all nine components come close to the truth."""
    run = simulate(5000, host=OWN, offset_ms=0, drift_ppm=0)
    windows = _windows(run.rows)
    assert not _joined(windows, "offset_ns").any()
    assert not _joined(windows, "bound_ns").any()
    means = _joined(windows, "components_ns").mean(axis=0)
    assert means == pytest.approx(run.truth.mean(axis=0), abs=0.005 * MS)


@pytest.mark.parametrize("host", [OWN, SERVICE])
def test_what_an_earlier_window_knew_tells_a_queue_from_a_slow_network(
    simulate: Simulate, host: int
) -> None:
    """A service that is never idle, without kernel evidence: the wait is not the network's."""
    clock = {"offset_ms": 0, "drift_ppm": 0} if host == OWN else {}
    aligner = Aligner(OWN)
    _windows(simulate(1000, host=host, kernel=False, **clock).rows, aligner=aligner)
    busy = simulate(1000, host=host, kernel=False, begin_s=2, queue_floor_ms=300, **clock)
    means = _joined(_windows(busy.rows, aligner=aligner), "components_ns").mean(axis=0) / MS
    assert means[Component.SERVICE_QUEUE] == pytest.approx(301.4, abs=0.5)
    assert means[Component.NETWORK_OUT] < 0.5
    assert means[Component.NETWORK_BACK] < 0.5


def test_the_kernel_tells_a_queue_from_a_slow_network(simulate: Simulate) -> None:
    """The same from the first window on, within a tick, where the kernel's evidence is there."""
    busy = simulate(1000, queue_floor_ms=300)
    means = _joined(_windows(busy.rows), "components_ns").mean(axis=0) / MS
    assert means[Component.SERVICE_QUEUE] == pytest.approx(301.4, abs=2)


@pytest.mark.parametrize("host", [OWN, SERVICE])
def test_jitter_of_one_way_alone_is_no_queue(simulate: Simulate, host: int) -> None:
    """Where the way back has none, the kernel's readings still tell that nothing queues."""
    clock = {"offset_ms": 0, "drift_ppm": 0} if host == OWN else {}
    run = simulate(2000, host=host, jitter_ms=0, queue_ms=0, **clock)
    jitter = np.random.default_rng(3).integers(0, 6 * MS, 2000)
    run.rows["service_called_wall_ns"] += jitter
    for name in ("response_ns", "first_read_ns", "last_read_ns", "read_wall_ns"):
        run.rows[name] += jitter
    means = _joined(_windows(run.rows, 200), "components_ns").mean(axis=0) / MS
    assert means[Component.SERVICE_QUEUE] < 0.1
    assert means[Component.NETWORK_OUT] == pytest.approx(3, abs=0.2)


def test_one_false_reading_of_the_kernels_moves_no_clock(simulate: Simulate) -> None:
    """A virtual machine that paused counts that into a queue; the offset stays in its bound."""
    run = simulate(1000, floor_ms=20)
    run.rows["service_queue_ms"][500] = 36
    ((alignment, _),) = _windows(run.rows)
    assert (np.abs(alignment.offset_ns - run.offset) <= alignment.bound_ns).all()
    assert alignment.split_ok.all()


@pytest.mark.parametrize("host", [OWN, SERVICE])
def test_a_servers_shortest_turn_is_no_network(simulate: Simulate, host: int) -> None:
    """What every request takes from the socket to the application, a handshake does not."""
    clock = {"offset_ms": 0, "drift_ppm": 0} if host == OWN else {}
    run = simulate(1000, host=host, queue_floor_ms=0.3, handshakes=20, **clock)
    windows = _windows(run.rows)
    means = _joined(windows, "components_ns").mean(axis=0) / MS
    assert means == pytest.approx(run.truth.mean(axis=0) / MS, abs=0.02)
    assert (
        np.abs(_joined(windows, "offset_ns") - run.offset) <= _joined(windows, "bound_ns")
    ).all()


def test_where_everything_queues_the_handshake_tells_the_network(simulate: Simulate) -> None:
    """The kernel's ticks leave some milliseconds open, and they are no way of the network's."""
    run = simulate(12, floor_ms=10, queue_floor_ms=100, handshakes=9)
    windows = _windows(run.rows)
    means = _joined(windows, "components_ns").mean(axis=0) / MS
    for part in (Component.NETWORK_OUT, Component.NETWORK_BACK):
        assert means[part] == pytest.approx(10, abs=0.1)
    off = np.abs(_joined(windows, "offset_ns") - run.offset)
    assert (off <= _joined(windows, "bound_ns")).all()


def test_a_handshake_with_somebody_between_says_nothing(simulate: Simulate) -> None:
    """Behind a proxy the way to the service is longer than a handshake, and stays the network's."""
    run = simulate(1000, floor_ms=10, handshakes=20)
    made = run.rows["connect_ns"] > 0
    run.rows["connect_ns"][made] = MS
    means = _joined(_windows(run.rows), "components_ns").mean(axis=0) / MS
    assert means[Component.NETWORK_OUT] == pytest.approx(10, abs=0.1)
    assert means[Component.SERVICE_QUEUE] == pytest.approx(1.4, abs=0.1)


def test_knowledge_fades_at_the_rate_of_drift(simulate: Simulate) -> None:
    """A minute later the upper edge, which a queue hides now, has moved by the drift allowed."""
    aligner = Aligner(OWN)
    _windows(simulate(1000, drift_ppm=150).rows, aligner=aligner)
    later = simulate(10, begin_s=62, drift_ppm=150, queue_floor_ms=100, kernel=False)
    ((alignment, _),) = _windows(later.rows, aligner=aligner)
    assert (np.abs(alignment.offset_ns - later.offset) <= alignment.bound_ns).all()
    excess_ns = 60e9 * (DRIFT_PPM - 150) / 1e6
    assert alignment.bound_ns.max() == pytest.approx(excess_ns / 2, rel=0.1)


def test_a_step_of_the_clock_begins_anew(simulate: Simulate) -> None:
    """Half a second's step in the middle of a window: each side of it has its own offset."""
    before, after = simulate(500), simulate(500, seed=2, begin_s=2, offset_ms=537)
    rows = np.concatenate((before.rows, after.rows))
    ((alignment, _),) = _windows(rows)
    error = np.abs(alignment.offset_ns - np.concatenate((before.offset, after.offset)))
    assert (error <= alignment.bound_ns).all()
    assert np.median(error) < 0.02 * MS
    assert alignment.split_ok.all()


def test_clocks_that_keep_contradicting_each_other_are_not_aligned(simulate: Simulate) -> None:
    """Offsets that jump from request to request: no split, and nothing is kept for later."""
    run = simulate(400)
    run.rows["service_called_wall_ns"][::2] += 500 * MS
    aligner = Aligner(OWN)
    ((alignment, requests),) = _windows(run.rows, aligner=aligner)
    assert alignment.split_ok.mean() < 0.1
    assert not requests.components_ns[~alignment.split_ok, Component.NETWORK_BACK].any()
    later = simulate(400, begin_s=2)
    ((alignment, _),) = _windows(later.rows, aligner=aligner)
    assert alignment.split_ok.all()


def test_a_request_whose_own_marks_contradict_the_clocks_is_not_split(simulate: Simulate) -> None:
    """One that claims a longer time in the app than it was away says nothing of the clocks."""
    run = simulate(400)
    run.rows["service_app_ns"][10] = 10**12
    run.rows["service_called_wall_ns"][10] -= 3_600 * 10**9
    ((alignment, _),) = _windows(run.rows)
    assert np.flatnonzero(~alignment.split_ok).tolist() == [10]
    off = np.abs(alignment.offset_ns - run.offset)
    assert (np.delete(off, 10) <= np.delete(alignment.bound_ns, 10)).all()


def test_an_estimated_arrival_does_not_narrow_the_bound(simulate: Simulate) -> None:
    """Without receive stamps reading counts as the way back: a wider bound, but one that holds."""
    run = simulate(2000)
    run.rows["first_lay_ns"] = run.rows["last_lay_ns"] = -1
    run.rows["hub_lag_ns"] = 5 * MS
    windows = _windows(run.rows)
    error = np.abs(_joined(windows, "offset_ns") - run.offset)
    assert (error <= _joined(windows, "bound_ns")).all()


def test_each_host_has_its_own_offset(simulate: Simulate) -> None:
    """Two services behind a load balancer, one of them on the generator's host."""
    here = simulate(1000, host=OWN, offset_ms=0, drift_ppm=0)
    there = simulate(1000, seed=2)
    ((alignment, _),) = _windows(np.concatenate((here.rows, there.rows)), size=2000)
    assert not alignment.offset_ns[:1000].any()
    assert (np.abs(alignment.offset_ns[1000:] - there.offset) <= alignment.bound_ns[1000:]).all()


def test_more_hosts_than_can_be_kept_are_not_aligned(simulate: Simulate) -> None:
    """Hostile host identities do not fill the memory."""
    run = simulate(600)
    run.rows["service_host"] = np.arange(600) + 10
    ((alignment, _),) = _windows(run.rows)
    assert alignment.split_ok.sum() == 256


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 60), st.integers(0, 9)), min_size=1),
    st.randoms(use_true_random=False),
)
@settings(deadline=None)
def test_the_edges_are_the_intersection_of_all_intervals(
    intervals: list[tuple[int, int, int]], random: Any
) -> None:
    """Against the plain definition, as long as no interval contradicts another."""
    low = np.array([at for at, _, _ in intervals])
    high = low + np.array([width for _, width, _ in intervals])
    drift = np.cumsum([step for _, _, step in intervals])
    far = np.abs(drift[:, None] - drift[None, :])
    lower = (low[None, :] - far).max(axis=1)
    upper = (high[None, :] + far).min(axis=1)
    got = module._edges(low, high, drift)
    if (lower <= upper).all():
        assert got[0].tolist() == lower.tolist()
        assert got[1].tolist() == upper.tolist()
        assert got[2] == (lower[-1], upper[-1])
    else:
        assert (got[0] <= got[1]).all()
