"""A run over time: bounded, exact, the same in whatever order, and read from hostile bytes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.errors import InputError
from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import Attributed, attribute
from trilat.correlator.attribution.cuts import cut
from trilat.correlator.sketches.book import SketchBook
from trilat.correlator.sketches.course import Course
from trilat.correlator.sketches.sketch import Sketch
from trilat.correlator.sketches.slices import SLICE_NS, SLICES_MAX, Slices

MS = 1_000_000
EPOCH = 1_700_000_000_000_000_000
Rows = npt.NDArray[np.void]
Garbage = Callable[[int, int], Rows]


def _requests(rows: Rows) -> Attributed:
    cuts = cut(rows)
    return attribute(cuts, Aligner(1).align(cuts))


def _slices(*batches: Rows) -> Slices:
    slices = Slices()
    for rows in batches:
        slices.add(_requests(rows))
    return slices


@pytest.fixture(scope="module")
def rows(simulate: Callable[..., object]) -> Rows:
    """5,000 requests in ten seconds, some late, some with missed tasks."""
    run = simulate(5000, host=1, offset_ms=0, drift_ppm=0)
    found: Rows = run.rows.copy()  # type: ignore[attr-defined]
    random = np.random.default_rng(5)
    found["lateness_ns"] = np.where(random.random(5000) < 0.5, random.integers(0, 10**9, 5000), -1)
    found["missed"] = random.integers(0, 5, 5000) * (found["lateness_ns"] > 10**8)
    return found


def test_a_span_of_time_holds_what_started_in_it(rows: Rows) -> None:
    """Its figures are those of a sketch of the same requests."""
    slices = _slices(rows[:2000], rows[2000:])
    begin, end = EPOCH + 2_000 * MS, EPOCH + 5_000 * MS
    found, seconds = slices.between(begin, end)
    started = rows["started_wall_ns"] // SLICE_NS
    chosen = rows[(started >= begin // SLICE_NS) & (started < end // SLICE_NS)]
    sketch = Sketch()
    sketch.update(_requests(chosen))
    assert seconds == 3.0
    assert (found.requests, found.scheduled) == (chosen.size, sketch.scheduled)
    assert (found.missed, found.failures) == (sketch.missed, sketch.failures)
    for ours, name in ((found.response, "response"), (found.corrected, "corrected")):
        theirs = sketch.histogram(name)
        assert ours.count == theirs.count
        assert ours.mean_ns == pytest.approx(theirs.mean_ns)
        assert [ours.quantile_ns(q) for q in (0.1, 0.5, 0.99, 1)] == [
            theirs.quantile_ns(q) for q in (0.1, 0.5, 0.99, 1)
        ]
    # What jitter was is told by all requests of a window: some of them alone say it differently.
    parts = found.parts_ns / found.requests
    np.testing.assert_allclose(parts, sketch.makeup(None), rtol=0.01, atol=5_000)
    assert slices.between(end, begin)[1] == 0


def test_a_long_run_has_longer_slices(row: Callable[..., Rows]) -> None:
    """Never more than 1,024 of them, and no request is lost."""
    long = np.repeat(row(), 20_000)
    long["started_wall_ns"] = EPOCH + np.arange(20_000) * 1_000 * MS  # five and a half hours
    slices = _slices(long)
    assert slices.length_ns == 128 * SLICE_NS
    found, _ = slices.between(EPOCH - 10**12, EPOCH + 10**14)
    assert found.requests == 20_000
    assert len(slices.to_bytes()) < 200_000


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 2**32)), min_size=2, max_size=4),
    st.randoms(),
)
@settings(deadline=None, max_examples=15)
def test_merging_does_not_depend_on_the_order(
    garbage: Garbage, batches: list[tuple[int, int]], random: object
) -> None:
    """Whatever the rows hold; and bytes give the same slices back."""
    parts = [_slices(garbage(*batch)) for batch in batches]
    whole = _slices(*(garbage(*batch) for batch in batches))
    random.shuffle(parts)  # type: ignore[attr-defined]
    merged = Slices()
    for part in parts:
        merged.merge(Slices.from_bytes(part.to_bytes()))
    assert merged.to_bytes() == whole.to_bytes()
    assert Slices.from_bytes(merged.to_bytes()).to_bytes() == merged.to_bytes()


def test_slices_of_two_lengths_are_merged(row: Callable[..., Rows]) -> None:
    """Those of the short run become as long as those of the long one; in either order."""
    long, short = np.repeat(row(), 3 * SLICES_MAX), np.repeat(row(), 5)
    long["started_wall_ns"] = EPOCH + np.arange(3 * SLICES_MAX) * SLICE_NS
    short["started_wall_ns"] = EPOCH + np.arange(5) * SLICE_NS
    merged = [Slices(), Slices()]
    for together, pair in zip(merged, ((long, short), (short, long)), strict=True):
        for part in pair:
            together.merge(_slices(part))
    assert merged[0].to_bytes() == merged[1].to_bytes()
    assert merged[0].length_ns == 4 * SLICE_NS
    assert merged[0].between(EPOCH, EPOCH + 4 * SLICE_NS)[0].requests == 8


def test_a_start_that_is_not_known_is_in_no_slice(row: Callable[..., Rows]) -> None:
    """As of a client of one's own that did not tell."""
    assert not _slices(row(started_wall_ns=0))


@given(st.binary(max_size=60), st.integers(0, 400), st.integers(1, 255))
@settings(deadline=None, max_examples=30)
def test_damaged_bytes_are_refused(rows: Rows, raw: bytes, at: int, flip: int) -> None:
    """By `InputError` and nothing else: any bytes, cut short, or one of them changed."""
    good = bytearray(_slices(rows[:50]).to_bytes())
    for bad in (raw, bytes(good[:at])):
        if bad != bytes(good):
            with pytest.raises(InputError):
                Slices.from_bytes(bad)
    good[at % len(good)] ^= flip
    with suppress(InputError):
        Slices.from_bytes(bytes(good))
    for bad in (b"", b"\xff" * 8, bytes(4), b"\x02\x00\x00\x00{}", b"\x00\x00\x00\x00" + raw):
        with pytest.raises(InputError):
            Course.from_bytes(bad)


def test_a_book_has_its_course_with_it(rows: Rows) -> None:
    """In one piece or in pages; a book without one has no bytes of it."""
    book = SketchBook()
    assert b"course" not in book.to_bytes()
    book.course.slices.add(_requests(rows))
    book.course.bunching.count(np.full(100, 3))
    for again in (
        SketchBook.from_bytes(book.to_bytes()),
        SketchBook.from_pages([*book.to_pages()]),
    ):
        assert again.course.to_bytes() == book.course.to_bytes()
        assert again.total().bunching == book.course.bunching
    merged = SketchBook()
    merged.merge(book)
    merged.merge(book)
    assert merged.course.bunching.starts == 600
    with pytest.raises(InputError):
        SketchBook.from_bytes(b"trilat-course 1\n\xff")
