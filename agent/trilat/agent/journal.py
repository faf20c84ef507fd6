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
import stat
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any

from .errors import JournalError
from .layout import EXCHANGE, NAME

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["HEADER_SIZE", "OTHER", "JournalWriter", "Segment", "journal_files", "read_segment"]

MAGIC = b"TRILAT-JOURNAL 1\n"
HEADER_SIZE = 4096
SUFFIX = ".trilat"
OTHER = "*\t(other)"
"""The text (method, tab, name) of what has a text of its own no more."""
_COMMIT = Struct("<I")
_MASK = 0xFFFFFFFF
_KINDS = {str(int(layout.kind)): layout.describe() for layout in (EXCHANGE, NAME)}

logger = logging.getLogger("trilat.journal")


class JournalWriter:
    """Appends exchange records, and the texts they point to, to a bounded series of files.

    Where the directory cannot be written, or the disk fills, records go to memory of the same
    bound: one warning, `lost_to_disk` counts them, and the caller goes on untouched. One thread
    (or one greenlet hub) writes; a process that forks makes its writer after the fork.

    Args:
        directory: where the files go; it must exist.
        stem: start of each file's name, unique to this process.
        facts: what the header says of the writer (run, host, process); JSON values.
        segment_bytes: size of one file.
        max_segments: how many files stay; older ones are deleted and counted in
            `dropped_segments`. As many segments wait for `take_new`; where nobody takes, the
            oldest go and are counted in `dropped_untaken`.

    Raises:
        JournalError: the facts do not fit the file's header.
    """

    def __init__(
        self,
        directory: Path,
        stem: str,
        facts: Mapping[str, Any],
        *,
        segment_bytes: int = 8 * 2**20,
        max_segments: int = 64,
    ) -> None:
        self._directory = directory
        self._stem = stem
        self._facts = dict(facts)
        self._struct = EXCHANGE.packer
        self._name_struct = NAME.struct
        self._per_segment = max((segment_bytes - HEADER_SIZE) // EXCHANGE.size, 16)
        self._max_segments = max_segments
        self._segment = 0
        self._files: list[Path] = []
        self._names: dict[str, int] = {}
        self._name_records = 0
        self._pending: deque[bytes] = deque()
        self._path: Path | None
        self._map: mmap.mmap
        self._offset = self._taken = HEADER_SIZE
        self._count = 0
        self.dropped_segments = 0
        self.dropped_untaken = 0
        self.lost_to_disk = 0
        self._open_segment()

    def append(self, *values: Any) -> None:
        """Write one record: the fields of ``EXCHANGE.packer`` without ``commit``.

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
        """The number that stands for a text; written to the journal at its first use.

        Each file repeats the texts known by then, so texts may fill a quarter of a file at most;
        those that come after share the number of `OTHER`.
        """
        known = self._names.get(text)
        return self._learn(text) if known is None else known

    def take_new(self) -> list[bytes]:
        """Whole records written since the last call, in order, as pieces of raw bytes."""
        taken = list(self._pending)
        self._pending.clear()
        if self._offset > self._taken:
            taken.append(self._map[self._taken : self._offset])
            self._taken = self._offset
        return taken

    def close(self) -> None:
        """Cut the last file to its length; what was not taken stays for `take_new`."""
        self._set_aside()
        self._finish_segment()

    def _learn(self, text: str) -> int:
        parts = _name_parts(text)
        room = self._per_segment // 4 - 1  # one record is kept for OTHER
        if self._name_records + len(parts) > room and text != OTHER:
            return self.name_id(OTHER)
        if self._count + len(parts) > self._per_segment:
            self._roll()
        number = self._names[text] = len(self._names)
        self._name_records += len(parts)
        self._write_name(number, parts)
        return number

    def _write_name(self, number: int, parts: list[bytes]) -> None:
        for part, raw in enumerate(parts):
            values = (NAME.kind, part, number, raw)
            self._name_struct.pack_into(self._map, self._offset, *values, self._count + 1 & _MASK)
            self._offset += self._struct.size
            self._count += 1

    def _roll(self) -> None:
        self._set_aside()
        self._finish_segment()
        self._open_segment()
        for text, number in self._names.items():  # each file can be read by itself
            self._write_name(number, _name_parts(text))

    def _set_aside(self) -> None:
        if self._offset > self._taken:
            self._pending.append(self._map[self._taken : self._offset])
            self._taken = self._offset
        if len(self._pending) > self._max_segments:
            self._pending.popleft()
            self.dropped_untaken += 1

    def _open_segment(self) -> None:
        self._segment += 1
        size = HEADER_SIZE + self._per_segment * EXCHANGE.size
        path = self._directory / f"{self._stem}-{self._segment:06d}{SUFFIX}"
        self._drop_oldest()
        header = self._header()
        try:
            self._map = _map_file(path, size)
        except OSError as error:
            if not self.lost_to_disk:
                logger.warning("no journal on disk, going on in memory: %s", error)
            self._path = None
            self._map = mmap.mmap(-1, size)
        else:
            self._path = path
            self._files.append(path)
        self._map[:HEADER_SIZE] = header
        self._offset = self._taken = HEADER_SIZE
        self._count = 0

    def _header(self) -> bytes:
        described = {
            "record_size": EXCHANGE.size,
            "kinds": _KINDS,
            "segment": self._segment,
            "dropped_segments": self.dropped_segments,
            **self._facts,
        }
        text = MAGIC + json.dumps(described).encode() + b"\n"
        if len(text) > HEADER_SIZE:
            raise JournalError(f"journal header of {len(text)} bytes; at most {HEADER_SIZE}")
        return text.ljust(HEADER_SIZE, b" ")

    def _drop_oldest(self) -> None:
        while len(self._files) >= self._max_segments:
            with suppress(OSError):
                self._files.pop(0).unlink()
            self.dropped_segments += 1

    def _finish_segment(self) -> None:
        self._map.close()
        if self._path is not None:
            with suppress(OSError):  # somebody removed the file: there is nothing to cut
                os.truncate(self._path, self._offset)


def _name_parts(text: str) -> list[bytes]:
    raw = text.encode(errors="replace")
    width = NAME.size - 12
    return [raw[start : start + width] for start in range(0, max(len(raw), 1), width)]


def _map_file(path: Path, size: int) -> mmap.mmap:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)
        return mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))
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
        raw = _read_regular(path)
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror}") from error
    if not raw.startswith(MAGIC):
        raise JournalError(f"{path}: not a trilat journal (version 1)")
    try:
        facts = json.loads(raw[len(MAGIC) : HEADER_SIZE])
        known = facts["record_size"] == EXCHANGE.size and facts["kinds"] == _KINDS
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise JournalError(f"{path}: damaged header") from error
    if not known:
        raise JournalError(f"{path}: records of a layout that this release does not know")
    return Segment(path, facts, _whole_records(raw, EXCHANGE.size))


def _read_regular(path: Path) -> bytes:
    """Read a file that must be one: a FIFO would wait for a writer, a device may never end."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise JournalError(f"{path}: not a file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


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
