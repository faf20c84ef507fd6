"""Threads and locks of the operating system, also where gevent has put its own in their place.

A thread that gevent makes is a greenlet: it does not run while the hub is blocked, which is when a
watching thread is needed. gevent keeps what it replaces; it is asked for it without importing it.
"""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Lock", "lock", "start_thread", "thread_id"]


class Lock(Protocol):
    """What `lock` returns: as `threading.Lock`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it; False when the timeout in seconds passed first."""

    def release(self) -> None:
        """Give it back."""

    def __enter__(self) -> bool: ...

    def __exit__(self, *raised: object) -> None: ...


def _original(name: str) -> Any:
    monkey = sys.modules.get("gevent.monkey")
    return getattr(_thread, name) if monkey is None else monkey.get_original("_thread", name)


def lock() -> Lock:
    """A new lock that blocks the thread, and not a greenlet."""
    made: Lock = _original("allocate_lock")()
    return made


def start_thread(run: Callable[[], None]) -> None:
    """Run a function in a new thread, which does not keep the process alive."""
    _original("start_new_thread")(run, ())


def thread_id() -> int:
    """The running thread's number, as `sys._current_frames` has it."""
    number: int = _original("get_ident")()
    return number
