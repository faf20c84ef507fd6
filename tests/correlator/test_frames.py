"""Journal records as arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.journal import JournalWriter
from trilat.agent.layout import EXCHANGE, NAME, SERVED, Kind, name_layout
from trilat.agent.segment import journal_files, read_segment
from trilat.agent.stamp import EMPTY
from trilat.correlator.records.frames import (
    EXCHANGE_DTYPE,
    NAME_DTYPE,
    SERVED_DTYPE,
    Names,
    read_records,
    split_records,
)


def _name(number: int, part: int, text: bytes) -> bytes:
    return NAME.struct.pack(Kind.NAME, part, number, text, 1)


def test_the_arrays_have_the_records_layout() -> None:
    """A packed record, read as an array, has the same values under the same names."""
    values = [index + 1 for index, _ in enumerate(EXCHANGE.fields)]
    (row,) = np.frombuffer(EXCHANGE.struct.pack(*values), EXCHANGE_DTYPE)
    assert EXCHANGE_DTYPE.names == tuple(field.name for field in EXCHANGE.fields)
    assert list(row) == values
    assert NAME_DTYPE.itemsize == EXCHANGE_DTYPE.itemsize == EXCHANGE.size


def test_exchanges_and_names_are_told_apart(row: Callable[..., npt.NDArray[np.void]]) -> None:
    """Records of other kinds, and a record cut short, are dropped."""
    exchange = row(name_id=7).tobytes()
    other = row(kind=99).tobytes()
    raw = _name(7, 0, b"GET\t/a") + exchange + other + exchange + exchange[:-1]
    rows, names = split_records(raw)
    assert rows["name_id"].tolist() == [7, 7]
    assert names == [(7, 0, b"GET\t/a")]


def test_exchanges_alone_are_not_copied(row: Callable[..., npt.NDArray[np.void]]) -> None:
    """The usual case is a view of the bytes."""
    raw = row().tobytes()
    rows, _ = split_records(raw)
    assert np.shares_memory(rows, np.frombuffer(raw, np.uint8))


@given(st.binary(max_size=3 * EXCHANGE.size + 5))
@settings(deadline=None)
def test_any_bytes_can_be_split(raw: bytes) -> None:
    """Hostile bytes give rows and names, never an error."""
    rows, names = split_records(raw)
    assert rows.size + len(names) <= read_records(raw).size == len(raw) // EXCHANGE.size
    Names().learn(names)


def test_a_long_name_is_put_together_from_its_parts() -> None:
    """A character that was cut in two between parts comes out whole."""
    text = "GET\t/" + "ä" * 200
    raw = text.encode()
    width = NAME.size - 12
    parts = [(3, index, raw[at : at + width]) for index, at in enumerate(range(0, 405, width))]
    names = Names()
    names.learn(parts)
    assert names.label(3) == ("GET", "/" + "ä" * 200)
    names.learn(parts)  # a journal's next file repeats it
    assert names.label(3) == ("GET", "/" + "ä" * 200)


def test_names_that_were_never_written_or_are_odd() -> None:
    """An unknown id gets a name that says so; a part out of order is dropped; no tab, no name."""
    names = Names()
    assert names.label(17) == ("?", "name 17")
    names.learn([(17, 1, b"lost"), (18, 0, b"GET"), (19, 0, b"\xff\t\xfe"), (20, 0, b"a\tb\tc")])
    assert names.label(17) == ("?", "name 17")
    assert names.label(18) == ("GET", "")
    assert names.label(19) == ("\ufffd", "\ufffd")
    assert names.label(20) == ("a", "b\tc")


def test_a_name_learnt_later_replaces_the_placeholder() -> None:
    """Asking for a name too early does not fix it."""
    names = Names()
    names.label(0)
    names.learn([(0, 0, b"GET\t/")])
    assert names.label(0) == ("GET", "/")


def test_a_real_journal_is_read(tmp_path: Path) -> None:
    """What the journal writer writes comes out as rows and names."""
    writer = JournalWriter(tmp_path, "generator", {})
    number = writer.name_id("POST\t/orders")
    values = [0] * (len(EXCHANGE.fields) - 9 - 3 - 2)
    writer.append(Kind.EXCHANGE, 6, number, *values[:-1], EMPTY, 200, 1)
    writer.close()
    rows, parts = split_records(read_segment(journal_files(tmp_path)[0]).records)
    names = Names()
    names.learn(parts)
    assert names.label(int(rows["name_id"][0])) == ("POST", "/orders")
    assert rows["status"].tolist() == [200]


def test_a_journal_of_a_service_is_read(tmp_path: Path) -> None:
    """Its records have a layout, and its names a width, of their own."""
    writer = JournalWriter(tmp_path, "service", {}, layout=SERVED)
    name = "/" + "ä" * 200
    number = writer.name_id(f"GET\t{name}")
    writer.append(Kind.SERVED, 1, number, *[0] * (len(SERVED.fields) - 6), 404, 0)
    writer.close()
    segment = read_segment(journal_files(tmp_path)[0])
    rows, parts = split_records(segment.records, segment.layout)
    names = Names()
    names.learn(parts)
    assert rows.dtype == SERVED_DTYPE
    assert rows["status"].tolist() == [404]
    assert names.label(int(rows["name_id"][0])) == ("GET", name)


@given(st.binary(max_size=3 * SERVED.size + 5))
@settings(deadline=None)
def test_any_bytes_can_be_split_as_a_service_s(raw: bytes) -> None:
    """Hostile bytes, one of them made a name, give rows and names, never an error."""
    raw += name_layout(SERVED.size).struct.pack(Kind.NAME, 0, 1, b"x", 1)
    rows, names = split_records(raw, SERVED)
    assert rows.size + len(names) <= len(raw) // SERVED.size
