"""`BlockedPlaces`: sums that hold, in bounded memory."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from trilat.agent.blocks import OTHER, BlockedPlace, BlockedPlaces, BlockEvent
from trilat.agent.stacks import Place


def block(line: int, took_ns: int = 1, stack: tuple[str, ...] = ()) -> BlockEvent:
    """A block at a line of one file."""
    return BlockEvent(0, took_ns, "app.py", line, "view", stack)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 10**12))), st.integers(1, 6))
def test_no_block_is_lost_whatever_the_bound(blocks: list[tuple[int, int]], most: int) -> None:
    """Counts and sums over all places, the other ones included, are those of the blocks."""
    places = BlockedPlaces(most)
    for line, took in blocks:
        places.add(block(line, took))
    found = places.by_total()
    assert sum(place.count for place in found) == len(blocks)
    assert sum(place.total_ns for place in found) == sum(took for _, took in blocks)
    assert max((place.max_ns for place in found), default=0) == max(
        (took for _, took in blocks), default=0
    )
    assert len(found) <= most + 1
    assert found == sorted(found, key=lambda place: -place.total_ns)
    kept = Counter(line for line, _ in blocks)
    for place in found:
        assert place.place == OTHER or place.count == kept[place.place.line]


def test_a_place_keeps_the_stack_of_its_longest_block() -> None:
    """That is the one to look at."""
    places = BlockedPlaces()
    for took, stack in ((5, "short"), (9, "long"), (7, "middle")):
        places.add(block(1, took, (stack,)))
    (place,) = places.by_total()
    assert (place.count, place.total_ns, place.max_ns, place.stack) == (3, 21, 9, ("long",))


def test_new_blocks_are_taken_once_and_the_oldest_are_forgotten() -> None:
    """Nobody may come for them for long."""
    places = BlockedPlaces(most_new=2)
    for line in range(5):
        places.add(block(line))
    assert [event.line for event in places.take_new()] == [3, 4]
    assert places.take_new() == []
    assert places.forgotten == 3


def test_sums_that_others_made_are_added() -> None:
    """As if each block had come by itself; without a stack, the one that is known stays."""
    places = BlockedPlaces()
    places.add(block(1, 5, ("known",)))
    for count, total, longest, stack in ((3, 30, 20, ()), (2, 9, 6, ("short",))):
        places.merge(BlockedPlace(Place("app.py", 1, "view"), count, total, longest, stack))
    (place,) = places.by_total()
    assert (place.count, place.total_ns, place.max_ns) == (6, 44, 20)
    assert place.stack == ("known",)
    assert len(places.take_new()) == 1
