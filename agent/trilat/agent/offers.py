"""Offers: the files of a service's journal directory as they are given to who collects them.

Both kinds of file only ever grow at their end, so what was read of one once stays its beginning.
An offer's tag, `FileTag`, says which file it is and how much of it: who has the first bytes of a
file can tell from them alone whether a longer one begins with what he has.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import ExitStack, suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from .errors import InputError
from .files import open_regular, read_up_to
from .layout import SERVED, Kind
from .samples import MAX_LINE_BYTES
from .segment import HEADER_SIZE, read_head

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

__all__ = [
    "FILES_MAX",
    "FILES_SCHEMA",
    "HEAD_BYTES",
    "FileKind",
    "FileTag",
    "Offer",
    "Window",
    "head_identity",
    "kind_of",
    "list_offers",
    "open_offer",
]

FILES_SCHEMA = "trilat.files/1"
"""Name and version of the listing."""
FILES_MAX = 5000
"""A listing has no more files; those that end last stay. A directory of a gigabyte has 130."""
FileKind = Literal["journal", "samples"]
_KINDS: dict[str, FileKind] = {"trilat": "journal", "jsonl": "samples"}
HEAD_BYTES = max(HEADER_SIZE, 2 * MAX_LINE_BYTES)
"""Bytes of a file's beginning that are enough for `head_identity`, and for the first sample."""
_NAME = re.compile(r"service-[A-Za-z0-9._-]{1,120}\.(trilat|jsonl)", re.ASCII)
_TAG = re.compile(r'"([0-9a-f]{16})-(0|[1-9][0-9]{0,14})"', re.ASCII)
_SERVED = SERVED.struct
_RECORDS_PIECE = 512 * _SERVED.size
_FIELDS = [field.name for field in SERVED.fields]
_CALLED_AT, _END_AT, _APP_AT = map(_FIELDS.index, ("called_wall_ns", "end_ns", "app_ns"))


class FileTag(NamedTuple):
    """Which file, and how many bytes of it; as text it is an entity tag of HTTP."""

    identity: str
    bytes: int

    def __str__(self) -> str:
        return f'"{self.identity}-{self.bytes}"'

    def covers(self, other: FileTag) -> bool:
        """Whether it is the same file, with all of the other's bytes."""
        return self.identity == other.identity and self.bytes >= other.bytes

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The tag that a text stands for; None where it stands for none."""
        found = _TAG.fullmatch(text)
        return None if found is None else cls(found[1], int(found[2]))


class Window(NamedTuple):
    """From when to when, nanoseconds since the epoch; None leaves an end open."""

    from_ns: int | None = None
    to_ns: int | None = None

    def meets(self, first_ns: int, last_ns: int) -> bool:
        """Whether the time from the first to the last has a moment in the window."""
        return (self.from_ns is None or last_ns >= self.from_ns) and (
            self.to_ns is None or first_ns <= self.to_ns
        )


class Offer(NamedTuple):
    """One file, as far as it was written when it was looked at.

    Attributes:
        name: without a folder; see `kind_of`.
        kind: what it holds.
        tag: which file it is, and the bytes of it that are written: whole records, whole lines.
        first_wall_ns: of a journal, when the request of its first record came; of samples, the
            time of the first.
        last_wall_ns: of a journal, when the answer of its last record ended; of samples, the time
            of the last.
    """

    name: str
    kind: FileKind
    tag: FileTag
    first_wall_ns: int
    last_wall_ns: int


def kind_of(name: str) -> FileKind | None:
    """What a file of this name holds; None for a name that no file of a service has."""
    found = _NAME.fullmatch(name)
    return None if found is None else _KINDS[found[1]]


def head_identity(kind: FileKind, head: bytes) -> str | None:
    """Tells a file from all others by its beginning, which is written once.

    Args:
        kind: of the file.
        head: its first `HEAD_BYTES`, or what there is.

    Returns:
        16 hexadecimal digits: the BLAKE2b hash, of 8 bytes, of a journal's header or of the first
        line of samples; None where that is not whole.
    """
    size = HEADER_SIZE if kind == "journal" else head.find(b"\n", 0, MAX_LINE_BYTES) + 1
    if not 0 < size <= len(head):
        return None
    return blake2b(head[:size], digest_size=8).hexdigest()


def list_offers(directory: Path | None, window: Window) -> list[Offer]:
    """The files of a directory that hold something of a time, by name.

    Only each file's beginning and end are read. A file whose first request came after the window
    is left out, though it may tell of an earlier one that took until then; files without records
    or samples are left out too.

    Args:
        directory: where; None, or one that is missing, has no files.
        window: the time that is asked for.

    Raises:
        OSError: the directory cannot be read.
    """
    if directory is None or not directory.is_dir():
        return []
    found = [
        offer
        for path in directory.iterdir()
        if (offer := _look(path)) is not None
        and window.meets(offer.first_wall_ns, offer.last_wall_ns)
    ]
    found.sort(key=lambda offer: offer.last_wall_ns)
    return sorted(found[-FILES_MAX:])


def open_offer(directory: Path | None, name: str) -> tuple[FileIO, Offer] | None:
    """Open one of the files that `list_offers` gives; None where there is no such file.

    The caller closes it. What is written after the call is not of the offer.
    """
    if directory is None or kind_of(name) is None:
        return None
    with suppress(InputError, OSError), ExitStack() as stack:
        file = stack.enter_context(open_regular(directory / name))
        if (offer := _describe(directory / name, file)) is not None:
            stack.pop_all()
            return file, offer
    return None


def _look(path: Path) -> Offer | None:
    """What a file offers; None where it is none of a service's, damaged, or gone again."""
    if kind_of(path.name) is None:
        return None
    with suppress(InputError, OSError), open_regular(path) as file:
        return _describe(path, file)
    return None


def _describe(path: Path, file: FileIO) -> Offer | None:
    kind = kind_of(path.name)
    assert kind is not None, "the caller has looked"
    head = _read(file, 0, HEAD_BYTES)
    identity = head_identity(kind, head)
    if identity is None:
        return None
    if kind == "samples":
        end = _end_of_lines(file)
        times = _times_of_samples(file, head, end)
    else:
        found = read_head(path)
        end = found.written_bytes
        times = _times_of_records(file, end) if found.layout is SERVED else None
    return None if times is None else Offer(path.name, kind, FileTag(identity, end), *times)


def _times_of_records(file: FileIO, end: int) -> tuple[int, int] | None:
    """When the first record's request came, and when the last one's answer ended."""
    places = range(HEADER_SIZE, end, _RECORDS_PIECE)
    first = _record(file, places, end, 1)
    last = _record(file, places[::-1], end, -1)
    if first is None or last is None:
        return None
    return first[_CALLED_AT], last[_CALLED_AT] + max(last[_END_AT], last[_APP_AT], 0)


def _record(file: FileIO, places: range, end: int, order: int) -> tuple[int, ...] | None:
    """The first record that is no text, in pieces of a file; ``order`` -1 looks from behind."""
    for place in places:
        raw = _read(file, place, min(_RECORDS_PIECE, end - place))
        whole = len(raw) // _SERVED.size * _SERVED.size
        for record in list(_SERVED.iter_unpack(raw[:whole]))[::order]:
            if record[0] == Kind.SERVED:
                return record
    return None


def _end_of_lines(file: FileIO) -> int:
    """Bytes of a file up to the end of its last whole line."""
    size = os.fstat(file.fileno()).st_size
    start = max(size - MAX_LINE_BYTES, 0)
    return start + _read(file, start, size - start).rfind(b"\n") + 1


def _times_of_samples(file: FileIO, head: bytes, end: int) -> tuple[int, int] | None:
    """The times of the first sample and of the last."""
    lines = head[:end].split(b"\n", 2)
    start = max(end - MAX_LINE_BYTES, 0)
    last = _read(file, start, end - start)[:-1].rpartition(b"\n")[2]
    try:
        first_s, last_s = (json.loads(line)["wall_s"] for line in (lines[1], last))
        return round(first_s * 1e9), round(last_s * 1e9)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError):
        return None  # there is none yet, or it is none of ours


def _read(file: FileIO, start: int, size: int) -> bytes:
    """So many bytes of a file, or what there is."""
    file.seek(start)
    return read_up_to(file, size)
