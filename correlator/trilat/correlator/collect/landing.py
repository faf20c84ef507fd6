"""`Landing`: where a file of a service lands in a run's directory, in part or whole.

A run's directory may be somebody else's work, so what lies at a file's place is not followed where
it is a link, and nothing is written into what this did not make.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from io import FileIO
from typing import TYPE_CHECKING

from trilat.agent.errors import InputError
from trilat.agent.files import open_regular, read_up_to
from trilat.agent.layout import SERVED
from trilat.agent.offers import HEAD_BYTES, FileKind, FileTag, head_identity
from trilat.agent.samples import MAX_FILE_BYTES, read_samples
from trilat.agent.segment import SEGMENT_BYTES_MAX, read_head

if TYPE_CHECKING:
    from pathlib import Path

    from trilat.correlator.run.rundir import RunDirectory

__all__ = ["BYTES_MAX", "Landing", "write_all"]

BYTES_MAX: dict[FileKind, int] = {"journal": SEGMENT_BYTES_MAX, "samples": MAX_FILE_BYTES}
"""No file of a kind is larger."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class Landing:
    """One file's place: ``NAME.part`` while it comes, ``NAME`` once it is whole and was read.

    Args:
        run: whose directory.
        kind: of the file.
        name: of the file; the caller has held it against `trilat.agent.offers.kind_of`.

    Attributes:
        path: where it is in the end.
        part: where it is before.
    """

    def __init__(self, run: RunDirectory, kind: FileKind, name: str) -> None:
        self.kind = kind
        self.path = (run.journals if kind == "journal" else run.samples) / name
        self.part = self.path.with_name(f"{name}.part")
        self._from_its_beginning = False

    def held(self) -> FileTag | None:
        """The tag of the file that is there already; None where there is none.

        Raises:
            OSError: something else is in its place, or it cannot be read.
        """
        return _tag(self.path, self.kind)

    def prepare(self, tag: FileTag) -> FileTag | None:
        """Make ready for a file's bytes.

        Args:
            tag: what there is of the file. A part that has more was not left by a collection.

        Returns:
            What the part holds of this file, to go on from there; None where it is to come from
            its beginning.

        Raises:
            OSError: what was there cannot be copied, or something else is in its place.
        """
        part = _tag(self.part, self.kind)
        if self._from_its_beginning:
            return None
        if part is not None and tag.covers(part):
            return part
        held = self.held()
        if held is not None and tag.covers(held):  # it has grown since
            with open_regular(self.path) as old, self.open_part(0) as file:
                shutil.copyfileobj(old, file)
            return _tag(self.part, self.kind)
        return None

    def open_part(self, begin: int) -> FileIO:
        """Open the part to write it from a place on; the caller closes it.

        Args:
            begin: 0 for a new part, or what `prepare` told of it.

        Raises:
            OSError: it cannot be written.
        """
        if begin == 0:
            self.part.unlink(missing_ok=True)
            return FileIO(os.open(self.part, _NEW, 0o644), "w")
        file = open_regular(self.part, write=True)
        file.seek(begin)
        return file

    def missing(self, tag: FileTag) -> int:
        """Bytes that the part lacks of a file; 0 where it is another file's by now."""
        part = _tag(self.part, self.kind)
        if part is None:  # not even its beginning
            return max(tag.bytes - self.part.stat().st_size, 0)
        return max(tag.bytes - part.bytes, 0) if part.identity == tag.identity else 0

    def settle(self) -> FileTag:
        """Read the part, and make it the file.

        Returns:
            The tag of what it is.

        Raises:
            InputError: it is not what it should be; it is removed, and the next one comes from its
                beginning.
            OSError: it cannot take its place.
        """
        try:
            self._check()
        except InputError:
            self._from_its_beginning = True
            with suppress(OSError):
                self.part.unlink()
            raise
        self.part.replace(self.path)
        tag = self.held()
        if tag is None:
            raise InputError(f"{self.path}: cannot be read back")
        return tag

    def _check(self) -> None:
        """Hold the part against its kind.

        A service that claimed to be a generator would bring requests into the run's result.
        """
        if self.kind == "samples":
            file = read_samples(self.part)
            side, whole = file.facts["side"], True
        else:
            head = read_head(self.part)
            side = head.facts.get("side") if head.layout is SERVED else "generator"
            whole = head.written_bytes == self.part.stat().st_size
        if side != "service":
            raise InputError(f"{self.path.name}: not a file of a service")
        if not whole:
            raise InputError(f"{self.path.name}: damaged: there is more than whole records")


def write_all(file: FileIO, piece: bytes) -> None:
    """Write all of a piece; one call need not take all of it.

    Raises:
        OSError: it cannot be written.
    """
    left = memoryview(piece)
    while left:
        left = left[file.write(left) :]


def _tag(path: Path, kind: FileKind) -> FileTag | None:
    """The tag of what a file here holds; None where there is none, or not enough of it to tell.

    Raises:
        OSError: no file is in its place, or it cannot be read.
    """
    try:
        with open_regular(path) as file:
            identity = head_identity(kind, read_up_to(file, HEAD_BYTES))
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return None
    except InputError as error:
        raise OSError(errno.EINVAL, "in the way, and no file; remove it", str(path)) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(
                errno.ELOOP, "a link, which is not followed; remove it", str(path)
            ) from error
        raise
    return None if identity is None else FileTag(identity, size)
