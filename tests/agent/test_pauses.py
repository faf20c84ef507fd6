"""Pauses of the garbage collector."""

from __future__ import annotations

import gc
from itertools import count

from trilat.agent.pauses import CollectorPauses


def test_collections_are_counted_until_closed() -> None:
    """Each collection counts once with the time from its start to its end."""
    ticks = count(step=5)
    before = list(gc.callbacks)
    pauses = CollectorPauses(lambda: next(ticks))
    gc.disable()
    try:
        for _ in range(3):
            gc.collect(0)
        assert (pauses.count, pauses.total_ns) == (3, 15)
        assert (pauses.take_longest(), pauses.take_longest()) == (5, 0)
        pauses.close()
        pauses.close()
        gc.collect(0)
    finally:
        gc.enable()
    assert (pauses.count, pauses.total_ns) == (3, 15)
    assert gc.callbacks == before


def test_the_longest_is_kept_until_it_is_taken() -> None:
    """The longest of several pauses is told once; the next ones begin anew."""
    times = iter((0, 7, 10, 12, 20, 21))
    pauses = CollectorPauses(lambda: next(times))
    gc.disable()
    try:
        gc.collect(0)
        gc.collect(0)
        assert pauses.take_longest() == 7
        gc.collect(0)
        assert pauses.take_longest() == 1
    finally:
        pauses.close()
        gc.enable()
    assert pauses.total_ns == 10


def test_made_in_the_middle_of_a_collection() -> None:
    """The end of a collection whose start was not seen is not counted."""
    made: list[CollectorPauses] = []

    def make(phase: str, _info: dict[str, int]) -> None:
        if phase == "stop" and not made:
            made.append(CollectorPauses())  # comes after this one, and is told of the stop at once

    gc.callbacks.insert(0, make)
    gc.disable()
    try:
        gc.collect(0)
        assert made[0].count == 0
        gc.collect(0)
        assert made[0].count == 1
    finally:
        gc.enable()
        gc.callbacks.remove(make)
        made[0].close()


def test_long_collections_are_known_by_their_time() -> None:
    """So what they held up is not blamed on a line; of short ones only the sum is kept."""
    ms = 1_000_000
    times = iter((10 * ms, 30 * ms, 40 * ms, 41 * ms, 50 * ms, 60 * ms))
    pauses = CollectorPauses(lambda: next(times))
    gc.disable()
    try:
        for _ in range(3):
            gc.collect(0)
    finally:
        pauses.close()
        gc.enable()
    assert pauses.between(0, 100 * ms) == 30 * ms
    assert pauses.between(20 * ms, 55 * ms) == 15 * ms
    assert pauses.between(30 * ms, 50 * ms) == 0
    assert pauses.total_ns == 31 * ms
