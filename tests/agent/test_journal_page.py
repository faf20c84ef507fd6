"""docs/journal.md says what a journal is, byte for byte, and its reader reads one."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from enum import IntFlag
from pathlib import Path
from typing import Any

import pytest

from trilat.agent.journal import JournalWriter
from trilat.agent.layout import EXCHANGE, NAME, SERVED, Kind, MarkFlag, RecordLayout, ServedFlag
from trilat.agent.segment import HEADER_SIZE, MAGIC, SEGMENT_BYTES_MAX, journal_files

PAGE = (Path(__file__).parents[2] / "docs/journal.md").read_text()
TYPES = {"H": "u16", "I": "u32", "Q": "u64", "i": "i32", "q": "i64"}

ReadJournal = Callable[[Path], Iterator[tuple[str, str, dict[str, Any]]]]


def _section(title: str) -> str:
    (found,) = re.findall(rf"^## [^\n]*{title}[^\n]*\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.M)
    return str(found)


@pytest.mark.parametrize(
    ("title", "layout"), [("EXCHANGE", EXCHANGE), ("SERVED", SERVED), ("Texts", NAME)]
)
def test_tables_of_the_page_are_the_layouts(title: str, layout: RecordLayout) -> None:
    """Offset, type and name of every field, in order, and the size of the whole."""
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \| `(\w+)` \| \S", _section(title), re.M)
    expected, at = [], 0
    for field in layout.fields:
        kind = TYPES.get(field.format) or f"{field.format[:-1]} bytes"
        expected.append((str(at), kind, field.name))
        at += struct.calcsize(f"<{field.format}")
    assert rows == expected
    assert at == layout.size
    assert f"is {layout.size}" in _section(title) or layout is NAME


@pytest.mark.parametrize(
    ("title", "flags", "kind"),
    [("EXCHANGE", MarkFlag, Kind.EXCHANGE), ("SERVED", ServedFlag, Kind.SERVED)],
)
def test_flags_of_the_page_are_all_there_are(title: str, flags: type[IntFlag], kind: Kind) -> None:
    """Value and name of each, and the number of the kind."""
    rows = re.findall(r"^\| (\d+) \| `([A-Z]+)` \| \w", _section(title), re.M)
    assert rows == [(str(int(flag)), flag.name) for flag in flags]
    assert f"kind {int(kind)}, `{title}`" in PAGE
    assert f"`kind` | {int(kind)} |" in _section(title)


def test_figures_of_the_page_are_ours() -> None:
    """The magic, the header's size, the largest file and the width of texts."""
    assert f"`{MAGIC.decode().strip()}`" in PAGE
    assert f"from {HEADER_SIZE}" in PAGE
    assert f"{SEGMENT_BYTES_MAX // 2**20} MiB" in PAGE
    assert f"{EXCHANGE.size - 12} bytes beside `EXCHANGE`" in PAGE
    assert f"{SERVED.size - 12} beside `SERVED`" in PAGE


@pytest.fixture(scope="module")
def read_journal() -> ReadJournal:
    """The reader that the page shows, which knows nothing of this package."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.M)
    assert "trilat." not in code
    names: dict[str, Any] = {}
    exec(code, names)  # the page's own lines
    reader: ReadJournal = names["read_journal"]
    return reader


def _values(layout: RecordLayout, number: int, name_id: int) -> dict[str, int]:
    """A value of its own for each field that has no meaning for the reader."""
    given = {"kind": int(layout.kind), "name_id": name_id}
    return {
        field.name: given.get(field.name, number + place)
        for place, field in enumerate(layout.fields[:-1])
    }


@pytest.mark.parametrize("layout", [EXCHANGE, SERVED], ids=["exchange", "served"])
def test_reader_of_the_page_reads_a_journal(
    layout: RecordLayout, tmp_path: Path, read_journal: ReadJournal
) -> None:
    """While it is written and afterwards: every field of every record, and long texts too."""
    writer = JournalWriter(tmp_path, "x", {"pid": 1}, layout=layout, segment_bytes=30_000)
    expected = []
    for number in range(400):
        name = f"/{number % 7}/" + "ä" * 40 * (number % 7)
        values = _values(layout, number, writer.name_id(f"GET\t{name}"))
        packed = layout.struct.pack(*values.values(), 0)
        writer.append(*layout.packer.unpack(packed)[:-1])
        expected.append(("GET", name, values))

    def read() -> list[tuple[str, str, dict[str, int]]]:
        return [
            (method, name, {key: value for key, value in fields.items() if key != "commit"})
            for path in journal_files(tmp_path)
            for method, name, fields in read_journal(path)
        ]

    assert len(journal_files(tmp_path)) > 1
    assert read() == expected
    writer.close()
    assert read() == expected


def test_reader_of_the_page_refuses_another_file(tmp_path: Path, read_journal: ReadJournal) -> None:
    """What does not begin as the page says is no journal."""
    (tmp_path / "x").write_bytes(b"TRILAT-JOURNAL 2\n")
    with pytest.raises(ValueError, match="not a journal"):
        list(read_journal(tmp_path / "x"))
