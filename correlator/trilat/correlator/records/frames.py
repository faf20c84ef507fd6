"""Journal records as numpy arrays, and the texts that stand behind their name ids."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from trilat.agent.layout import EXCHANGE, SERVED, Kind, RecordLayout, name_layout
from trilat.correlator.arrays import Rows

__all__ = [
    "EXCHANGE_DTYPE",
    "NAME_DTYPE",
    "SERVED_DTYPE",
    "Names",
    "layout_dtype",
    "read_records",
    "split_records",
]

_FORMATS = {"H": "<u2", "I": "<u4", "Q": "<u8", "i": "<i4", "q": "<i8"}
_PARTS_MAX = 64  # of one text: about 11,000 bytes


@lru_cache(maxsize=16)
def layout_dtype(layout: RecordLayout) -> np.dtype[np.void]:
    """The numpy type of a kind of record: its fields, packed."""
    return np.dtype(
        [
            (field.name, _FORMATS.get(field.format) or f"S{field.format.removesuffix('s')}")
            for field in layout.fields
        ]
    )


EXCHANGE_DTYPE = layout_dtype(EXCHANGE)
"""One exchange record; the fields of `trilat.agent.layout.EXCHANGE`, packed."""

SERVED_DTYPE = layout_dtype(SERVED)
"""One record of a service; the fields of `trilat.agent.layout.SERVED`, packed."""

NAME_DTYPE = layout_dtype(name_layout(EXCHANGE.size))
"""One name record beside exchanges; numpy takes the padding off its text."""


def read_records(raw: bytes, layout: RecordLayout = EXCHANGE) -> Rows:
    """Whole records of any kind as rows of a layout, without a copy; the rest is dropped."""
    dtype = layout_dtype(layout)
    return np.frombuffer(raw, dtype, count=len(raw) // dtype.itemsize)


def split_records(
    raw: bytes, layout: RecordLayout = EXCHANGE, *, earlier: bool = False
) -> tuple[Rows, list[tuple[int, int, bytes]]]:
    """Tell a file's own records and names apart; records of other kinds are dropped.

    Args:
        raw: records back to back, from a journal or straight from its writer.
        layout: of the file that they come from.
        earlier: whether rows of kind `EARLIER` stay where they stand, behind their request's.

    Returns:
        The rows (possibly a read-only view of ``raw``), and the parts of names in the order in
        which they stand there: name id, number of the part, text.
    """
    records = read_records(raw, layout)
    kinds = records["kind"]
    is_own = kinds == int(layout.kind)
    if earlier:
        is_own |= kinds == int(Kind.EARLIER)
    if is_own.all():
        return records, []
    names = layout_dtype(name_layout(layout.size))
    parts = records[kinds == int(Kind.NAME)].view(names)
    named = zip(
        parts["name_id"].tolist(), parts["part"].tolist(), parts["text"].tolist(), strict=True
    )
    return records.take(np.flatnonzero(is_own)), list(named)


class Names:
    """What name ids stand for: method and name of an endpoint.

    A journal repeats its names in each of its files, so a text may come again; its first part
    begins it anew.
    """

    def __init__(self) -> None:
        self._parts: dict[int, list[bytes]] = {}
        self._labels: dict[int, tuple[str, str]] = {}

    def learn(self, parts: Iterable[tuple[int, int, bytes]]) -> None:
        """Take parts of texts in, in the order in which they were written.

        A part that does not follow the one before it is dropped.
        """
        for number, part, text in parts:
            if part == 0:
                self._parts[number] = [text]
            elif part == len(self._parts.get(number, ())) < _PARTS_MAX:
                self._parts[number].append(text)
            self._labels.pop(number, None)

    def label(self, number: int) -> tuple[str, str]:
        """Method and name behind an id; ``("?", "name 17")`` where nothing was written of it."""
        known = self._labels.get(number)
        if known is None:
            known = self._labels[number] = self._compose(number)
        return known

    def _compose(self, number: int) -> tuple[str, str]:
        if number not in self._parts:
            return "?", f"name {number}"
        text = b"".join(self._parts[number]).decode(errors="replace")
        method, _, name = text.partition("\t")
        return method, name
