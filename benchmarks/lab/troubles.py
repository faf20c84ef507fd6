"""Computing and pausing: what both sides of the lab use to be slow in a known way."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from .scenario import Pattern

__all__ = ["burn", "pauses_s"]


def burn(milliseconds: float) -> None:
    """Compute for so long, by the wall: a loop that gives nobody else a turn."""
    until = time.perf_counter_ns() + round(milliseconds * 1e6)
    while time.perf_counter_ns() < until:
        pass


def pauses_s(pattern: Pattern, every_ms: float, seed: int) -> Iterator[float]:
    """How long to wait before each block, in seconds."""
    choice = random.Random(seed)
    if pattern == "once":
        yield every_ms / 1000
        return
    while pattern != "none":
        yield (choice.expovariate(1 / every_ms) if pattern == "random" else every_ms) / 1000
