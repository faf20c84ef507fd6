"""Network namespaces without a name: they are gone with the last process that has them open."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .processes import LabError

__all__ = ["enter", "new_namespace"]

_CLONE_NEWNET = 0x40000000  # include/uapi/linux/sched.h
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def new_namespace() -> Iterator[int]:
    """A namespace of its own; nothing has to be cleaned up, however this process ends.

    Yields:
        Its descriptor.

    Raises:
        LabError: the kernel gives none.
    """
    found: list[int | str] = []

    def make() -> None:  # a thread leaves the namespace of its process for itself alone
        if _libc.unshare(_CLONE_NEWNET):
            found.append(os.strerror(ctypes.get_errno()))
        else:
            own = Path(f"/proc/self/task/{threading.get_native_id()}/ns/net")
            found.append(os.open(own, os.O_RDONLY | os.O_CLOEXEC))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    descriptor = found[0]
    if isinstance(descriptor, str):
        raise LabError(f"no network namespace: {descriptor}")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def enter(descriptor: int) -> None:
    """Let this thread live in another network namespace.

    Raises:
        OSError: not allowed, or not a namespace.
    """
    if _libc.setns(descriptor, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
