"""What a thread beside an event loop saw while the loop was blocked."""

from __future__ import annotations

from collections import Counter

from .blocks import UNSEEN
from .stacks import NO_CALLBACK, Place, Stack

__all__ = ["Looks"]

_MOST_PLACES = 50


class Looks:
    """What was seen in one block of the loop.

    Attributes:
        number: how often the thread has looked.
        origins: how often it saw each `trilat.agent.stacks.Stack.origin`.
        between: how often the thread ran none of its loop's callbacks.
        overslept_ns: how much later than planned the thread came for one of the looks, at most.
    """

    def __init__(self) -> None:
        self.number = 0
        self.origins: Counter[int] = Counter()
        self.between = 0
        self.overslept_ns = 0
        self._seen: Counter[Place] = Counter()
        self._stacks: dict[Place, Stack] = {}

    def add(self, stack: Stack) -> None:
        """One more; in a long block over many lines, only of the first places that were seen."""
        if stack.place == NO_CALLBACK:
            self.between += 1
        else:
            self.origins[stack.origin] += 1
        if stack.place in self._seen or len(self._seen) < _MOST_PLACES:
            self._seen[stack.place] += 1
            self._stacks.setdefault(stack.place, stack)

    def most_seen(self) -> Stack:
        """The first stack of the place that was seen most often."""
        (place, _), *_ = self._seen.most_common(1) or [(UNSEEN, 0)]
        return self._stacks.get(place, Stack(UNSEEN, ()))
