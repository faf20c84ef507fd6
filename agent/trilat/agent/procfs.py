"""Reading the kernel's small text files, and pacing what is slow to read."""

from __future__ import annotations

import os
from time import thread_time_ns
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .clock import Clock

__all__ = ["Paced", "read_file", "whole"]

_DIGITS = 20  # of the largest 64-bit number
_SHARE = 1000  # a reading may take this part of the time between two

T = TypeVar("T")


def read_file(path: Path | str, limit: int = 2**16) -> bytes:
    """The beginning of a file, at most ``limit`` bytes (and what the last read had beyond).

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        raw = piece = os.read(descriptor, limit)
        while piece and len(raw) < limit:
            raw += (piece := os.read(descriptor, limit))
    finally:
        os.close(descriptor)
    return raw


def whole(text: bytes) -> int:
    """The number that decimal digits stand for.

    Raises:
        ValueError: something else than digits, or more than a 64-bit number has.
    """
    if len(text) > _DIGITS or not text.isdigit():
        raise ValueError(f"not a count: {text[:40]!r}")
    return int(text)


class Paced(Generic[T]):
    """A reading that is repeated only so often that it costs a thousandth of the time.

    Args:
        read: gives the value.
        clock: for the time between two readings.
        pause_ns: the least of it.
        too_long_ns: a reading that cost more than this is the last one: from then on None.
        cost_ns: the clock of what a reading costs: the thread's CPU time, so that a machine that
            is busy otherwise does not make readings rare.
    """

    def __init__(
        self,
        read: Callable[[], T],
        clock: Clock,
        *,
        pause_ns: int = 0,
        too_long_ns: int | None = None,
        cost_ns: Callable[[], int] = thread_time_ns,
    ) -> None:
        self._read = read
        self._clock = clock
        self._pause_ns = pause_ns
        self._too_long_ns = too_long_ns
        self._cost_ns = cost_ns
        self._value: T | None = None
        self._due_ns: int | None = None
        self._given_up = False

    def __call__(self) -> T | None:
        """The value: read now, or the latest one; None where reading it failed or is too slow.

        Raises:
            OSError: as the reading does. So are its other errors raised.
        """
        began = self._clock.monotonic_ns()
        if self._given_up or (self._due_ns is not None and began < self._due_ns):
            return self._value
        self._value = None
        spent = self._cost_ns()
        try:
            self._value = self._read()
        finally:
            took = self._cost_ns() - spent
            self._due_ns = began + max(self._pause_ns, took * _SHARE)
            if self._too_long_ns is not None and took > self._too_long_ns:
                self._value, self._given_up = None, True
        return self._value
