"""From raw journal records to a book of sketches: live in the generator, and from journals later.

Clocks are lined up over windows of two seconds of the generator's monotonic clock (which, unlike
the wall clock, does not step). A record belongs to the latest window that any record up to it has
reached; a late one simply joins the window that is open. So windows follow from the sequence of
records alone, and so does the book: it does not matter how the sequence is cut into pieces, nor how
the records within a window are ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from trilat.agent.layout import Kind
from trilat.correlator.arrays import Int32s, Int64s, Rows
from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import Attributed, attribute
from trilat.correlator.attribution.chains import joined, unfolded
from trilat.correlator.attribution.cuts import cut, last_marks
from trilat.correlator.records.frames import EXCHANGE_DTYPE, Names, read_records, split_records
from trilat.correlator.sketches.book import Endpoint, SketchBook
from trilat.correlator.sketches.bunching import StartCells
from trilat.correlator.sketches.sparse import run_starts
from trilat.correlator.sketches.tally import tally

__all__ = ["WINDOW_NS", "Attributor", "Batches"]

WINDOW_NS = 2_000_000_000
"""Length of a window."""

_BATCH = 2**12  # rows that are attributed at once, where a window has more
_EARLIER_MAX = 2**12  # that a full batch still takes in for its last request
_EXCHANGE = int(Kind.EXCHANGE)
_TABLED = 2**16  # name ids below that, as any journal's, are looked up in a table
_STEP = 1024  # requests that are counted in one step
_ENDPOINT = 64  # requests that take as long to count as one more endpoint does
Batches = Callable[[Rows, Attributed, Names], None]
"""Takes n rows, the n requests that they are of, and the texts of their name ids."""

_SIZE = EXCHANGE_DTYPE.itemsize


class Attributor:
    """Attributes the requests of one generator process.

    Processes number their names, and read their clocks, each for itself: every one's records need
    an attributor of their own. The books can be merged.

    Args:
        host_identity: of the generator's host (`trilat.agent.host.host_identity`).
        each: takes each batch of requests as it is attributed: a row of each request (that of its
            last exchange), what it is made of, and the names; for those who want single requests.

    Attributes:
        book: what has been attributed since the beginning, or since it was taken.
    """

    def __init__(self, host_identity: int, each: Batches | None = None) -> None:
        self.book = SketchBook()
        self._starts = StartCells()
        self._each = each
        self._aligner = Aligner(host_identity)
        self._names = Names()
        self._window = -1
        self._held: list[memoryview] = []
        self._held_rows = 0
        self._under_way: Iterator[None] = iter(())

    @property
    def same_host(self) -> bool | None:
        """See `Aligner.same_host`."""
        return self._aligner.same_host

    def feed(self, raw: bytes) -> None:
        """Take whole records in; those of windows that end with them get attributed.

        Args:
            raw: records as a journal holds them, in its order; whatever they hold, no error comes
                of it.
        """
        for _ in self.steps(raw):
            pass

    def steps(self, raw: bytes) -> Iterator[None]:
        """Do the same in steps of about a millisecond, as where others wait for their turn.

        Steps that were not taken are taken by the next call of any kind.

        Args:
            raw: see `feed`.

        Returns:
            An iterator that takes one step for each item.
        """
        self._finish()
        self._under_way = self._take_in(raw)
        return self._under_way

    def flush(self) -> None:
        """Attribute what is held back, as at the end of a run."""
        self._finish()
        for _ in self._close():
            pass
        self._starts.flush(self.book.course.bunching)

    def take_book(self) -> SketchBook:
        """Hand the book over and begin a new one, as for a worker's report."""
        book, self.book = self.book, SketchBook()
        return book

    def _finish(self) -> None:
        for _ in self._under_way:
            pass

    def _take_in(self, raw: bytes) -> Iterator[None]:
        windows = self._windows(read_records(raw))
        borders = np.flatnonzero(np.diff(windows)) + 1
        for begin, end in pairwise((0, *borders.tolist(), windows.size)):
            if begin == end:
                continue
            if windows[begin] > self._window:
                yield from self._close()
                self._window = int(windows[begin])
            rows, names = split_records(raw[begin * _SIZE : end * _SIZE], earlier=True)
            self._names.learn(names)
            yield from self._hold(rows)

    def _windows(self, records: Rows) -> Int64s:
        """The window that each record belongs to."""
        reached = last_marks(records) // WINDOW_NS
        reached[records["kind"] != _EXCHANGE] = -1
        latest: Int64s = np.maximum(np.maximum.accumulate(reached), self._window)
        return latest

    def _hold(self, rows: Rows) -> Iterator[None]:
        """Hold rows back until their window ends, or has as many as are attributed at once.

        The earlier exchanges of a request stay with it.
        """
        while rows.size:
            taken = rows[: max(_BATCH - self._held_rows, 0)]
            if not taken.size:
                begins = rows["kind"] == _EXCHANGE
                room = _BATCH + _EARLIER_MAX - self._held_rows
                taken = rows[: min(int(begins.argmax()) if begins.any() else rows.size, room)]
            if not taken.size:
                yield from self._close()
                continue
            rows = rows[taken.size :]
            self._held.append(taken.data)
            self._held_rows += taken.size

    def _close(self) -> Iterator[None]:
        """Attribute the rows that are held."""
        if not self._held:
            return
        # numpy copies structured rows field by field, except in `take`; so bytes are joined here.
        rows = read_records(b"".join(self._held))
        self._held, self._held_rows = [], 0
        chains = unfolded(rows)
        rows = rows if chains is None else chains.rows
        if not rows.size:
            return
        numbers, number = _numbered(rows["name_id"])
        places = self.book.places([self._names.label(known) for known in numbers.tolist()])
        pages = {place: page for page, place in enumerate(dict.fromkeys(places))}
        page = np.array([pages[place] for place in places], np.int32)[number]
        if len(pages) > 1:
            order = np.argsort(page, kind="stable")
            page = page[order]
            chains = None if chains is None else chains.ordered(order)
            rows = rows.take(order) if chains is None else chains.rows
        yield
        cuts = cut(rows)
        yield
        requests = attribute(cuts, self._aligner.align(cuts))
        if chains is not None:
            rows, page = chains.requests, page[chains.starts]
            requests = joined(requests, chains)
        if self._each is not None:
            self._each(rows, requests, self._names)
        self._starts.move((self._window + 1) * WINDOW_NS, self.book.course.bunching)
        self._starts.add(rows["started_ns"], requests.first)
        yield
        self.book.course.slices.add(requests)
        for begin, end in pairwise(_step_borders(page)):
            yield
            self._count(_part(requests, begin, end), page[begin:end], list(pages))

    def _count(self, requests: Attributed, page: Int32s, pages: list[Endpoint]) -> None:
        """Count requests, which stand by page."""
        starts = run_starts(page)
        counts = tally(requests, starts)
        self.book.add_all(
            [(pages[at], counted) for at, counted in zip(page[starts], counts, strict=True)]
        )


def _numbered(ids: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """The different ids, ascending, and which of them each is."""
    if ids.max() >= _TABLED:
        return np.unique(ids, return_inverse=True)
    known = np.flatnonzero(np.bincount(ids))
    table = np.zeros(known[-1] + 1, np.intp)
    table[known] = np.arange(known.size)
    return known, table[ids]


def _step_borders(page: Int32s) -> list[int]:
    """Where to cut requests, which stand by page, so that the pieces take about equally long."""
    effort = np.ones(page.size, np.int64)
    effort[run_starts(page)] += _ENDPOINT
    step = np.cumsum(effort) // _STEP
    return [0, *(np.flatnonzero(np.diff(step)) + 1).tolist(), page.size]


def _part(requests: Attributed, begin: int, end: int) -> Attributed:
    columns = (getattr(requests, column.name)[begin:end] for column in fields(Attributed))
    return Attributed(*columns)
