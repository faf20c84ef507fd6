"""The sketches of all endpoints of a run, and their total."""

from __future__ import annotations

import json
from collections.abc import Collection
from struct import Struct
from typing import Any

from trilat.agent.errors import InputError

from . import codec
from .counts import Counts
from .sketch import Sketch

__all__ = ["ENDPOINTS_MAX", "OTHER", "Endpoint", "SketchBook"]

Endpoint = tuple[str, str]
"""Method and name, as Locust has them."""

ENDPOINTS_MAX = 1000
"""Endpoints with a sketch of their own."""

OTHER: Endpoint = ("*", "(other)")
"""Where the requests to all further endpoints are counted."""

_MAGIC = b"trilat-book 1\n"
_LENGTH = Struct("<I")
_CELLS_MAX = 2**23  # of all sketches: 1,000 endpoints with 17 variables of 490 buckets


class SketchBook:
    """Sketches by endpoint; merging books is exact, and the same in whatever order.

    For that, which endpoints keep a sketch of their own must not depend on the order either: the
    first `ENDPOINTS_MAX` by method and name do. A run with more of them has forgotten to group
    its URLs under a name.

    Attributes:
        endpoints: the sketches, for reading.
    """

    def __init__(self) -> None:
        self.endpoints: dict[Endpoint, Sketch] = {}
        self._total = Sketch()

    def total(self) -> Sketch:
        """A sketch of the requests to all endpoints."""
        return self._total.copy()

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
        (place,) = self.places([endpoint])
        self._sketch(place).add(counts)
        self._total.add(counts)

    def merge(self, other: SketchBook) -> None:
        """Add another book's requests to these; the other stays as it is."""
        pages = list(other.endpoints.items())
        for place, (_, sketch) in zip(self.places([key for key, _ in pages]), pages, strict=True):
            self._sketch(place).merge(sketch)
        self._total.merge(other._total)

    def _sketch(self, place: Endpoint) -> Sketch:
        sketch = self.endpoints.get(place)
        if sketch is None:
            sketch = self.endpoints[place] = Sketch()
        return sketch

    def to_bytes(self) -> bytes:
        """The book as bytes; equal books give equal bytes.

        ``trilat-book 1`` and a newline, the length of the index (u32), the index (JSON: method,
        name and length of each sketch), and the sketches.
        """
        pages = [(key, self.endpoints[key].to_bytes()) for key in sorted(self.endpoints)]
        index = json.dumps([[*key, len(page)] for key, page in pages]).encode()
        return b"".join((_MAGIC, _LENGTH.pack(len(index)), index, *(page for _, page in pages)))

    @classmethod
    def from_bytes(cls, raw: bytes) -> SketchBook:
        """Read what `to_bytes` wrote.

        Raises:
            InputError: these are not a book's bytes.
        """
        at = len(_MAGIC) + _LENGTH.size
        if not raw.startswith(_MAGIC) or len(raw) < at:
            raise InputError("not a trilat book of sketches (version 1)")
        (size,) = _LENGTH.unpack_from(raw, len(_MAGIC))
        index = _index(raw[at : at + size])
        at += size
        if at + sum(size for _, size in index) != len(raw):
            raise InputError("damaged book of sketches: cut short or too long")
        book, cells = cls(), 0
        for endpoint, size in index:
            counts = codec.decode(raw[at : at + size])
            at += size
            cells += counts.cells.keys.size
            if cells > _CELLS_MAX:
                raise InputError("damaged book of sketches: larger than any run's can be")
            book.add(endpoint, counts)
        return book


def _index(text: bytes) -> list[tuple[Endpoint, int]]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("damaged book of sketches: its index is not JSON") from error
    if not isinstance(entries, list) or len(entries) > ENDPOINTS_MAX + 1:
        raise InputError("damaged book of sketches: its index is not a list, or too long")
    return [_entry(entry) for entry in entries]


def _entry(entry: Any) -> tuple[Endpoint, int]:
    match entry:
        case [str(method), str(name), int(size)] if size >= 0:
            # A lone surrogate passes through JSON, but nothing could print it.
            if not any("\ud800" <= character <= "\udfff" for character in method + name):
                return (method, name), size
    raise InputError("damaged book of sketches: an entry of its index cannot be read")
