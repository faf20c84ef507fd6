"""Attribution as CSV in Locust's style, beside the files that ``--csv PREFIX`` makes.

``PREFIX_attribution.csv`` holds each endpoint up to now, and is written anew as often as Locust
flushes its own files. ``PREFIX_attribution_history.csv`` grows by a row a second, and by one of
each endpoint with ``--csv-full-history``. Both are written once more when the run has ended.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from time import monotonic, time
from typing import Any, TextIO

import gevent

from locust import stats as locust_stats
from trilat.correlator.records.spreadsheet import as_text
from trilat.correlator.sketches.book import Endpoint, SketchBook
from trilat.correlator.sketches.sketch import Sketch

from .csv_rows import AGGREGATED, COLUMNS, FIGURES, UNKNOWN, Cell, figures, row
from .figures import Live, Recent

__all__ = ["HISTORY_COLUMNS", "CsvFiles", "table"]

HISTORY_COLUMNS: tuple[str, ...] = (
    *("Timestamp", "User Count", "Type", "Name", "Requests/s", "Failures/s"),
    *("Recent Request Count", "Recent Matched Count"),
    *FIGURES,
    *("Total Request Count", "Total Failure Count", "Total Matched Count"),
)
"""Columns of the history; figures are of the last ten seconds, totals of the run up to now."""


class CsvFiles:
    """The two files; open from the start of Locust to its end, as Locust's own are.

    Attributes:
        history_path: where the history is.

    Args:
        prefix: what their names begin with; its folder exists.
        full_history: whether the history has a row of each endpoint, too.

    Raises:
        OSError: a file cannot be written.
    """

    def __init__(self, prefix: str, *, full_history: bool) -> None:
        self.history_path = Path(f"{prefix}_attribution_history.csv").absolute()
        self._full = full_history
        self._totals = _open(Path(f"{prefix}_attribution.csv"))
        self._history = _open(self.history_path)
        self._totals.write(_lines([COLUMNS]))
        self._history.write(_lines([HISTORY_COLUMNS]))
        self._flush()
        self._windows: dict[Endpoint, Recent] = {}
        self._flushed = float("-inf")

    def write(self, live: Live, book: SketchBook, stats: Any, *, last: bool) -> None:
        """Write what a look at the run has found.

        Args:
            live: the look.
            book: the endpoints.
            stats: Locust's ``environment.stats``.
            last: all is in the book now; the next look is at another run.

        Raises:
            OSError: a file cannot be written.
        """
        now = monotonic()
        self._history.write(_lines(self._history_rows(live, book, stats, now)))
        if last:
            self._windows = {}
        if last or now - self._flushed >= locust_stats.CSV_STATS_FLUSH_INTERVAL_SEC:
            whole = table(book, live.total)
            self._totals.seek(0)
            self._totals.write(whole)
            self._totals.truncate()
            self._flush()
            self._flushed = now

    def close(self) -> None:
        """Close both files."""
        self._totals.close()
        self._history.close()

    def _flush(self) -> None:
        self._totals.flush()
        self._history.flush()

    def _history_rows(
        self, live: Live, book: SketchBook, stats: Any, now: float
    ) -> Iterator[list[Cell]]:
        begin: list[Cell] = [int(time()), int(live.figures["users"])]
        for endpoint in sorted(book.endpoints, key=_by_name) if self._full else ():
            sketch = book.endpoints.get(endpoint)
            if sketch is None:  # many endpoints became one while others were written
                continue
            window = self._windows.setdefault(endpoint, Recent())
            method, name = endpoint
            yield _history_row(
                begin, endpoint, stats.entries.get((name, method)), window.look(sketch, now), sketch
            )
            gevent.sleep(0)  # users go on in between
        yield _history_row(begin, AGGREGATED, stats.total, live.recent, live.total)


def table(book: SketchBook, total: Sketch) -> str:
    """The whole of ``PREFIX_attribution.csv``, as text.

    Other greenlets run in between: with many endpoints it takes a while.

    Args:
        book: the endpoints.
        total: all of them together.
    """
    rows: list[list[Cell]] = []
    for endpoint, sketch in sorted(book.endpoints.items(), key=lambda item: _by_name(item[0])):
        rows.append(row(endpoint, sketch))
        gevent.sleep(0)
    return _lines([COLUMNS, *rows, row(AGGREGATED, total)])


def _history_row(
    begin: list[Cell], endpoint: Endpoint, entry: Any, recent: Sketch, total: Sketch
) -> list[Cell]:
    method, name = endpoint
    rates: list[Cell] = [UNKNOWN, UNKNOWN]
    if entry is not None:
        rates = [round(entry.current_rps, 3), round(entry.current_fail_per_sec, 3)]
    return [
        *begin,
        *(as_text(method), as_text(name), *rates),
        *(recent.requests, recent.matched),
        *figures(recent),
        *(total.requests, total.failures, total.matched),
    ]


def _by_name(endpoint: Endpoint) -> tuple[str, str]:
    """In Locust's order."""
    method, name = endpoint
    return name, method


def _lines(rows: Any) -> str:
    text = StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _open(path: Path) -> TextIO:
    # As the csv module asks for; a lone surrogate, from bytes that were no UTF-8, fails no row.
    return path.open("w", encoding="utf-8", errors="replace", newline="")
