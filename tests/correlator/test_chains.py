"""Requests of several exchanges: each is cut by itself, and together they fill the whole."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.layout import EXCHANGE, Kind, MarkFlag
from trilat.agent.records import Component, Grade
from trilat.correlator.arrays import MAX_NS
from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import Attributed, attribute
from trilat.correlator.attribution.chains import joined, unfolded
from trilat.correlator.attribution.cuts import cut
from trilat.correlator.records.frames import EXCHANGE_DTYPE
from trilat.correlator.requests.pipeline import Attributor
from trilat.correlator.sketches.tally import BATCH_MAX

MS = 1_000_000
EPOCH = 1_700_000_000_000_000_000
Rows = npt.NDArray[np.void]
MakeRow = Callable[..., Rows]


def _attribute(rows: Rows) -> Attributed:
    chains = unfolded(rows)
    cuts = cut(rows if chains is None else chains.rows)
    attributed = attribute(cuts, Aligner(1).align(cuts))
    return attributed if chains is None else joined(attributed, chains)


def _parts(requests: Attributed, at: int = 0) -> dict[str, float]:
    """The parts that are not 0, in ms."""
    parts = {c.label: float(requests.components_ns[at, c]) / MS for c in Component}
    parts["unattributed"] = float(requests.unattributed_ns[at]) / MS
    return {label: part for label, part in parts.items() if part}


@pytest.fixture
def redirect(row: MakeRow) -> Rows:
    """Two exchanges: a hop of 10 ms, 1 ms of them before it was sent, and the answer that counts.

    The first is as `row`'s usual one up to its last read at 9 ms, the second ends at 22 ms.
    """
    last = row(
        response_ns=22 * MS,
        sent_ns=12 * MS,
        first_read_ns=20 * MS,
        last_read_ns=20 * MS,
        read_wall_ns=EPOCH + 20 * MS,
        service_called_wall_ns=EPOCH + 13 * MS,
        service_app_ns=5 * MS,
        prior_ns=7 * MS,
        exchanges=2,
        lateness_ns=3 * MS,
    )
    hop = row(kind=Kind.EARLIER, response_ns=9 * MS, exchanges=1)
    return np.concatenate((last, hop))


def test_each_hop_is_attributed(redirect: Rows) -> None:
    """A component of the request is the sum over its exchanges, and nothing is unattributed."""
    requests = _attribute(redirect)
    assert requests.response_ns.tolist() == [22 * MS]
    assert _parts(requests) == {
        "generator.send": 1 + 3,  # from the hop's last read to the next send is the generator's
        "network.out": 1 + 1,
        "service.queue": 1,  # the first way out took a millisecond more
        "service.app": 4 + 5,
        "network.back": 1 + 1,
        "generator.read": 1 + 1,
        "generator.finish": 2,
    }
    assert requests.matched.tolist() == [True]
    assert requests.lateness_ns.tolist() == [3 * MS]
    assert requests.started_wall_ns.tolist() == [EPOCH]
    assert requests.finished_wall_ns.tolist() == [EPOCH + 22 * MS]


def test_a_try_without_an_answer_is_unattributed(redirect: Rows) -> None:
    """From its send to its end; what the generator did before and after is known."""
    redirect["flags"][1] = MarkFlag.SENT | MarkFlag.BROKEN
    requests = _attribute(redirect)
    assert _parts(requests) == {
        "generator.send": 1 + 3,
        "network.out": 1,
        "service.app": 5,
        "network.back": 1,
        "generator.read": 1,
        "generator.finish": 2,
        "unattributed": 8,
    }
    assert requests.matched.tolist() == [True]
    assert requests.grades[0, Component.NETWORK_BACK] == Grade.BOUNDED


def test_a_hop_counts_though_the_answer_came_from_elsewhere(redirect: Rows) -> None:
    """The service's time in it is the service's; the request is not matched."""
    redirect["service_called_wall_ns"][0] = 0
    requests = _attribute(redirect)
    parts = _parts(requests)
    assert requests.matched.tolist() == [False]
    assert parts["service.app"] == 4
    assert parts["unattributed"] == 7  # from its send to where its answer arrived
    assert sum(parts.values()) == 22


def test_a_request_that_ended_in_a_refused_connection(redirect: Rows) -> None:
    """Its hop was an exchange, the attempt was none."""
    redirect["flags"][0] = MarkFlag.FAILED
    redirect["exchanges"][0] = 1
    parts = _parts(_attribute(redirect))
    assert parts["service.app"] == 4
    assert parts["unattributed"] == 10
    assert sum(parts.values()) == 22


@pytest.mark.parametrize(
    "spoil",
    [
        {"kind": Kind.NAME},
        {"started_ns": 5},
        {"name_id": 9},
        {"exchanges": 2},
        {"response_ns": 23 * MS},
        {"response_ns": -1},
    ],
)
def test_where_the_hops_are_not_all_there_their_time_is_unattributed(
    redirect: Rows, spoil: dict[str, int]
) -> None:
    """A record that is missing, damaged or another request's: only ``prior_ns`` is known."""
    for name, value in spoil.items():
        redirect[name][1] = value
    redirect = redirect[redirect["kind"] != Kind.NAME]
    parts = _parts(_attribute(redirect))
    assert parts["unattributed"] == 7
    assert parts["service.app"] == 5
    assert sum(parts.values()) == 22


def test_an_overlong_request_is_not_taken_apart(redirect: Rows) -> None:
    """Together its exchanges could be longer than what is counted."""
    redirect["response_ns"][0] = MAX_NS + 1
    assert _attribute(redirect).response_ns.tolist() == [MAX_NS]


def test_requests_of_one_exchange_stay_as_they_are(redirect: Rows, row: MakeRow) -> None:
    """Among others, and alone."""
    rows = np.concatenate((row(), redirect, row(), redirect))
    requests = _attribute(rows)
    assert requests.response_ns.tolist() == [10 * MS, 22 * MS, 10 * MS, 22 * MS]
    assert _parts(requests, 0) == _parts(requests, 2)
    assert _parts(requests, 1) == _parts(requests, 3)
    assert unfolded(row()) is None


def test_requests_are_kept_as_they_were_recorded(redirect: Rows, row: MakeRow) -> None:
    """In whatever order they are attributed, the row of each stands beside its result."""
    rows = np.concatenate((redirect, row(), redirect))
    rows["name_id"] = (1, 1, 0, 2, 2)
    chains = unfolded(rows)
    assert chains is not None
    assert chains.requests.tolist() == rows[[0, 2, 3]].tolist()
    ordered = chains.ordered(np.array([3, 4, 2, 0, 1]))
    assert ordered.requests.tolist() == rows[[3, 2, 0]].tolist()
    assert ordered.rows["name_id"][ordered.starts].tolist() == [2, 0, 1]


def test_hops_without_their_request_are_dropped(redirect: Rows) -> None:
    """As at the begin of a journal whose first file is gone."""
    assert _attribute(redirect[1:]).response_ns.tolist() == []
    alone = np.concatenate((redirect[1:], redirect))
    assert _attribute(alone).response_ns.tolist() == [22 * MS]


def _mixed(rows: Rows, seed: int) -> Rows:
    """Rows some of which are made earlier exchanges of the one before, soundly or not."""
    random = np.random.default_rng(seed)
    rows["kind"] = random.choice([Kind.EXCHANGE, Kind.EARLIER], rows.size, p=(0.4, 0.6))
    last = np.flatnonzero(rows["kind"] == Kind.EXCHANGE)
    for begin, end in pairwise((*last.tolist(), rows.size)):
        if random.random() < 0.8:
            rows["name_id"][begin:end] = rows["name_id"][begin]
            rows["started_ns"][begin:end] = rows["started_ns"][begin]
            rows["exchanges"][begin + 1 : end] = np.arange(1, end - begin)
            rows["response_ns"][begin:end] = np.sort(rows["response_ns"][begin:end])
            rows["response_ns"][begin:end] = np.roll(rows["response_ns"][begin:end], 1)
            sent = int(rows["flags"][begin] & MarkFlag.SENT != 0)
            rows["exchanges"][begin] = end - begin - 1 + sent
    return rows


@given(st.integers(0, 2**32), st.integers(1, 40))
@settings(max_examples=300)
def test_garbage_exchanges_still_give_parts_that_add_up(
    garbage: Callable[[int, int], Rows], seed: int, n: int
) -> None:
    """Whatever the earlier exchanges say: one result for each request, and its parts add up."""
    rows = _mixed(garbage(n, seed), seed)
    last = rows[rows["kind"] == Kind.EXCHANGE]
    requests = _attribute(rows)
    parts = np.column_stack((requests.components_ns, requests.unattributed_ns))
    assert requests.response_ns.tolist() == np.clip(last["response_ns"], 0, MAX_NS).tolist()
    assert (parts >= 0).all()
    assert (parts.sum(axis=1) == requests.response_ns).all()
    queue = requests.components_ns[:, Component.SERVICE_QUEUE]
    assert (requests.queue_low_ns <= queue).all()
    assert (queue <= requests.queue_high_ns).all()
    assert (requests.queue_high_ns <= requests.response_ns).all()


def _feed(*pieces: bytes) -> bytes:
    attributor = Attributor(1)
    for piece in pieces:
        attributor.feed(piece)
    attributor.flush()
    return attributor.book.to_bytes()


@given(st.integers(0, 2**32), st.lists(st.integers(0, 40), max_size=6))
@settings(max_examples=40)
def test_the_pieces_of_chains_do_not_matter(
    garbage: Callable[[int, int], Rows], seed: int, places: list[int]
) -> None:
    """Wherever the sequence is cut, also between a request and its earlier exchanges."""
    raw = _mixed(garbage(40, seed), seed).tobytes()
    borders = [0, *(place * EXCHANGE.size for place in sorted(places)), len(raw)]
    assert _feed(*(raw[begin:end] for begin, end in pairwise(borders))) == _feed(raw)


def test_a_full_batch_takes_its_last_requests_hops_along(redirect: Rows, row: MakeRow) -> None:
    """Rows are attributed in batches; a request is not torn apart by one's end."""
    rows = np.concatenate((np.repeat(row(), BATCH_MAX - 1), redirect, row()))
    attributor = Attributor(1)
    attributor.feed(rows.tobytes())
    attributor.flush()
    total = attributor.book.total()
    assert total.requests == BATCH_MAX + 1
    assert total.histogram("service.app").max_ns == 9 * MS
    assert not total.makeup(None)[-1]


def test_a_flood_of_hops_is_let_go(redirect: Rows, row: MakeRow) -> None:
    """A journal that holds nothing else costs no memory without a bound."""
    flood = np.repeat(redirect[1:], 2 * BATCH_MAX)
    assert flood.dtype == EXCHANGE_DTYPE
    attributor = Attributor(1)
    attributor.feed(np.concatenate((row(), flood, row())).tobytes())
    attributor.flush()
    assert attributor.book.total().requests == 2
