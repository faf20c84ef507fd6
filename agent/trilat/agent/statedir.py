"""The directory in which the processes of one user find each other, and its locks."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .files import try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["STATE_VARIABLE", "hold", "is_held", "locked", "state_directory"]

STATE_VARIABLE = "TRILAT_STATE"
_RETRY_S = 0.01


def state_directory(chosen: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """Make and check the directory for the state of processes.

    The first of: ``chosen``; ``$TRILAT_STATE``; ``$XDG_RUNTIME_DIR/trilat``, where it can be used;
    ``trilat-UID`` in the directory for temporary files. Others could plant files in a directory
    that they can write to, so such a one is refused.

    Raises:
        OSError: it cannot be made, it is not this user's own, or the system has no file locks.
    """
    if not hasattr(os, "geteuid"):
        raise OSError("this system has no file locks")
    named = chosen or environ.get(STATE_VARIABLE)
    if named:
        return _own_directory(Path(named))
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime:
        with suppress(OSError):  # another user's, after `su`: nobody asked for it
            return _own_directory(Path(runtime, "trilat"))
    return _own_directory(Path(tempfile.gettempdir(), f"trilat-{os.geteuid()}"))


@contextmanager
def locked(path: Path, wait_s: float) -> Iterator[bool]:
    """Hold a lock file for the length of a ``with`` statement, where it comes free in time.

    Yields:
        Whether it is held; the kernel frees it when its process ends.

    Raises:
        OSError: the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + wait_s
        while not (got := try_lock(descriptor)) and time.monotonic() < deadline:
            time.sleep(_RETRY_S)
        yield got
    finally:
        os.close(descriptor)


def hold(path: Path) -> int:
    """Lock a file until the descriptor that is returned is closed, or the process ends.

    Raises:
        OSError: the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try_lock(descriptor)
    return descriptor


def is_held(path: Path) -> bool:
    """Whether a process holds a file (see `hold`); its number need not mean anything here.

    Raises:
        OSError: the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def _own_directory(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{path} is not a directory")
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{path} can be written by others: chmod go-w {path}")
    return path
