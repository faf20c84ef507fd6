"""Which processes are one service, and what they counted together.

Workers of one parent are one service: the children of uvicorn, hypercorn and granian, which use
`multiprocessing`, and gunicorn's. Each has a file of its own in a directory named after the parent,
so any of them can tell the sum. Files of workers that have ended are folded into one
(`trilat.agent.departed`) by whoever asks next, so counts never go backwards and asking never costs
more than the living workers do.

Services that one parent starts side by side, and that are not to be added up, each need a
``$TRILAT_STATE`` of their own.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import sys
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from .counters import Counters
from .departed import DEPARTED, fold, folded_names
from .errors import InputError
from .files import open_regular
from .host import host_identity
from .processes import ProcessId, find_process, is_alive, process_namespace
from .series import Series, counters_header, read_counters, read_open
from .statedir import hold, is_held, locked, state_directory
from .sums import add_up, what_stays

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["GroupSnapshot", "WorkerGroup", "parent_of_workers", "service_group"]

_PROC = Path("/proc")
_WORKER = re.compile(r"worker-(\d+)-(\d+)-(\d+)-[0-9a-f]{8}\.counters")
"""Namespace, number and start of the process."""
_GROUP = re.compile(r"([0-9a-f]{8})-(\d+)-(\d+)-(\d+)-[0-9a-f]{8}")
"""Host, namespace, number and start of the parent; then the layout of the files."""
_LAYOUT = f"{crc32(counters_header({})):08x}"
_LOCK = "lock"
_ENTER_WAIT_S = 1.0
_TRIES = 20
_FRESH_S = 3600.0

logger = logging.getLogger("trilat.counters")


class GroupSnapshot(NamedTuple):
    """What a service counted.

    Attributes:
        series: of all its workers, living and ended, added up.
        workers: how many are alive.
    """

    series: list[Series]
    workers: int


class WorkerGroup:
    """The workers of the service that this process is one of.

    Args:
        base: see `trilat.agent.statedir.state_directory`.
        parent: the process whose workers these are; None: see `parent_of_workers`.
        proc: where the kernel tells of processes.
    """

    def __init__(
        self, base: Path | None = None, *, parent: ProcessId | None = None, proc: Path = _PROC
    ) -> None:
        self._chosen = base
        self._parent = parent
        self._proc = proc
        self._counters: Counters | None = None
        self._pid = 0
        self._warned = False
        self._dated_s = time.monotonic()

    @property
    def counters(self) -> Counters | None:
        """The numbers of this process; None before `enter`, and again after a fork."""
        return self._counters if self._pid == os.getpid() else None

    @cached_property
    def _namespace(self) -> int:
        return process_namespace(self._proc)

    def enter(self, facts: Mapping[str, Any] | None = None) -> Counters:
        """The numbers of this process, one file for its lifetime.

        Where the directory cannot be used they are memory of the process' own, with one warning,
        and this worker tells of itself alone.

        Args:
            facts: what the file says of the process beside its number and its host.
        """
        if self.counters is None:
            described = {"pid": os.getpid(), "host": host_identity(self._proc), **(facts or {})}
            try:
                self._counters = self._enter_directory(described)
            except OSError as error:
                logger.warning("this process counts for itself: %s", error)
                self._counters = Counters(None, described)
            self._pid = os.getpid()
            _entered[os.getpid()] = self
        assert self._counters is not None
        return self._counters

    def snapshot(self) -> GroupSnapshot:
        """The sum of all workers, those that have ended too; never less than it was."""
        own = self.counters
        if own is not None and not own.shared:
            return GroupSnapshot(add_up(own.snapshot().series), 1)
        if own is not None and own.path is not None and not own.path.exists() and not self._warned:
            self._warned = True
            logger.warning("%s was removed: workers do not see each other's counts", own.path)
        try:
            directory = self._directory()
            with suppress(OSError):  # whoever comes next can fold as well
                self._fold(directory)
                self._keep_fresh(directory)
            return self._read(directory)
        except OSError as error:
            logger.warning("the counts of other workers cannot be read: %s", error)
            return GroupSnapshot(add_up(own.snapshot().series), 1) if own else GroupSnapshot([], 0)

    def _enter_directory(self, facts: Mapping[str, Any]) -> Counters:
        directory = self._directory()
        me = find_process(os.getpid(), self._proc)
        if me is None:
            raise OSError(f"{self._proc} does not tell of this process")
        name = f"worker-{self._namespace}-{me.pid}-{me.start}-{secrets.token_hex(4)}.counters"
        with locked(directory.parent / _LOCK, _ENTER_WAIT_S) as got:
            if not got:
                raise OSError(f"{directory.parent / _LOCK} is held by another process")
            with suppress(OSError):
                self._remove_stale(directory)
            directory.mkdir(mode=0o700, exist_ok=True)
            counters = Counters(directory / name, facts)
            if counters.path is not None:
                with suppress(OSError):  # only other containers look there
                    _held.append(hold(counters.path))
        return counters

    def _directory(self) -> Path:
        base = state_directory(self._chosen)
        parent = self._parent or parent_of_workers(self._proc)
        host = f"{host_identity(self._proc):08x}"
        return base / f"{host}-{self._namespace}-{parent.pid}-{parent.start}-{_LAYOUT}"

    def _fold(self, directory: Path) -> None:
        dead = [path for path in _workers_in(directory) if not self._is_alive(path)]
        if not dead:
            return
        with locked(directory / _LOCK, 0) as got:
            if got:
                fold(directory, [path for path in dead if path.exists()])

    def _read(self, directory: Path) -> GroupSnapshot:
        """Read without a lock, again where a worker was folded meanwhile.

        The file of departed workers stays open, so its number (inode) cannot be given to its
        successor: the same number at the end is the same file.
        """
        for _ in range(_TRIES):
            try:
                with open_regular(directory / DEPARTED) as file:
                    known = read_open(file.fileno(), DEPARTED)
                    snapshot = self._read_workers(directory, known.series, known.facts)
                    inode = os.fstat(file.fileno()).st_ino
                    if (directory / DEPARTED).stat().st_ino == inode:
                        return snapshot
            except (FileNotFoundError, InputError):
                snapshot = self._read_workers(directory, [], {})
                if not (directory / DEPARTED).exists():
                    return snapshot
        return snapshot

    def _read_workers(
        self, directory: Path, departed: list[Series], facts: Mapping[str, Any]
    ) -> GroupSnapshot:
        own = self.counters
        own_path = own.path if own is not None else None
        folded = folded_names(facts)
        series, workers = list(departed), 0
        if own is not None:  # even where somebody removed its file
            series += own.snapshot().series
            workers += 1
        for path in _workers_in(directory):
            if path == own_path or path.name in folded:
                continue
            alive = self._is_alive(path)
            with suppress(InputError):  # it is being made, or was folded a moment ago
                found = read_counters(path).series
                series += found if alive else what_stays(found)
                workers += alive
        return GroupSnapshot(add_up(series), workers)

    def _keep_fresh(self, directory: Path) -> None:
        """Keep those who clear old files away: writing to mapped memory does not date a file."""
        now_s = time.monotonic()
        if now_s > self._dated_s + _FRESH_S:
            self._dated_s = now_s
            for path in [directory, *directory.iterdir()]:
                os.utime(path)

    def _is_alive(self, path: Path) -> bool:
        match = _WORKER.fullmatch(path.name)
        if match is None:
            return False
        namespace, pid, start = map(int, match.groups())
        if namespace == self._namespace:
            return is_alive(ProcessId(pid, start), self._proc)
        with suppress(OSError):  # its numbers mean nothing here
            return is_held(path)
        return False

    def _remove_stale(self, own: Path) -> None:
        """Remove the directories of services that have ended."""
        for directory in own.parent.iterdir():
            match = _GROUP.fullmatch(directory.name)
            if match is None or directory == own:
                continue
            host, namespace, pid, start = match.groups()
            if any(map(self._is_alive, _workers_in(directory))):
                continue
            if (host, namespace) == tuple(own.name.split("-")[:2]):
                stale = not is_alive(ProcessId(int(pid), int(start)), self._proc)
            else:
                # Of another container, or from before the last boot: only time can tell.
                stale = time.time() - directory.stat().st_mtime > _FRESH_S
            if stale:
                shutil.rmtree(directory, ignore_errors=True)


def parent_of_workers(proc: Path = _PROC) -> ProcessId:
    """The process whose workers are one service with this one; this one where it has no such.

    Raises:
        OSError: the system does not tell.
    """
    candidates = [os.getpid()]
    process = sys.modules.get("multiprocessing.process")  # it has imported it if it started us
    if process is not None and (parent := process.parent_process()) is not None:
        candidates.insert(0, parent.pid)
    elif "gunicorn.arbiter" in sys.modules:
        candidates.insert(0, os.getppid())
    for pid in candidates:
        found = find_process(pid, proc)
        if found is not None:
            return found
    raise OSError(f"{proc} does not tell of this process")


def service_group() -> WorkerGroup:
    """The group that this process has entered; before that, the one that it would enter."""
    return _entered.get(os.getpid()) or WorkerGroup()


def _workers_in(directory: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        yield from sorted(path for path in directory.iterdir() if _WORKER.fullmatch(path.name))


_entered: dict[int, WorkerGroup] = {}
_held: list[int] = []
"""Descriptors that tell other containers that this process lives."""


def _forget_after_fork() -> None:
    """A child does not live for its parent."""
    while _held:
        os.close(_held.pop())
    _entered.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
