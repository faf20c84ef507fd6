"""What blocked an event loop: single blocks, and their sums by place."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from .stacks import Place

__all__ = [
    "COLLECTING",
    "IN_TURN",
    "OTHER",
    "STARVED",
    "UNSEEN",
    "BlockEvent",
    "BlockedPlace",
    "BlockedPlaces",
]

UNSEEN = Place("(not seen)", 0, "")
"""Of a block whose stack nobody took: the watching thread did not get to run in time."""

OTHER = Place("(other)", 0, "")
"""Where blocks go once there are more places than are kept."""

COLLECTING = Place("(garbage collection)", 0, "")
"""Python's garbage collector had the thread, in whatever line set it off."""

IN_TURN = Place("(users in turn)", 0, "")
"""Several greenlets of a load generator had its thread one after the other: no single one had it
for long, but together they are too much for it."""

STARVED = Place("(no processor)", 0, "")
"""The thread was ready to run, and other programs had the processors."""

_MOST_PLACES = 100
_MOST_NEW = 200


@dataclass(frozen=True, slots=True)
class BlockEvent:
    """One block of the event loop, from the moment at which its timer was due.

    Attributes:
        wall_ns: its start.
        took_ns: its length, pauses left out.
        file: of the line that was found most often while it lasted.
        line: its number.
        function: its qualified name.
        stack: ``file:line function`` around that line, at most 30, the innermost last.
    """

    wall_ns: int
    took_ns: int
    file: str
    line: int
    function: str
    stack: tuple[str, ...]

    @property
    def place(self) -> Place:
        """File, line and function."""
        return Place(self.file, self.line, self.function)


@dataclass(slots=True)
class BlockedPlace:
    """All blocks of one line.

    Attributes:
        count: how many.
        total_ns: their sum.
        max_ns: the longest.
        stack: of the longest.
    """

    place: Place
    count: int = 0
    total_ns: int = 0
    max_ns: int = 0
    stack: tuple[str, ...] = ()

    def add(self, event: BlockEvent) -> None:
        """Count one more."""
        self.merge(BlockedPlace(self.place, 1, event.took_ns, event.took_ns, event.stack))

    def merge(self, other: BlockedPlace) -> None:
        """Count others of the same line; a stack that is not known is no reason to forget one."""
        self.count += other.count
        self.total_ns += other.total_ns
        if other.max_ns >= self.max_ns:
            self.max_ns = other.max_ns
            self.stack = other.stack or self.stack


class BlockedPlaces:
    """Sums of blocks by place, in bounded memory; written by one thread, read by any.

    Args:
        most: number of places that are kept apart; further ones go to `OTHER`.
        most_new: number of blocks that are kept for `take_new`; of more, the latest.

    Attributes:
        forgotten: blocks that `take_new` will not return, for there were too many.
    """

    def __init__(self, most: int = _MOST_PLACES, most_new: int = _MOST_NEW) -> None:
        self._most = most
        self._places: dict[Place, BlockedPlace] = {}
        self._new: deque[BlockEvent] = deque()
        self._most_new = most_new
        self.forgotten = 0

    def add(self, event: BlockEvent) -> None:
        """Count a block."""
        self._entry(event.place).add(event)
        self._new.append(event)
        if len(self._new) > self._most_new:
            self._new.popleft()
            self.forgotten += 1

    def merge(self, sums: BlockedPlace) -> None:
        """Count what was summed up by line elsewhere; `take_new` does not return it."""
        self._entry(sums.place).merge(sums)

    def _entry(self, place: Place) -> BlockedPlace:
        entry = self._places.get(place)
        if entry is None:
            if len(self._places) >= self._most:
                place = OTHER
            entry = self._places.setdefault(place, BlockedPlace(place))
        return entry

    def by_total(self) -> list[BlockedPlace]:
        """The places, those that blocked longest in sum first."""
        return sorted(self._places.copy().values(), key=lambda entry: -entry.total_ns)

    def take_new(self) -> list[BlockEvent]:
        """The blocks since the last call, oldest first."""
        taken = []
        while self._new:
            taken.append(self._new.popleft())
        return taken
