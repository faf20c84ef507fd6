"""Clearing up a service's directory after processes that have ended.

A process bounds its own files while it lives. One that was killed leaves them, the last at its full
reserved length, and each that takes its place begins files of its own. So whoever begins clears up.

Cutting a file that a living process has mapped would end that process, so a file goes only where
its process surely has ended. Its header names the process; where that number means nothing, as in
another container, the lock that writers hold on the file that they write tells.
"""

from __future__ import annotations

import json
import logging
import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from . import native
from .clock import SYSTEM_CLOCK, Clock
from .errors import InputError
from .files import open_regular, read_up_to, try_lock, unlock
from .host import host_identity
from .offers import FileKind, kind_of
from .processes import ProcessId, find_process, is_alive, process_namespace
from .samples import MAX_LINE_BYTES, SAMPLES_SCHEMA
from .segment import read_head

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from io import FileIO
    from pathlib import Path

__all__ = ["process_facts", "tidy", "tidy_beside"]

_STEM = re.compile(r"(.+)-[0-9]{6,}\.trilat|(.+?)(?:\.1)?\.jsonl", re.ASCII)
_QUIET_NS = 3600 * 10**9
"""A living process writes samples each second; one that wrote nothing for so long has ended."""
_PID_MAX = 2**31 - 1

logger = logging.getLogger("trilat.journal")


class _Place(NamedTuple):
    """Where a process number means something."""

    host: int
    namespace: int


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a service.

    Attributes:
        path: the file.
        kind: what it holds.
        place: where its process runs or ran; its namespace is -1 where the header tells of none.
        process: the process.
        size: in bytes.
        changed_ns: when it was changed last, nanoseconds since the epoch.
        held: whether its writer holds its lock; None where that cannot be told.
    """

    path: Path
    kind: FileKind
    place: _Place
    process: ProcessId
    size: int
    changed_ns: int
    held: bool | None


def process_facts() -> dict[str, int | None]:
    """What a header has to say of this process, so that `tidy` knows whether it has ended."""
    process = find_process(os.getpid())
    return {
        "host": host_identity(),
        "pid": os.getpid(),
        "process_start": process.start if process is not None else None,
        "process_namespace": process_namespace(),
    }


def tidy(directory: Path, *, max_bytes: int, max_age_s: float, clock: Clock = SYSTEM_CLOCK) -> None:
    """Clear up what processes that have ended left in a directory; never raises for what is there.

    Their journals are cut to what was written. Then their files go that were changed last more than
    ``max_age_s`` ago, and, oldest first, as many more as it takes for all files of services in the
    directory, those of living processes too, to have no more than ``max_bytes``. Files of living
    processes, and files that are none of a service's, are left as they are. Where another process
    is clearing up at the moment, nothing is done.

    A process has ended where this host runs it no more, or, in another container of this host,
    where nobody holds its files. Of another host, and of this one before it was booted, nobody must
    hold the files, and none of them may have changed within an hour.

    Args:
        directory: of journals and samples.
        max_bytes: bound of all files together.
        max_age_s: bound of the time since a file's last change, in seconds.
        clock: tells the files' age.
    """
    with _alone(directory) as alone:
        if alone:
            _tidy(directory, max_bytes, clock.wall_ns(), round(max_age_s * 1e9))


def tidy_beside(directory: Path, *, max_bytes: int, max_age_s: float) -> None:
    """Clear up (see `tidy`) on a thread, so that nobody waits for it. Never raises.

    A full directory takes long enough to look through that the requests of an event loop would
    feel it.
    """

    def run() -> None:
        try:
            tidy(directory, max_bytes=max_bytes, max_age_s=max_age_s)
        except Exception:  # instrumentation fails open
            with suppress(Exception):  # a logging handler may be what is broken
                logger.warning("%s: old files stay: clearing up failed", directory, exc_info=True)

    try:
        native.start_thread(run)
    except RuntimeError as error:  # as many as the system allows
        logger.warning("%s: old files stay: %s", directory, error)


@contextmanager
def _alone(directory: Path) -> Iterator[bool]:
    """Whether no other process of this host is clearing up; true where that cannot be told.

    Workers that begin at once need not all do it, and one that looks at a file between its cut and
    the setting back of its date would take it for a young one.
    """
    descriptor = -1
    try:
        alone = True
        with suppress(OSError):
            descriptor = os.open(directory, os.O_RDONLY)
            alone = try_lock(descriptor)
        yield alone
    finally:
        if descriptor >= 0:
            with suppress(OSError):  # a child that was forked meanwhile has the descriptor too
                unlock(descriptor)
            os.close(descriptor)


def _tidy(directory: Path, max_bytes: int, now_ns: int, max_age_ns: int) -> None:
    here = _Place(host_identity(), process_namespace())
    total, ended = 0, []
    for files in _files_by_process(directory):
        total += sum(file.size for file in files)
        if _has_ended(files, here, now_ns):
            ended += files
    cut = [_cut(file) for file in ended]
    total -= sum(file.size for file in ended) - sum(file.size for file in cut)
    removed = _remove(cut, total - max_bytes, now_ns - max_age_ns)
    if removed:
        logger.info("%s: removed %d old files of ended processes", directory, removed)


def _files_by_process(directory: Path) -> list[list[_File]]:
    """The files of services; those whose names differ in their number alone are one process'."""
    groups: dict[str, list[_File]] = {}
    with suppress(OSError):  # there is no such directory, or it is nobody's to read
        for path in directory.iterdir():
            kind, stem = kind_of(path.name), _STEM.fullmatch(path.name)
            if kind is not None and stem is not None and (file := _look(path, kind)) is not None:
                groups.setdefault(stem[1] or stem[2], []).append(file)
    return list(groups.values())


def _look(path: Path, kind: FileKind) -> _File | None:
    """What a file tells of its process; None where it is none of a service's.

    An empty one is none, either: its writer locks it before there is anything in it, and must not
    find it locked.
    """
    with suppress(InputError, OSError), open_regular(path, write=True) as file:
        found = os.fstat(file.fileno())
        owner = _owner(_facts(path, kind, file)) if found.st_size else None
        if owner is None:
            return None
        held: bool | None = None
        with suppress(OSError):  # other hosts that look at it share the lock
            held = not try_lock(file.fileno(), shared=True)
        return _File(path, kind, *owner, found.st_size, found.st_mtime_ns, held)
    return None


def _facts(path: Path, kind: FileKind, file: FileIO) -> Mapping[str, Any]:
    """The facts in a file's header.

    Raises:
        InputError: it has none.
    """
    if kind == "journal":
        return read_head(path).facts
    line, end, _ = read_up_to(file, MAX_LINE_BYTES).partition(b"\n")
    try:
        facts = json.loads(line) if end else None
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict) or facts.get("schema") != SAMPLES_SCHEMA:
        raise InputError(f"{path}: no samples of trilat")
    return facts


def _owner(facts: Mapping[str, Any]) -> tuple[_Place, ProcessId] | None:
    """Which process a header says wrote the file; None where it is none of a service's."""
    host, pid = facts.get("host"), facts.get("pid")
    if facts.get("side") != "service" or not isinstance(host, int) or not isinstance(pid, int):
        return None
    if not 0 < pid <= _PID_MAX:
        return None
    start, namespace = facts.get("process_start"), facts.get("process_namespace")
    return (
        _Place(host, namespace if isinstance(namespace, int) else -1),
        ProcessId(pid, start if isinstance(start, int) else 0),
    )


def _has_ended(files: Sequence[_File], here: _Place, now_ns: int) -> bool:
    """Whether the process that these are all files of has surely ended."""
    if any(file.held for file in files):
        return False
    if all(file.place == here for file in files):
        return not any(is_alive(process) for process in {file.process for file in files})
    if any(file.place == here and is_alive(file.process) for file in files):
        return False
    if all(file.place.host == here.host and file.held is False for file in files):
        return True
    return max(file.changed_ns for file in files) < now_ns - _QUIET_NS


def _cut(file: _File) -> _File:
    """Cut a journal behind its last record; its age stays what it was."""
    if file.kind != "journal":
        return file
    with suppress(InputError, OSError), open_regular(file.path, write=True) as opened:
        written = read_head(file.path).written_bytes
        if written < os.fstat(opened.fileno()).st_size and _is_free(opened):
            os.ftruncate(opened.fileno(), written)
            os.utime(file.path, ns=(file.changed_ns, file.changed_ns))
        return replace(file, size=os.fstat(opened.fileno()).st_size)
    return file


def _is_free(file: FileIO) -> bool:
    """Whether nobody holds a file; also where that cannot be told, as its process has ended."""
    try:
        return try_lock(file.fileno(), shared=True)
    except OSError:
        return True


def _remove(files: Sequence[_File], excess: int, since_ns: int) -> int:
    """Remove what changed last before a time, and the oldest of the rest until nothing exceeds."""
    removed = 0
    for file in sorted(files, key=lambda file: (file.changed_ns, file.path.name)):
        if excess <= 0 and file.changed_ns >= since_ns:
            break
        with suppress(OSError):  # somebody else was quicker
            file.path.unlink()
            removed += 1
        excess -= file.size
    return removed
