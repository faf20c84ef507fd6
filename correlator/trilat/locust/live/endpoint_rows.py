"""The table of endpoints in the web UI: what each endpoint's response time is made of.

Making it takes a while where there are many endpoints, in the process that makes the load. So it
is made only for who asks, no more often than costs a hundredth of the time, and in small pieces
between which users go on.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import gevent

from trilat.correlator.sketches.book import Endpoint, SketchBook
from trilat.correlator.sketches.sketch import Sketch

from .figures import sides_ms

__all__ = ["SHOWN_MAX", "EndpointRows"]

SHOWN_MAX = 200
"""Most endpoints shown: those with the most requests."""

_AGE_MIN_S = 2.0
_COST_SHARE = 0.01
_MS = 1e6


class EndpointRows:
    """Keeps the rows that were made last.

    Attributes:
        endpoints: how many endpoints there were, shown or not.
        version: grows with each time that rows were made.
    """

    def __init__(self) -> None:
        self.endpoints = 0
        self.version = 0
        self._rows: list[dict[str, Any]] = []
        self._fresh_until = float("-inf")
        self._busy = self._final = False

    def look(self, book: SketchBook, *, ended: bool) -> list[dict[str, Any]]:
        """The rows, most requests first; made anew where they are old.

        Args:
            book: the endpoints.
            ended: nothing is added to the book any more.
        """
        fresh = perf_counter() < self._fresh_until and not ended
        if self._busy or self._final or fresh:
            return self._rows
        self._busy = True
        try:
            self._make(book)
            self._final = ended
        finally:
            self._busy = False
        return self._rows

    def _make(self, book: SketchBook) -> None:
        cost_s = 0.0
        found = [item for item in book.endpoints.items() if item[1].requests]
        found.sort(key=lambda item: item[1].requests, reverse=True)
        rows = []
        for endpoint, sketch in found[:SHOWN_MAX]:
            began = perf_counter()
            rows.append(_row(endpoint, sketch))
            cost_s += perf_counter() - began
            gevent.sleep(0)
        self._rows, self.endpoints = rows, len(found)
        self.version += 1
        self._fresh_until = perf_counter() + max(_AGE_MIN_S, cost_s / _COST_SHARE)


def _row(endpoint: Endpoint, sketch: Sketch) -> dict[str, Any]:
    method, name = endpoint
    response = sketch.histogram("response")
    return {
        "method": method,
        "name": name,
        "requests": sketch.requests,
        "failures": sketch.failures,
        "matched": sketch.matched,
        "mean_ms": round(response.mean_ns / _MS, 3),
        "p95_ms": round(response.quantile_ns(0.95) / _MS, 3),
        "mean": sides_ms(sketch, None),
        "p95": sides_ms(sketch, 0.95),
    }
