"""Pauses of Python's garbage collector, through ``gc.callbacks``."""

from __future__ import annotations

import gc
from collections import deque
from contextlib import suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CollectorPauses"]

_LONG_NS = 5_000_000
_KEPT_LONG = 32


class CollectorPauses:
    """Counts the collections of this process and how long they held it up, until closed.

    A collection runs in the thread that set it off, with the interpreter's lock held: it holds up
    all others too.

    Attributes:
        count: collections seen.
        total_ns: how long they took together.
        longest_ns: how long the longest took since the last `take_longest`.

    Args:
        monotonic_ns: the clock.
    """

    __slots__ = ("_began_ns", "_long", "_now_ns", "count", "longest_ns", "total_ns")

    def __init__(self, monotonic_ns: Callable[[], int] = perf_counter_ns) -> None:
        self.count = 0
        self.total_ns = 0
        self.longest_ns = 0
        self._now_ns = monotonic_ns
        self._long: deque[tuple[int, int]] = deque(maxlen=_KEPT_LONG)
        self._began_ns: int | None = None
        gc.callbacks.append(self._note)

    def take_longest(self) -> int:
        """The longest pause since the last call, in nanoseconds; 0 where there was none."""
        longest, self.longest_ns = self.longest_ns, 0
        return longest

    def between(self, since_ns: int, until_ns: int) -> int:
        """How long collections of 5 ms and more took of the time between two recent instants.

        Args:
            since_ns: the first instant, by the clock.
            until_ns: the second.

        Returns:
            Nanoseconds; of those that began long ago nothing is known any more.
        """
        parts = (min(end, until_ns) - max(begin, since_ns) for begin, end in tuple(self._long))
        return sum(max(part, 0) for part in parts)

    def close(self) -> None:
        """Count no more; what was counted stays."""
        with suppress(ValueError):  # closed before
            gc.callbacks.remove(self._note)

    def _note(self, phase: str, _info: dict[str, Any]) -> None:
        now_ns = self._now_ns()
        if phase == "start":
            self._began_ns = now_ns
            return
        if self._began_ns is None:  # made in the middle of a collection
            return
        took = now_ns - self._began_ns
        self.count += 1
        self.total_ns += took
        if took > self.longest_ns:  # noqa: PLR1730 - quicker than max()
            self.longest_ns = took
        if took >= _LONG_NS:
            self._long.append((self._began_ns, now_ns))

    NOTING = _note.__code__
    """Code that runs around a collection: who is found in it was found at the line above."""
