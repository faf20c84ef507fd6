"""Reading of journal files, also of those that are being written or whose writer was killed.

Files are hostile input: they may come from another machine, end anywhere and hold anything. What is
read is bounded, and what comes out is whole records or a `JournalError`.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from struct import Struct
from typing import Any

from .errors import InputError, JournalError
from .files import open_regular, read_up_to
from .layout import LAYOUTS, RecordLayout, describe_kinds

__all__ = [
    "HEADER_SIZE",
    "MAGIC",
    "SEGMENT_BYTES_MAX",
    "SUFFIX",
    "Segment",
    "SegmentHead",
    "journal_files",
    "read_head",
    "read_segment",
]

MAGIC = b"TRILAT-JOURNAL 1\n"
"""What each journal file begins with."""
HEADER_SIZE = 4096
"""Bytes before the first record."""
SEGMENT_BYTES_MAX = 64 * 2**20
"""No file is larger; a larger one is not read."""
SUFFIX = ".trilat"
"""What the names of journal files end in."""
_COMMIT = Struct("<I")


def _shapes(kinds: Mapping[str, Any]) -> dict[str, list[list[str]]]:
    """Names and types of the fields of each kind; their units are for people."""
    return {kind: [field[:2] for field in fields] for kind, fields in kinds.items()}


_KNOWN = [(layout, _shapes(describe_kinds(layout))) for layout in LAYOUTS]


@dataclass(frozen=True, slots=True)
class Segment:
    """One journal file as it was when it was read.

    Attributes:
        path: the file.
        facts: what its header says.
        layout: of its records; texts stand between them (`trilat.agent.layout.name_layout`).
        records: whole records, raw.
    """

    path: Path
    facts: Mapping[str, Any]
    layout: RecordLayout
    records: bytes


@dataclass(frozen=True, slots=True)
class SegmentHead:
    """What is known of a journal file without reading its records.

    Attributes:
        path: the file.
        facts: what its header says.
        layout: of its records.
        count: how many whole records, texts too, were written when it was looked at.
    """

    path: Path
    facts: Mapping[str, Any]
    layout: RecordLayout
    count: int

    @property
    def written_bytes(self) -> int:
        """Bytes of the file that are written: its header and whole records."""
        return HEADER_SIZE + self.count * self.layout.size


def journal_files(directory: Path) -> list[Path]:
    """The journal files of a directory in the order in which they were written.

    Empty ones are left out: their writer was killed before it could begin.
    """
    return sorted(path for path in directory.glob(f"*{SUFFIX}") if not _is_empty(path))


def read_segment(path: Path) -> Segment:
    """Read one file, also while it is being written or after its writer was killed.

    Raises:
        JournalError: not a journal, too large for one, or of a version or layout that this release
            does not know.
    """
    with _opened(path) as file:
        head = _read_head(file, path)
        file.seek(HEADER_SIZE)
        raw = read_up_to(file, head.written_bytes - HEADER_SIZE)
    size = head.layout.size
    return Segment(path, head.facts, head.layout, raw[: len(raw) // size * size])


def read_head(path: Path) -> SegmentHead:
    """Read a file's header and see how far it is written.

    Raises:
        JournalError: as `read_segment`.
    """
    with _opened(path) as file:
        return _read_head(file, path)


def _is_empty(path: Path) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False  # whoever reads it says what is wrong
    return stat.S_ISREG(found.st_mode) and not found.st_size


@contextmanager
def _opened(path: Path) -> Iterator[FileIO]:
    """A file that has the size of a journal's at most."""
    try:
        with open_regular(path, follow=True) as file:
            size = os.fstat(file.fileno()).st_size
            if size > SEGMENT_BYTES_MAX:
                raise JournalError(
                    f"{path}: {size} bytes; no journal file has more than {SEGMENT_BYTES_MAX}"
                )
            yield file
    except JournalError:
        raise
    except InputError as error:
        raise JournalError(str(error)) from error
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror or error}") from error


def _read_head(file: FileIO, path: Path) -> SegmentHead:
    raw = read_up_to(file, HEADER_SIZE)
    if not raw.startswith(MAGIC):
        raise JournalError(f"{path}: not a trilat journal (version 1)")
    try:
        facts = json.loads(raw[len(MAGIC) :])
        size, shapes = facts["record_size"], _shapes(facts["kinds"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise JournalError(f"{path}: damaged header") from error
    for layout, known in _KNOWN:
        if size == layout.size and shapes == known:
            return SegmentHead(path, facts, layout, _count_records(file, layout.size))
    raise JournalError(f"{path}: records of a layout that this release does not know")


def _count_records(file: FileIO, size: int) -> int:
    """Records up to the first whose sequence number was not written.

    Records are written in order by one writer, so the written ones are a prefix: bisect.
    """
    low, high = 0, max(os.fstat(file.fileno()).st_size - HEADER_SIZE, 0) // size
    while low < high:
        middle = (low + high) // 2
        file.seek(HEADER_SIZE + (middle + 1) * size - _COMMIT.size)
        if read_up_to(file, _COMMIT.size) == _COMMIT.pack(middle + 1):
            low = middle + 1
        else:
            high = middle
    return low
