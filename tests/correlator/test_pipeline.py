"""From raw records to a book: the same whatever the pieces."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.layout import EXCHANGE, NAME, Kind, MarkFlag
from trilat.correlator.requests.pipeline import WINDOW_NS, Attributor
from trilat.correlator.sketches.book import OTHER, SketchBook
from trilat.correlator.sketches.tally import BATCH_MAX

Rows = npt.NDArray[np.void]
Simulate = Callable[..., Any]
SIZE = EXCHANGE.size


def _name(number: int, text: str) -> bytes:
    return NAME.struct.pack(Kind.NAME, 0, number, text.encode(), 1)


def _feed(*pieces: bytes) -> SketchBook:
    attributor = Attributor(1)
    for piece in pieces:
        attributor.feed(piece)
    attributor.flush()
    return attributor.book


def _cut(raw: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted(place * SIZE for place in places), len(raw)]
    return [raw[begin:end] for begin, end in pairwise(borders)]


@pytest.fixture(scope="module")
def run(simulate: Simulate) -> Rows:
    """Four seconds of requests to three endpoints of a service elsewhere."""
    rows: Rows = simulate(2000, drift_ppm=100).rows
    rows["name_id"] = np.arange(2000) % 3
    return rows


@given(st.lists(st.integers(0, 2003), max_size=6))
@settings(deadline=None, max_examples=30)
def test_the_pieces_do_not_matter(run: Rows, places: list[int]) -> None:
    """A simulated run's records, cut at any borders, give the identical book."""
    raw = _name(0, "GET\t/a") + _name(1, "GET\t/b") + _name(2, "POST\t/a") + run.tobytes()
    assert _feed(*_cut(raw, places)).to_bytes() == _feed(raw).to_bytes()


@given(
    st.integers(0, 2**32),
    st.lists(st.integers(0, 40), max_size=6),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=5),
)
@settings(deadline=None, max_examples=40)
def test_the_pieces_of_garbage_do_not_matter_either(
    garbage: Callable[[int, int], Rows],
    seed: int,
    places: list[int],
    names: list[tuple[int, int]],
) -> None:
    """Nor where in it names are written, rewritten or missing."""
    rows = garbage(30, seed)
    records = [rows[at : at + 1].tobytes() for at in range(30)]
    for number, (at, name_id) in enumerate(names):
        records.insert(at, _name(name_id, f"GET\t/{number}"))
    raw = b"".join(records)
    whole = _feed(raw)
    assert _feed(*_cut(raw, places)).to_bytes() == whole.to_bytes()
    assert whole.total().requests == 30


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=20)
def test_the_order_within_a_window_does_not_matter(run: Rows, seed: int) -> None:
    """Rows shuffled among those whose answers were read in the same two seconds."""
    window = (run["started_ns"] + run["last_read_ns"]) // WINDOW_NS
    ordered = run[np.argsort(window, kind="stable")]
    any_order = np.random.default_rng(seed).random(run.size)
    shuffled = run[np.lexsort((any_order, window))]
    assert _feed(shuffled.tobytes()).to_bytes() == _feed(ordered.tobytes()).to_bytes()


def test_rows_wait_for_the_end_of_their_window(simulate: Simulate) -> None:
    """They are in the book when a record of the next window has come, or at the flush."""
    attributor = Attributor(1)
    attributor.feed(simulate(100).rows.tobytes())
    assert attributor.book.total().requests == 0
    attributor.feed(simulate(50, begin_s=2).rows.tobytes())
    assert attributor.book.total().requests == 100
    attributor.flush()
    assert attributor.book.total().requests == 150
    attributor.flush()
    assert attributor.book.total().requests == 150


def test_late_rows_join_the_open_window(simulate: Simulate) -> None:
    """They are attributed with the offset known then: split, and close to the truth."""
    late = simulate(50, seed=2)
    book = _feed(simulate(500, begin_s=4).rows.tobytes(), late.rows.tobytes())
    assert book.total().requests == 550
    assert book.total().histogram("network.back").min_ns > 0


def test_a_window_with_too_many_rows_is_attributed_in_parts(
    row: Callable[..., Rows],
) -> None:
    """So what is held back is bounded; the pieces still do not matter."""
    raw = np.repeat(row(), BATCH_MAX + 10).tobytes()
    attributor = Attributor(1)
    attributor.feed(raw)
    assert attributor.book.total().requests == BATCH_MAX
    attributor.flush()
    pieces = _cut(raw, list(range(0, BATCH_MAX, 1000)))
    assert _feed(*pieces).to_bytes() == attributor.book.to_bytes()


def test_one_absurd_response_time_does_not_hold_everything_back(
    row: Callable[..., Rows],
) -> None:
    """A test may report what it likes: windows follow the generator's own marks."""
    attributor = Attributor(1)
    attributor.feed(row(response_ns=10**15, flags=MarkFlag.UNMARKED, last_read_ns=-1).tobytes())
    attributor.feed(row(response_ns=10**15).tobytes())
    attributor.feed(row(started_ns=1_000_000_000_000 + WINDOW_NS).tobytes())
    assert attributor.book.total().requests == 2


def test_endpoints_have_their_names(run: Rows) -> None:
    """Two ids of one name are one endpoint; an id without a name says so."""
    book = _feed(_name(0, "GET\t/a") + _name(1, "GET\t/a"), run.tobytes())
    assert {key: sketch.requests for key, sketch in book.endpoints.items()} == {
        ("GET", "/a"): 1334,
        ("?", "name 2"): 666,
    }
    assert book.total().requests == 2000


def test_a_flood_of_names_ends_in_the_other_endpoint(row: Callable[..., Rows]) -> None:
    """URLs that were not grouped under a name."""
    rows = np.repeat(row(), 3000)
    rows["name_id"] = np.arange(3000)
    names = b"".join(_name(number, f"GET\t/{number}") for number in range(3000))
    book = _feed(names, rows.tobytes())
    assert len(book.endpoints) == 1001
    assert book.endpoints[OTHER].requests == 2000


def test_a_book_that_is_taken_leaves_an_empty_one(run: Rows) -> None:
    """What was taken and what came after are together what there was."""
    raw = run.tobytes()
    attributor = Attributor(1)
    attributor.feed(raw[: 1500 * SIZE])
    first = attributor.take_book()
    attributor.feed(raw[1500 * SIZE :])
    attributor.flush()
    first.merge(attributor.book)
    assert first.to_bytes() == _feed(raw).to_bytes()


@given(st.binary(max_size=4 * SIZE + 3))
@settings(deadline=None)
def test_any_bytes_can_be_fed(raw: bytes) -> None:
    """No error, and whatever is counted can be written and read."""
    book = _feed(raw, raw)
    assert SketchBook.from_bytes(book.to_bytes()).to_bytes() == book.to_bytes()


def test_steps_are_small_and_come_to_the_same(row: Callable[..., Rows]) -> None:
    """Users take their turns in between: no step counts more than about a thousand requests."""
    rows = np.repeat(row(), 10_000)
    rows["name_id"] = np.arange(rows.size) % 7
    raw = np.concatenate((rows, row(started_ns=1_000_000_000_000 + WINDOW_NS))).tobytes()
    attributor, counted = Attributor(1), [0]
    for _ in attributor.steps(raw):
        counted.append(attributor.book.total().requests)
    counted.append(attributor.book.total().requests)
    assert counted[-1] == rows.size
    assert np.diff(counted).max() <= 1024
    attributor.flush()
    assert attributor.book.to_bytes() == _feed(raw).to_bytes()


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_steps_that_were_not_taken_are_taken_later(
    row: Callable[..., Rows], taken: list[int]
) -> None:
    """Whoever is stopped half way loses nothing: the next call goes on where it stopped."""
    later = row(started_ns=1_000_000_000_000 + WINDOW_NS)
    whole = np.concatenate((np.repeat(row(), 3000), later)).tobytes()
    attributor = Attributor(1)
    for steps in taken:
        for _ in islice(attributor.steps(whole), steps):
            pass
    attributor.flush()
    assert attributor.book.to_bytes() == _feed(*[whole] * len(taken)).to_bytes()


def test_many_endpoints_are_counted_in_more_steps(row: Callable[..., Rows]) -> None:
    """Each of them takes as long as tens of requests do."""
    rows = np.repeat(row(), 600)
    rows["name_id"] = np.arange(rows.size)
    attributor = Attributor(1)
    attributor.feed(rows.tobytes())
    steps = list(attributor.steps(row(started_ns=1_000_000_000_000 + WINDOW_NS).tobytes()))
    assert len(steps) > 600 * 64 // 1024
    assert attributor.book.total().requests == rows.size


def test_absurd_name_ids_are_told_apart(row: Callable[..., Rows]) -> None:
    """Also those that no table could hold."""
    rows = np.concatenate([row(name_id=number) for number in (2**32 - 1, 5, 2**31, 5)])
    book = _feed(rows.tobytes())
    assert {name: sketch.requests for (_, name), sketch in book.endpoints.items()} == {
        "name 4294967295": 1,
        "name 5": 2,
        "name 2147483648": 1,
    }
