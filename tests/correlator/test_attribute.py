"""Response times cut into components."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.layout import EXCHANGE, MarkFlag
from trilat.agent.records import Attribution, Component, Grade, StampFlag
from trilat.correlator.arrays import MAX_NS
from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import Attributed, attribute
from trilat.correlator.attribution.cuts import cut
from trilat.correlator.records.frames import EXCHANGE_DTYPE

MS = 1_000_000
Rows = npt.NDArray[np.void]
MakeRow = Callable[..., Rows]


def _attribute(rows: Rows, own_host: int = 1) -> Attributed:
    cuts = cut(rows)
    return attribute(cuts, Aligner(own_host).align(cuts))


def _parts(requests: Attributed, at: int = 0) -> dict[str, float]:
    """The parts that are not 0, in ms."""
    parts = {c.label: float(requests.components_ns[at, c]) / MS for c in Component}
    parts["unattributed"] = float(requests.unattributed_ns[at]) / MS
    return {label: part for label, part in parts.items() if part}


def _holds(requests: Attributed, rows: Rows) -> None:
    """What must hold whatever the rows are."""
    parts = np.column_stack((requests.components_ns, requests.unattributed_ns))
    assert (parts >= 0).all()
    assert (requests.response_ns == np.clip(rows["response_ns"], 0, MAX_NS)).all()
    assert (parts.sum(axis=1) == requests.response_ns).all()
    queue = requests.components_ns[:, Component.SERVICE_QUEUE]
    assert (requests.queue_low_ns >= 0).all()
    assert (requests.queue_low_ns <= queue).all()
    assert (queue <= requests.queue_high_ns).all()
    assert (requests.queue_high_ns <= requests.response_ns).all()
    assert (requests.grades <= max(Grade)).all()
    service_and_network = requests.components_ns[
        :, Component.NETWORK_OUT : Component.GENERATOR_READ
    ]
    assert not service_and_network[~requests.matched].any()
    assert (requests.finished_wall_ns >= requests.response_ns).all()


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 2))
@settings(deadline=None, max_examples=300)
def test_garbage_rows_still_give_parts_that_add_up(
    garbage: Callable[[int, int], Rows], seed: int, n: int, own_host: int
) -> None:
    """Negative, overlong and extreme marks: the parts are not negative and add up to R."""
    rows = garbage(n, seed)
    _holds(_attribute(rows, own_host), rows)


@given(st.binary(min_size=EXCHANGE.size, max_size=8 * EXCHANGE.size))
@settings(deadline=None)
def test_random_bytes_still_give_parts_that_add_up(raw: bytes) -> None:
    """The same for rows of bytes that nobody meant to be rows."""
    rows = np.frombuffer(raw, EXCHANGE_DTYPE, count=len(raw) // EXCHANGE.size)
    _holds(_attribute(rows), rows)


def test_no_rows_give_nothing() -> None:
    """An empty batch is one too."""
    assert _attribute(np.zeros(0, EXCHANGE_DTYPE)).components_ns.shape == (0, 9)


def test_a_matched_request_has_nothing_unattributed(row: MakeRow) -> None:
    """On one host each mark says where the time went; the record type agrees."""
    requests = _attribute(row(service_queue_ms=0, service_tick_10us=10))
    assert _parts(requests) == {
        "generator.send": 1,
        "network.out": 2,
        "service.app": 4,
        "network.back": 1,
        "generator.read": 1,
        "generator.finish": 1,
    }
    attribution = Attribution(
        int(requests.response_ns[0]),
        tuple(requests.components_ns[0].tolist()),
        int(requests.unattributed_ns[0]),
        tuple(Grade(grade) for grade in requests.grades[0]),
    )
    assert attribution.grades[Component.NETWORK_OUT] is Grade.BOUNDED
    assert attribution.grades[Component.NETWORK_BACK] is Grade.BOUNDED
    assert attribution.grades[Component.SERVICE_QUEUE] is Grade.BOUNDED
    assert attribution.grades[Component.SERVICE_BODY] is Grade.MEASURED
    assert attribution.grades[Component.GENERATOR_READ] is Grade.MEASURED


def test_the_queue_is_what_the_way_out_has_beyond_the_shortest(row: MakeRow) -> None:
    """A second request whose way out took 3 ms more waited 3 ms, and the kernel agrees."""
    late = {"response_ns": 13 * MS, "first_read_ns": 12 * MS, "last_read_ns": 12 * MS}
    walls = {"read_wall_ns": 1_700_000_000_012_000_000}
    called = {"service_called_wall_ns": 1_700_000_000_006_000_000, "service_queue_ms": 4}
    requests = _attribute(np.concatenate((row(), row(**late, **walls, **called))))
    assert _parts(requests, 1) == _parts(requests, 0) | {"service.queue": 3}
    assert (requests.queue_low_ns[1], requests.queue_high_ns[1]) == (0, 5 * MS)
    assert (requests.queue_low_ns[0], requests.queue_high_ns[0]) == (0, 2 * MS)


def test_the_kernel_limits_the_queue(row: MakeRow) -> None:
    """A single way out of 2 ms is taken for the network's, but not what the kernel saw wait."""
    requests = _attribute(row(service_queue_ms=3, service_tick_10us=150))
    assert _parts(requests)["service.queue"] == 1.5
    assert _parts(requests)["network.out"] == 0.5
    assert requests.queue_low_ns[0] == 1.5 * MS


def test_a_custom_client_tells_the_response_time_only(row: MakeRow) -> None:
    """Everything is unattributed, even if the row claims more."""
    flags = MarkFlag.UNMARKED | MarkFlag.SENT | MarkFlag.ANSWERED | MarkFlag.FAILED
    requests = _attribute(row(flags=flags))
    assert _parts(requests) == {"unattributed": 10}
    assert requests.failed[0]
    assert not requests.marked[0]


def test_a_refused_connection_is_the_generators_until_it_tried(row: MakeRow) -> None:
    """Nothing was sent: the rest is unattributed."""
    requests = _attribute(row(flags=MarkFlag.FAILED, service_called_wall_ns=0))
    assert _parts(requests) == {"generator.send": 1, "unattributed": 9}


def test_a_timeout_is_unattributed_from_the_send_on(row: MakeRow) -> None:
    """Connecting and sending are known; the earlier exchange is not."""
    requests = _attribute(
        row(flags=MarkFlag.SENT | MarkFlag.CONNECTED, connect_ns=200_000, prior_ns=300_000)
    )
    assert _parts(requests) == {
        "generator.send": 0.5,
        "network.connect": 0.2,
        "unattributed": 9.3,
    }


def test_an_estimate_gives_way_to_what_was_measured(row: MakeRow) -> None:
    """A hub that is thought to be 7 ms late does not make the service's 4 ms shorter."""
    unstamped = {"first_lay_ns": -1, "last_lay_ns": -1}
    parts = _parts(_attribute(row(hub_lag_ns=7 * MS, **unstamped)))
    assert parts["service.app"] == 4
    assert parts["generator.read"] == 4
    parts = _parts(_attribute(row(hub_lag_ns=1 * MS, **unstamped)))
    assert parts["generator.read"] == 1


def test_an_answer_without_stamps_is_unattributed_outside_the_generator(row: MakeRow) -> None:
    """A load balancer's answer: the generator's own parts are still known."""
    requests = _attribute(row(service_called_wall_ns=0))
    assert _parts(requests) == {
        "generator.send": 1,
        "generator.read": 1,
        "generator.finish": 1,
        "unattributed": 7,
    }
    assert requests.marked[0]
    assert not requests.matched[0]


def test_a_streamed_answer_has_a_body(row: MakeRow) -> None:
    """From the first bytes' arrival to the last one's; making and carrying it are not separable."""
    requests = _attribute(row(first_read_ns=8 * MS, last_lay_ns=500_000))
    assert _parts(requests)["service.body"] == 1.5
    assert _parts(requests)["generator.read"] == 0.5
    assert requests.grades[0, Component.SERVICE_BODY] == Grade.BOUNDED


def test_an_answer_handed_over_as_a_whole_has_none(row: MakeRow) -> None:
    """Its first packet and its last one come apart on the way back."""
    apart = {"first_read_ns": 8 * MS, "last_lay_ns": 500_000}
    requests = _attribute(row(service_flags=StampFlag.WHOLE, **apart))
    assert requests.components_ns[0, Component.SERVICE_BODY] == 0
    assert requests.components_ns[0].sum() == 10 * MS
    pieces = _attribute(row(service_flags=StampFlag.STREAMED, **apart))
    back, body = Component.NETWORK_BACK, Component.SERVICE_BODY
    together = pieces.components_ns[0, back] + pieces.components_ns[0, body]
    assert requests.components_ns[0, back] == together
    assert requests.grades[0, body] == Grade.MEASURED
    assert pieces.grades[0, body] == Grade.BOUNDED


def test_packets_out_of_order_leave_an_estimate(row: MakeRow) -> None:
    """The last packet's stamp is not the last arrival's: when the loop saw it is no measurement."""
    flags = MarkFlag.SENT | MarkFlag.ANSWERED
    grades = [_attribute(row(flags=each)).grades[0] for each in (flags, flags | MarkFlag.REORDERED)]
    read, back = Component.GENERATOR_READ, Component.NETWORK_BACK
    assert (grades[0][read], grades[1][read]) == (Grade.MEASURED, Grade.ESTIMATED)
    assert (grades[0][back], grades[1][back]) == (Grade.BOUNDED, Grade.ESTIMATED)


def test_a_kernel_without_room_for_a_connection_may_have_dropped_its_request(row: MakeRow) -> None:
    """What it tells is of the last time that the request came: no upper limit of the queue."""
    told = {"service_queue_ms": 0, "service_tick_10us": 100}
    limits = [
        int(
            _attribute(row(flags=MarkFlag.SENT | MarkFlag.ANSWERED | flag, **told)).queue_high_ns[0]
        )
        for flag in (MarkFlag(0), MarkFlag.CONNECTED)
    ]
    assert limits == [1 * MS, 2 * MS]


@pytest.mark.parametrize(("hub_lag_ns", "read_ms"), [(400_000, 0.4), (-1, 0)])
def test_without_kernel_stamps_the_hubs_lag_stands_in(
    row: MakeRow, hub_lag_ns: int, read_ms: float
) -> None:
    """Estimated, and graded so; so is the way back, which ends where reading begins."""
    requests = _attribute(row(first_lay_ns=-1, last_lay_ns=-1, hub_lag_ns=hub_lag_ns))
    assert _parts(requests).get("generator.read", 0) == read_ms
    assert requests.grades[0, Component.GENERATOR_READ] == Grade.ESTIMATED
    assert requests.grades[0, Component.NETWORK_BACK] == Grade.ESTIMATED
    assert requests.grades[0, Component.NETWORK_OUT] == Grade.BOUNDED


@pytest.mark.parametrize(("queue_ms", "queue", "high"), [(-1, 0, 3), (1, 1, 2)])
def test_a_withheld_split_takes_the_kernels_word_only(
    row: MakeRow, queue_ms: int, queue: float, high: float
) -> None:
    """On one host the app cannot be called before the request was sent: nothing is split."""
    fields = {"service_called_wall_ns": 1_699_999_999_000_000_000, "service_tick_10us": 100}
    requests = _attribute(row(service_queue_ms=queue_ms, **fields))
    parts = _parts(requests)
    assert parts["network.out"] + parts.get("service.queue", 0) == 3
    assert "network.back" not in parts
    assert parts.get("service.queue", 0) == queue
    assert (requests.queue_low_ns[0], requests.queue_high_ns[0]) == (0, high * MS)


def test_time_counted_from_the_intended_start(row: MakeRow) -> None:
    """Known only where there was a schedule."""
    rows = np.concatenate((row(lateness_ns=5 * MS, missed=3), row(lateness_ns=0), row(missed=3)))
    assert _attribute(rows).lateness_ns.tolist() == [5 * MS, 0, -1]
    assert _attribute(rows).missed.tolist() == [3, 0, 0]
