"""`Landing`: where a file of a service lands in a run's directory, in part or whole."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from trilat.agent.errors import InputError
from trilat.agent.layout import SERVED
from trilat.agent.offers import HEAD_BYTES, FileKind, FileTag, head_identity
from trilat.agent.samples import MAX_FILE_BYTES, read_samples
from trilat.agent.segment import SEGMENT_BYTES_MAX, read_head

if TYPE_CHECKING:
    from pathlib import Path

    from .rundir import RunDirectory

__all__ = ["BYTES_MAX", "Landing"]

BYTES_MAX: dict[FileKind, int] = {"journal": SEGMENT_BYTES_MAX, "samples": MAX_FILE_BYTES}
"""No file of a kind is larger."""


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

    def held(self) -> FileTag | None:
        """The tag of the file that is there already; None where there is none."""
        return _tag(self.path, self.kind)

    def prepare(self, tag: FileTag) -> FileTag | None:
        """Make ready for a file's bytes.

        Returns:
            What the part holds of this file, to go on from there; None where it is to come from
            its beginning.

        Raises:
            OSError: what was there cannot be copied.
        """
        held = _tag(self.part, self.kind)
        if held is not None and held.identity == tag.identity:
            return held
        held = self.held()
        if held is not None and held.identity == tag.identity:  # it has grown since
            shutil.copyfile(self.path, self.part)
            return held
        return None

    def settle(self) -> FileTag:
        """Read the part, and make it the file.

        Returns:
            The tag of what it is.

        Raises:
            InputError: it is not what it should be; it is removed.
            OSError: it cannot take its place.
        """
        try:
            self._check()
        except InputError:
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


def _tag(path: Path, kind: FileKind) -> FileTag | None:
    """The tag of what a file here holds; None where that is not enough to tell."""
    try:
        with path.open("rb") as file:
            identity = head_identity(kind, file.read(HEAD_BYTES))
        return None if identity is None else FileTag(identity, path.stat().st_size)
    except OSError:
        return None
