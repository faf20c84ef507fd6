"""The journal: fixed-width records in memory-mapped files, one file series a process.

What was written survives the process, however it ends, since the pages belong to the kernel. Each
record ends in a sequence number that is written last, so a record cut short by a kill is seen as
such. Files are reserved on disk before they are mapped: a full disk is an error at a known moment,
not a signal in the middle of a request. The number of files is bounded; the oldest goes first.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

from .errors import JournalError
from .layout import EXCHANGE, NAME, RecordLayout

__all__ = ["HEADER_SIZE", "JournalWriter", "Segment", "journal_files", "read_segment"]

MAGIC = b"TRILAT-JOURNAL 1\n"
HEADER_SIZE = 4096
SUFFIX = ".trilat"
_COMMIT = Struct("<I")
_MASK = 0xFFFFFFFF

logger = logging.getLogger("trilat.journal")


class JournalWriter:
    """Appends records of one layout to a bounded series of files.

    Where the directory cannot be written, or the disk fills, records go to memory of the same
    bound: one warning, `lost_to_disk` counts them, and the caller goes on untouched.

    Args:
        directory: where the files go; it must exist.
        stem: start of each file's name, unique to this process.
        facts: what the header says of the writer (run, host, process); JSON values.
        layout: the records' layout.
        segment_bytes: size of one file.
        max_segments: how many files stay; older ones are deleted and counted in
            `dropped_segments`.
    """

    def __init__(
        self,
        directory: Path,
        stem: str,
        facts: Mapping[str, Any],
        layout: RecordLayout = EXCHANGE,
        *,
        segment_bytes: int = 8 * 2**20,
        max_segments: int = 64,
    ) -> None:
        self._directory = directory
        self._stem = stem
        self._facts = dict(facts)
        self._layout = layout
        self._struct = layout.packer
        self._name_struct = NAME.struct
        self._per_segment = max((segment_bytes - HEADER_SIZE) // layout.size, 4)
        self._max_segments = max_segments
        self._segment = 0
        self._files: list[Path] = []
        self._names: dict[str, int] = {}
        self._pending: list[bytes] = []
        self.dropped_segments = 0
        self.lost_to_disk = 0
        self._open_segment()

    def append(self, *values: Any) -> None:
        """Write one record: the fields of the layout's ``packer`` without ``commit``.

        Raises:
            struct.error: a value does not fit its field.
        """
        if self._count >= self._per_segment:
            self._roll()
        self._struct.pack_into(self._map, self._offset, *values, self._count + 1 & _MASK)
        self._offset += self._struct.size
        self._count += 1
        if self._path is None:
            self.lost_to_disk += 1

    def name_id(self, text: str) -> int:
        """The number that stands for a text; written to the journal at its first use."""
        known = self._names.get(text)
        if known is None:
            known = self._names[text] = len(self._names)
            self._write_name(known, text)
        return known

    def take_new(self) -> Iterator[bytes]:
        """Whole records written since the last call, in order, as raw bytes."""
        pending, self._pending = self._pending, []
        yield from pending
        if self._offset > self._taken:
            fresh = self._map[self._taken : self._offset]
            self._taken = self._offset
            yield fresh

    def close(self) -> None:
        """Cut the last file to its length; what was not taken stays for `take_new`."""
        if self._offset > self._taken:
            self._pending.append(self._map[self._taken : self._offset])
            self._taken = self._offset
        self._finish_segment()

    def _write_name(self, number: int, text: str) -> None:
        raw = text.encode(errors="replace")
        width = NAME.size - 12
        for part, start in enumerate(range(0, max(len(raw), 1), width)):
            if self._count >= self._per_segment:
                self._roll()
            values = (NAME.kind, part, number, raw[start : start + width])
            self._name_struct.pack_into(self._map, self._offset, *values, self._count + 1 & _MASK)
            self._offset += self._struct.size
            self._count += 1

    def _roll(self) -> None:
        self._pending.append(self._map[self._taken : self._offset])
        self._finish_segment()
        self._open_segment()
        for text, number in self._names.items():  # each file can be read by itself
            self._write_name(number, text)

    def _open_segment(self) -> None:
        self._segment += 1
        size = HEADER_SIZE + self._per_segment * self._layout.size
        self._path: Path | None = self._directory / f"{self._stem}-{self._segment:04d}{SUFFIX}"
        try:
            self._map = _map_file(self._path, size)
        except OSError as error:
            if not self.lost_to_disk:
                logger.warning("no journal on disk, going on in memory: %s", error)
            self._path = None
            self._map = mmap.mmap(-1, size)
        else:
            self._files.append(self._path)
            self._drop_oldest()
        self._map[:HEADER_SIZE] = self._header()
        self._offset = self._taken = HEADER_SIZE
        self._count = 0

    def _header(self) -> bytes:
        described = {
            "record_size": self._layout.size,
            "kinds": {
                str(int(layout.kind)): layout.describe() for layout in (self._layout, NAME)
            },
            "segment": self._segment,
            "dropped_segments": self.dropped_segments,
            **self._facts,
        }
        text = MAGIC + json.dumps(described).encode() + b"\n"
        if len(text) > HEADER_SIZE:
            raise JournalError(f"journal header of {len(text)} bytes; at most {HEADER_SIZE}")
        return text.ljust(HEADER_SIZE, b" ")

    def _drop_oldest(self) -> None:
        while len(self._files) > self._max_segments:
            self._files.pop(0).unlink(missing_ok=True)
            self.dropped_segments += 1

    def _finish_segment(self) -> None:
        self._map.close()
        if self._path is not None:
            os.truncate(self._path, self._offset)


def _map_file(path: Path, size: int) -> mmap.mmap:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)
        return mmap.mmap(descriptor, size)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Segment:
    """One journal file as it was when it was read.

    Attributes:
        path: the file.
        facts: what its header says.
        records: whole records, raw; `trilat.agent.layout` says what is in them.
    """

    path: Path
    facts: Mapping[str, Any]
    records: bytes


def journal_files(directory: Path) -> list[Path]:
    """The journal files of a directory in the order in which they were written."""
    return sorted(directory.glob(f"*{SUFFIX}"))


def read_segment(path: Path) -> Segment:
    """Read one file, also while it is being written or after its writer was killed.

    Raises:
        JournalError: not a journal, or of a version or layout that this release does not know.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror}") from error
    if not raw.startswith(MAGIC):
        raise JournalError(f"{path}: not a trilat journal (version 1)")
    try:
        facts = json.loads(raw[len(MAGIC) : HEADER_SIZE])
        known = facts["record_size"] == EXCHANGE.size and facts["kinds"] == {
            str(int(layout.kind)): layout.describe() for layout in (EXCHANGE, NAME)
        }
    except (ValueError, KeyError, TypeError) as error:
        raise JournalError(f"{path}: damaged header") from error
    if not known:
        raise JournalError(f"{path}: records of a layout that this release does not know")
    return Segment(path, facts, _whole_records(raw, EXCHANGE.size))


def _whole_records(raw: bytes, size: int) -> bytes:
    """Cut at the first record whose sequence number was not written.

    Records are written in order by one writer, so the written ones are a prefix: bisect.
    """
    low, high = 0, max(len(raw) - HEADER_SIZE, 0) // size
    while low < high:
        middle = (low + high) // 2
        end = HEADER_SIZE + (middle + 1) * size
        if _COMMIT.unpack_from(raw, end - _COMMIT.size)[0] == middle + 1 & _MASK:
            low = middle + 1
        else:
            high = middle
    return raw[HEADER_SIZE : HEADER_SIZE + low * size]
