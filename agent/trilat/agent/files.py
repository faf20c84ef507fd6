"""Opening, reading and locking of files that others may have put in the place of ours."""

from __future__ import annotations

import os
import stat
from io import FileIO
from typing import TYPE_CHECKING

from .errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["open_regular", "read_up_to", "try_lock", "unlock"]


def open_regular(path: Path, *, follow: bool = False, write: bool = False) -> FileIO:
    """Open a file that must be one: a FIFO would wait for a writer, a device may never end.

    Args:
        path: the file.
        follow: whether a link may lead to it.
        write: whether it is to be written, too.

    Raises:
        InputError: it is something else.
        OSError: it cannot be opened.
    """
    flags = os.O_RDWR if write else os.O_RDONLY
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    flags |= 0 if follow else getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InputError(f"{path}: not a file")
        return FileIO(descriptor, "r+" if write else "r")
    except BaseException:
        os.close(descriptor)
        raise


def read_up_to(file: FileIO, size: int) -> bytes:
    """So many bytes from where the file stands, or what there is; one call need not give all.

    Raises:
        OSError: it cannot be read.
    """
    pieces = []
    while size > 0 and (piece := file.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock a file unless somebody else holds it; the kernel frees it when its last user closes it.

    A mapping of the file counts as a user, so a file that was locked before it was mapped stays
    locked until it is mapped no more, or its process ends, however that comes (flock(2)).

    Args:
        descriptor: of the file.
        shared: whether others may hold it who share it, too.

    Returns:
        Whether it is held now.

    Raises:
        OSError: the system or the file system has no such locks.
    """
    try:
        import fcntl  # noqa: PLC0415 - not on every system
    except ImportError as error:
        raise OSError("this system has no file locks") from error
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Give a lock back, also for forks of this process, which hold what it held.

    Raises:
        OSError: the system or the file system has no such locks.
    """
    try:
        import fcntl  # noqa: PLC0415 - not on every system
    except ImportError as error:
        raise OSError("this system has no file locks") from error
    fcntl.flock(descriptor, fcntl.LOCK_UN)
