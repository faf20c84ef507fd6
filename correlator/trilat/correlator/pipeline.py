"""From raw journal records to a book of sketches: live in the generator, and from journals later.

Clocks are lined up over windows of two seconds of the generator's monotonic clock (which, unlike
the wall clock, does not step). A record belongs to the latest window that any record up to it has
reached; a late one simply joins the window that is open. So windows follow from the sequence of
records alone, and so does the book: it does not matter how the sequence is cut into pieces, nor how
the records within a window are ordered.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from trilat.agent.layout import Kind

from .align import Aligner
from .arrays import Int64s, Rows
from .attribute import attribute
from .book import SketchBook
from .cuts import cut, last_marks
from .frames import EXCHANGE_DTYPE, Names, read_records, split_records
from .sparse import run_starts
from .tally import BATCH_MAX, tally

__all__ = ["WINDOW_NS", "Attributor"]

WINDOW_NS = 2_000_000_000
"""Length of a window."""

_SIZE = EXCHANGE_DTYPE.itemsize


class Attributor:
    """Attributes the requests of one generator process.

    Processes number their names, and read their clocks, each for itself: every one's records need
    an attributor of their own. The books can be merged.

    Args:
        host_identity: of the generator's host (`trilat.agent.host.host_identity`).

    Attributes:
        book: what has been attributed since the beginning, or since it was taken.
    """

    def __init__(self, host_identity: int) -> None:
        self.book = SketchBook()
        self._aligner = Aligner(host_identity)
        self._names = Names()
        self._window = -1
        self._held: list[memoryview] = []
        self._held_rows = 0

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
        windows = self._windows(read_records(raw))
        borders = np.flatnonzero(np.diff(windows)) + 1
        for begin, end in pairwise((0, *borders.tolist(), windows.size)):
            if begin == end:
                continue
            if windows[begin] > self._window:
                self._close()
                self._window = int(windows[begin])
            rows, names = split_records(raw[begin * _SIZE : end * _SIZE])
            self._names.learn(names)
            self._hold(rows)

    def flush(self) -> None:
        """Attribute what is held back, as at the end of a run."""
        self._close()

    def take_book(self) -> SketchBook:
        """Hand the book over and begin a new one, as for a worker's report."""
        book, self.book = self.book, SketchBook()
        return book

    def _windows(self, records: Rows) -> Int64s:
        """The window that each record belongs to."""
        reached = last_marks(records) // WINDOW_NS
        reached[records["kind"] != int(Kind.EXCHANGE)] = -1
        latest: Int64s = np.maximum(np.maximum.accumulate(reached), self._window)
        return latest

    def _hold(self, rows: Rows) -> None:
        """Hold rows back until their window ends, or has as many as are attributed at once."""
        while rows.size:
            taken = rows[: BATCH_MAX - self._held_rows]
            rows = rows[taken.size :]
            self._held.append(taken.data)
            self._held_rows += taken.size
            if self._held_rows == BATCH_MAX:
                self._close()

    def _close(self) -> None:
        """Attribute the rows that are held."""
        if not self._held:
            return
        # numpy copies structured rows field by field, except in `take`; so bytes are joined here.
        rows = read_records(b"".join(self._held))
        self._held, self._held_rows = [], 0
        numbers, number = np.unique(rows["name_id"], return_inverse=True)
        places = self.book.places([self._names.label(known) for known in numbers.tolist()])
        pages = {place: page for page, place in enumerate(dict.fromkeys(places))}
        page = np.array([pages[place] for place in places], np.int32)[number]
        order = np.argsort(page, kind="stable")
        cuts = cut(rows.take(order))
        requests = attribute(cuts, self._aligner.align(cuts))
        counts = tally(requests, run_starts(page[order]))
        for place, counted in zip(pages, counts, strict=True):
            self.book.add(place, counted)
