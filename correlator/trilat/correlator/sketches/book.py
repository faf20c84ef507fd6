"""The sketches of all endpoints of a run, and their total."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Any

from trilat.agent.errors import InputError

from . import codec
from .counts import Counts
from .course import Course
from .sketch import Sketch

__all__ = ["ENDPOINTS_MAX", "OTHER", "Endpoint", "SketchBook", "read_book"]

Endpoint = tuple[str, str]
"""Method and name, as Locust has them."""

ENDPOINTS_MAX = 1000
"""Endpoints with a sketch of their own."""

OTHER: Endpoint = ("*", "(other)")
"""Where the requests to all further endpoints are counted."""

_MAGIC = b"trilat-book 2\n"
_COURSE = b"trilat-course 1\n"
_LENGTH = Struct("<I")
_BYTES_MAX = 2**30
_ENDPOINT_CELLS = 200  # what an endpoint costs beside its cells, in as many of them


class SketchBook:
    """Sketches by endpoint; merging books is exact, and the same in whatever order.

    For that, which endpoints keep a sketch of their own must not depend on the order either: the
    first `ENDPOINTS_MAX` by method and name do. A run with more of them has forgotten to group
    its URLs under a name.

    Attributes:
        endpoints: the sketches, for reading.
        course: the requests over time, and how bunched their starts were.
    """

    def __init__(self) -> None:
        self.endpoints: dict[Endpoint, Sketch] = {}
        self.course = Course()
        self._total = Sketch()

    def total(self) -> Sketch:
        """A sketch of the requests to all endpoints."""
        total = self._total.copy()
        total.bunching = self.course.bunching.copy()
        return total

    def places(self, endpoints: Collection[Endpoint]) -> list[Endpoint]:
        """Make room for endpoints.

        Returns:
            Where requests to each of them are counted: the endpoint itself, or `OTHER`.
        """
        new = {key for key in endpoints if key not in self.endpoints and key != OTHER}
        if new:
            named = sorted((self.endpoints.keys() | new) - {OTHER})
            for endpoint in named[:ENDPOINTS_MAX]:
                self._sketch(endpoint)
            for endpoint in named[ENDPOINTS_MAX:]:
                if (moved := self.endpoints.pop(endpoint, None)) is not None:
                    self._sketch(OTHER).merge(moved)
        return [endpoint if endpoint in self.endpoints else OTHER for endpoint in endpoints]

    def add(self, endpoint: Endpoint, counts: Counts) -> None:
        """Count requests to an endpoint."""
        self.add_all([(endpoint, counts)])

    def add_all(self, pages: Sequence[tuple[Endpoint, Counts]]) -> None:
        """Count requests to several endpoints."""
        places = self.places([endpoint for endpoint, _ in pages])
        for place, (_, counts) in zip(places, pages, strict=True):
            self._sketch(place).add(counts)
        together = [counts for _, counts in pages]
        self._total.add(together[0] if len(together) == 1 else Counts.of(together))

    def merge(self, other: SketchBook) -> None:
        """Add another book's requests to these; the other stays as it is."""
        pages = list(other.endpoints.items())
        for place, (_, sketch) in zip(self.places([key for key, _ in pages]), pages, strict=True):
            self._sketch(place).merge(sketch)
        self._total.merge(other._total)
        self.course.merge(other.course)

    def _sketch(self, place: Endpoint) -> Sketch:
        sketch = self.endpoints.get(place)
        if sketch is None:
            sketch = self.endpoints[place] = Sketch()
        return sketch

    def to_bytes(self) -> bytes:
        """The book as bytes; equal books give equal bytes.

        ``trilat-course 1`` and a newline, the length of the course (u32) and the course, where
        there is one; ``trilat-book 2`` and a newline, the length of the index (u32), the index
        (JSON: method and name of each sketch, ascending), and the sketches
        (`trilat.correlator.sketches.codec`).
        """
        return self._packed_course() + self._pack(sorted(self.endpoints))

    def to_pages(self, cells: int = 2**14) -> Iterator[bytes]:
        """The book as the bytes of several, each packed when it is asked for.

        Merged (`from_pages`), they are this book again.

        Args:
            cells: how many cells of histograms a page has, up to one endpoint more. 16,384 are
                packed in about 2 ms.
        """
        page: list[Endpoint] = []
        held = 0
        if course := self._packed_course():
            yield course + self._pack([])
        for key in sorted(self.endpoints):
            page.append(key)
            held += self.endpoints[key].counts.cells.keys.size + _ENDPOINT_CELLS
            if held >= cells:
                yield self._pack(page)
                page, held = [], 0
        if page:
            yield self._pack(page)

    def _packed_course(self) -> bytes:
        if not self.course:
            return b""
        course = self.course.to_bytes()
        return _COURSE + _LENGTH.pack(len(course)) + course

    def _pack(self, keys: list[Endpoint]) -> bytes:
        index = json.dumps(keys).encode()
        pages = codec.encode([self.endpoints[key].counts for key in keys])
        return b"".join((_MAGIC, _LENGTH.pack(len(index)), index, pages))

    @classmethod
    def from_bytes(cls, raw: bytes) -> SketchBook:
        """Read what `to_bytes` wrote.

        Raises:
            InputError: these are not a book's bytes.
        """
        return cls.from_pages([raw])

    @classmethod
    def from_pages(cls, pages: Sequence[bytes]) -> SketchBook:
        """Read what `to_pages` packed: one book of all of them together.

        Raises:
            InputError: one of them is no book's bytes.
        """
        book, found = cls(), []
        for raw in pages:
            course, rest = _without_course(raw)
            if course is not None:
                book.course.merge(course)
            found += _unpack(rest)
        if len({endpoint for endpoint, _ in found}) == len(found) <= ENDPOINTS_MAX:
            # As written: each has a sketch of its own already, so nothing has to be added up.
            book.endpoints = {endpoint: Sketch(counts) for endpoint, counts in found}
            book._total = Sketch(Counts.of([counts for _, counts in found]))
        else:
            book.add_all(found)
        return book


def read_book(path: Path) -> SketchBook:
    """Read a file that holds a book.

    Raises:
        InputError: it is missing or damaged.
    """
    try:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        if path.stat().st_size > _BYTES_MAX:
            raise InputError(f"{path}: larger than a run's sketches can be")
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    try:
        return SketchBook.from_bytes(raw)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _without_course(raw: bytes) -> tuple[Course | None, bytes]:
    """The course that bytes begin with, and what comes after it."""
    if not raw.startswith(_COURSE):
        return None, raw
    at = len(_COURSE) + _LENGTH.size
    size = _LENGTH.unpack_from(raw, len(_COURSE))[0] if len(raw) >= at else 0
    return Course.from_bytes(raw[at : at + size]), raw[at + size :]


def _unpack(raw: bytes) -> list[tuple[Endpoint, Counts]]:
    at = len(_MAGIC) + _LENGTH.size
    if not raw.startswith(_MAGIC) or len(raw) < at:
        raise InputError("not a trilat book of sketches (version 2)")
    (size,) = _LENGTH.unpack_from(raw, len(_MAGIC))
    index = _index(raw[at : at + size])
    counts = codec.decode(raw[at + size :])
    if len(counts) != len(index):
        raise InputError("damaged book of sketches: its index is of another book")
    return list(zip(index, counts, strict=True))


def _index(text: bytes) -> list[Endpoint]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("damaged book of sketches: its index is not JSON") from error
    if not isinstance(entries, list) or len(entries) > ENDPOINTS_MAX + 1:
        raise InputError("damaged book of sketches: its index is not a list, or too long")
    return [_entry(entry) for entry in entries]


def _entry(entry: Any) -> Endpoint:
    match entry:
        case [str(method), str(name)]:
            # A lone surrogate passes through JSON, but nothing could print it.
            if not any("\ud800" <= character <= "\udfff" for character in method + name):
                return method, name
    raise InputError("damaged book of sketches: an entry of its index cannot be read")
