"""The journal: fixed-width records in memory-mapped files, one file series a process.

What was written survives the process, however it ends, since the pages belong to the kernel. Each
record ends in a sequence number that is written last, so a record cut short by a kill is seen as
such. Files are reserved on disk before they are mapped: a full disk is an error at a known moment,
not a signal in the middle of a request. The number of files is bounded, and their age where asked
for; the oldest goes first. `trilat.agent.segment` reads what is written here.
"""

from __future__ import annotations

import errno
import json
import logging
import mmap
import os
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from .clock import SYSTEM_CLOCK, Clock
from .errors import JournalError
from .files import try_lock
from .layout import EXCHANGE, NAME_OVERHEAD, Kind, RecordLayout, describe_kinds, name_layout
from .native import start_thread
from .segment import HEADER_SIZE, MAGIC, SEGMENT_BYTES_MAX, SUFFIX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["OTHER", "JournalWriter"]

OTHER = "*\t(other)"
"""The text (method, tab, name) of what has a text of its own no more."""
_NAME = int(Kind.NAME)
_RECORDS_MIN = 16
_LOOK_EVERY = 64  # records between two looks at the clock
_AGES = 8  # files that a maximum age is divided into

logger = logging.getLogger("trilat.journal")


class JournalWriter:
    """Appends the records of one side, and the texts they point to, to a bounded series of files.

    Where the directory cannot be written, or the disk fills, records go to memory of the same
    bound: one warning, `lost_to_disk` counts them, and the caller goes on untouched. So do the
    records of a file that somebody removes; it is looked for every 64 records where there is a
    maximum age, else when it is full. One thread
    (or one greenlet hub) writes; a process that forks makes its writer after the fork.

    Args:
        directory: where the files go; it must exist.
        stem: start of each file's name, unique to this process.
        facts: what the header says of the writer (run, host, process); JSON values.
        segment_bytes: size of one file, `SEGMENT_BYTES_MAX` at most.
        max_segments: how many files stay; older ones are deleted and counted in
            `dropped_segments`. As many segments wait for `take_new`; where nobody takes, the
            oldest go and are counted in `dropped_untaken`.
        layout: of the records.
        max_age_s: how long a record stays on disk, in seconds: as long as records come, at most
            that and at least seven eighths of it. Files that go for it are counted in
            `dropped_segments`. None: for as long as there is room.
        keep_new: whether full files are set aside for `take_new`. Where nobody takes, False saves
            the memory; `take_new` then gives what the open file holds.
        delete_in_thread: whether files that go are deleted by a thread of their own: it takes
            milliseconds, for which an event loop should not wait.
        clock: tells the files' age.

    Attributes:
        buffer: the open file; another one after each call of `ready` or `append`.
        pack_into: writes a record into it.
        commit: the number that the next record ends with.

    Raises:
        JournalError: the facts do not fit the file's header.
    """

    def __init__(  # noqa: PLR0913 - options, by keyword
        self,
        directory: Path,
        stem: str,
        facts: Mapping[str, Any],
        *,
        segment_bytes: int = 8 * 2**20,
        max_segments: int = 64,
        layout: RecordLayout = EXCHANGE,
        max_age_s: float | None = None,
        keep_new: bool = True,
        delete_in_thread: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._directory = directory
        self._stem = stem
        self._facts = dict(facts)
        self._layout = layout
        self._size = layout.size
        self.pack_into = layout.packer.pack_into
        self._pack_name_into = name_layout(self._size).struct.pack_into
        room = min(segment_bytes, SEGMENT_BYTES_MAX) - HEADER_SIZE
        self._per_segment = max(room // self._size, _RECORDS_MIN)
        self._max_segments = max_segments
        self._max_age_ns = None if max_age_s is None else round(max_age_s * 1e9)
        self._keep_new = keep_new
        self._delete = _delete_in_thread if delete_in_thread else _delete
        self._now_ns = clock.monotonic_ns
        self._segment = 0
        self._closed: deque[tuple[Path, int]] = deque()
        self._names: dict[str, int] = {}
        self._name_records = 0
        self._pending: deque[bytes] = deque()
        self._path: Path | None
        self.buffer: mmap.mmap
        self._offset = self._taken = HEADER_SIZE
        self.commit = 1
        self._look_at = self._opened_ns = 0
        self._warned = False
        self.dropped_segments = 0
        self.dropped_untaken = 0
        self.lost_to_disk = 0
        self._open_segment()

    def append(self, *values: Any) -> None:
        """Write one record: the fields of the layout's ``packer`` without ``commit``.

        Raises:
            struct.error: a value does not fit its field.
        """
        at = self.ready()
        self.pack_into(self.buffer, at, *values, self.commit)
        self.wrote()

    def ready(self) -> int:
        """Where in ``buffer`` the next record goes.

        For where a record is written so often that `append` costs too much, as it builds a tuple
        and a list of the values::

            at = journal.ready()
            journal.pack_into(journal.buffer, at, *values, journal.commit)
            journal.wrote()
        """
        if self.commit > self._look_at:
            self._look()
        return self._offset

    def wrote(self) -> None:
        """The record that `ready` made room for is written."""
        self._offset += self._size
        self.commit += 1
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
            taken.append(self.buffer[self._taken : self._offset])
            self._taken = self._offset
        return taken

    def begin_file(self, facts: Mapping[str, Any]) -> None:
        """Go on in a new file, whose header and those of all later ones say this, too."""
        self._facts |= facts
        self._roll()

    def close(self) -> None:
        """Cut the last file to its length; what was not taken stays for `take_new`."""
        self._set_aside()
        self._finish_segment()

    def _learn(self, text: str) -> int:
        parts = self._parts(text)
        room = self._per_segment // 4 - 1  # one record is kept for OTHER
        if self._name_records + len(parts) > room and text != OTHER:
            return self.name_id(OTHER)
        if self.commit + len(parts) > self._per_segment + 1:
            self._roll()
        number = self._names[text] = len(self._names)
        self._name_records += len(parts)
        self._write_name(number, parts)
        return number

    def _write_name(self, number: int, parts: list[bytes]) -> None:
        for part, raw in enumerate(parts):
            values = (_NAME, part, number, raw)
            self._pack_name_into(self.buffer, self._offset, *values, self.commit)
            self._offset += self._size
            self.commit += 1

    def _parts(self, text: str) -> list[bytes]:
        raw = text.encode(errors="replace")
        width = self._size - NAME_OVERHEAD
        return [raw[start : start + width] for start in range(0, max(len(raw), 1), width)]

    def _look(self) -> None:
        """Begin a new file where this one is full, old or gone; drop those that are too old."""
        if self._path is not None and not os.path.lexists(self._path):
            self._warn(f"{self._path} was removed while it was written")
            self.lost_to_disk += self.commit - 1
            self._roll()
        elif self.commit > self._per_segment or self._is_older(self._opened_ns, eighths=1):
            self._roll()
        else:
            self._drop_oldest(keep=self._max_segments)
            self._plan_look()

    def _plan_look(self) -> None:
        soon = self._per_segment if self._max_age_ns is None else self.commit - 1 + _LOOK_EVERY
        self._look_at = min(soon, self._per_segment)

    def _is_older(self, since_ns: int, *, eighths: int) -> bool:
        """Whether that many eighths of the maximum age have gone by."""
        if self._max_age_ns is None:
            return False
        return self._now_ns() - since_ns > self._max_age_ns * eighths // _AGES

    def _roll(self) -> None:
        self._set_aside()
        self._finish_segment()
        self._open_segment()
        for text, number in self._names.items():  # each file can be read by itself
            self._write_name(number, self._parts(text))
        self._plan_look()

    def _set_aside(self) -> None:
        if self._keep_new and self._offset > self._taken:
            self._pending.append(self.buffer[self._taken : self._offset])
            self._taken = self._offset
        if len(self._pending) > self._max_segments:
            self._pending.popleft()
            self.dropped_untaken += 1

    def _open_segment(self) -> None:
        self._segment += 1
        size = HEADER_SIZE + self._per_segment * self._size
        path = self._directory / f"{self._stem}-{self._segment:06d}{SUFFIX}"
        self._drop_oldest(keep=self._max_segments - 1)
        header = self._header()
        try:
            self.buffer = _map_file(path, size, header)
        except OSError as error:
            self._warn(f"no journal on disk, going on in memory: {error}")
            self._path = None
            self.buffer = mmap.mmap(-1, size)
        else:
            self._path = path
        self._offset = self._taken = HEADER_SIZE
        self.commit = 1
        self._opened_ns = self._now_ns()
        self._plan_look()

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("%s", text)

    def _header(self) -> bytes:
        described = {
            **self._facts,
            "record_size": self._size,
            "kinds": describe_kinds(self._layout),
            "segment": self._segment,
            "dropped_segments": self.dropped_segments,
        }
        text = MAGIC + json.dumps(described).encode() + b"\n"
        if len(text) > HEADER_SIZE:
            raise JournalError(f"journal header of {len(text)} bytes; at most {HEADER_SIZE}")
        return text.ljust(HEADER_SIZE, b" ")

    def _drop_oldest(self, *, keep: int) -> None:
        """Delete closed files until no more than ``keep`` are left and none is too old."""
        closed, gone = self._closed, []
        while closed and (len(closed) > keep or self._is_older(closed[0][1], eighths=_AGES - 1)):
            gone.append(closed.popleft()[0])
        if gone:
            self.dropped_segments += len(gone)
            self._delete(gone)

    def _finish_segment(self) -> None:
        self.buffer.close()
        if self._path is not None:
            with suppress(OSError):  # somebody removed the file: there is nothing to cut
                os.truncate(self._path, self._offset)
            self._closed.append((self._path, self._now_ns()))


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):  # somebody else was quicker
            path.unlink()


def _delete_in_thread(paths: Iterable[Path]) -> None:
    try:
        start_thread(partial(_delete, paths))
    except RuntimeError:  # the system has no thread left
        _delete(paths)


def _map_file(path: Path, size: int, header: bytes) -> mmap.mmap:
    """Make a file, reserve its room and map it.

    The header comes first, by one call: whenever the process is killed, a file that is not empty
    has its header. The lock stays as long as the mapping, and tells those who clear up that the
    file is being written; it is there before the file has anything to look at.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with suppress(OSError):  # there are file systems without locks
            try_lock(descriptor)
        if os.write(descriptor, header) < len(header):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
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
