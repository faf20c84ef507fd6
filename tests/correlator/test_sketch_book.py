"""Books of sketches: endpoints, their total, and what happens when there are too many."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import attribute
from trilat.correlator.attribution.cuts import cut
from trilat.correlator.sketches.book import ENDPOINTS_MAX, OTHER, Endpoint, SketchBook
from trilat.correlator.sketches.counts import Counts
from trilat.correlator.sketches.tally import tally

Rows = npt.NDArray[np.void]


def _counts(rows: Rows) -> Counts:
    cuts = cut(rows)
    return tally(attribute(cuts, Aligner(1).align(cuts)), np.zeros(1, np.intp))[0]


def _book(pages: dict[Endpoint, Counts]) -> SketchBook:
    book = SketchBook()
    for endpoint, counts in pages.items():
        book.add(endpoint, counts)
    return book


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), max_size=8))
@settings(deadline=None, max_examples=50)
def test_the_total_is_the_sum_and_all_of_it_survives_bytes(
    garbage: Callable[[int, int], Rows], pages: list[tuple[int, int]]
) -> None:
    """Endpoints added in whatever order, merged and written."""
    counted = [(("GET", f"/{name}"), _counts(garbage(5, seed))) for name, seed in pages]
    book, mirrored = SketchBook(), SketchBook()
    for endpoint, counts in counted:
        book.add(endpoint, counts)
    for endpoint, counts in reversed(counted):
        mirrored.merge(_book({endpoint: counts}))
    assert mirrored.to_bytes() == book.to_bytes()
    assert mirrored.total().to_bytes() == book.total().to_bytes()
    assert book.total().requests == sum(s.requests for s in book.endpoints.values())
    copy = SketchBook.from_bytes(book.to_bytes())
    assert copy.to_bytes() == book.to_bytes()
    assert copy.total().to_bytes() == book.total().to_bytes()


def test_which_endpoints_stay_does_not_depend_on_the_order(row: Callable[..., Rows]) -> None:
    """Three books with too many endpoints together, merged in all orders, are the same book."""
    counts = _counts(row())
    books = [
        _book({("GET", f"/{number % 1400:04}"): counts for number in range(begin, begin + 600)})
        for begin in (0, 450, 900)
    ]
    books[2].add(("AAA", "/late"), counts)
    merged = set()
    for order in itertools.permutations(books):
        total = SketchBook()
        for book in order:
            total.merge(book)
        assert len(total.endpoints) == ENDPOINTS_MAX + 1
        assert total.endpoints[OTHER].requests > 0
        assert ("AAA", "/late") in total.endpoints
        assert total.total().requests == 1801
        merged.add(total.to_bytes())
    right = SketchBook()
    right.merge(books[1])
    right.merge(books[2])
    left = SketchBook()
    left.merge(books[0])
    left.merge(right)
    assert merged == {left.to_bytes()}
    assert SketchBook.from_bytes(left.to_bytes()).to_bytes() == left.to_bytes()


def test_the_total_is_a_sketch_of_its_own(row: Callable[..., Rows]) -> None:
    """Changing it, or merging a book, changes no other."""
    book = _book({("GET", "/"): _counts(row())})
    total = book.total()
    total.merge(total)
    other = SketchBook()
    other.merge(book)
    other.merge(book)
    assert (total.requests, other.total().requests) == (2, 2)
    assert book.total().requests == book.endpoints["GET", "/"].requests == 1


def test_a_book_can_be_merged_into_itself(row: Callable[..., Rows]) -> None:
    """It doubles."""
    book = _book({("GET", "/"): _counts(row())})
    book.merge(book)
    assert book.endpoints["GET", "/"].requests == book.total().requests == 2
