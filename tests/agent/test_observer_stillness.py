"""`Stillness`: what tells a process that stood still from one that was slow."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.agent.stillness import GAP_NS, Stillness, ThreadTurns, Turns

MS = 1_000_000
S = 1000 * MS


class Counts:
    """The kernel's counts, as a test sets them."""

    def __init__(self) -> None:
        self.cpu_ns = 0
        self.turns: Turns | None = Turns(0, 0)

    def stillness(self) -> Stillness:
        """What reads them."""
        return Stillness(lambda: self.cpu_ns, lambda: self.turns)


def test_a_gap_without_cpu_time_and_turns_is_a_pause() -> None:
    """SIGSTOP, a suspended machine: nothing ran."""
    counts = Counts()
    stillness = counts.stillness()
    stillness.asleep(0, 50 * MS)
    counts.cpu_ns, counts.turns = 100_000, Turns(MS, 3)
    stillness.awake(5 * S)
    assert stillness.between(S, 6 * S) == 4 * S


@pytest.mark.parametrize(
    ("cpu_ns", "turns"),
    [
        (S, Turns(0, 2)),  # it computed
        (0, Turns(0, 900)),  # it asked for the interpreter, which a call held
        (0, Turns(4 * S, 2)),  # it waited for a processor
        (S, None),
    ],
)
def test_a_gap_in_which_something_ran_is_none(cpu_ns: int, turns: Turns | None) -> None:
    """Each of the counts speaks against a pause by itself."""
    counts = Counts()
    stillness = counts.stillness()
    stillness.asleep(0, 50 * MS)
    counts.cpu_ns, counts.turns = cpu_ns, turns
    stillness.awake(5 * S)
    assert stillness.between(0, 6 * S) == 0


def test_without_the_kernels_counts_cpu_time_decides() -> None:
    """Not every system has them."""
    counts = Counts()
    counts.turns = None
    stillness = counts.stillness()
    stillness.asleep(0, 50 * MS)
    stillness.awake(5 * S)
    assert stillness.between(0, 6 * S) == 5 * S


def test_waking_a_little_late_is_nothing() -> None:
    """Threads do."""
    stillness = Counts().stillness()
    stillness.asleep(0, 50 * MS)
    stillness.awake(50 * MS + GAP_NS - 1)
    assert stillness.between(0, S) == 0


def test_whoever_asks_first_takes_the_gap_and_it_counts_once() -> None:
    """The loop's thread may run before the watching one does."""
    stillness = Counts().stillness()
    stillness.asleep(0, 50 * MS)
    assert stillness.between(S, 5 * S) == 4 * S
    stillness.awake(5 * S + MS)
    assert stillness.between(S, 6 * S) == 4 * S


def test_a_debugger_holds_the_process_until_it_lets_go() -> None:
    """Its time counts while it lasts, and afterwards up to its end."""
    stillness = Counts().stillness()
    stillness.hold(2 * S)
    stillness.hold(3 * S)
    held = [stillness.held]
    assert stillness.between(S, 5 * S) == 3 * S
    stillness.release(6 * S)
    stillness.release(7 * S)
    held.append(stillness.held)
    assert held == [True, False]
    assert stillness.between(S, 9 * S) == 4 * S


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=10),
    st.integers(0, 100),
    st.integers(0, 100),
)
def test_overlapping_pauses_count_once(
    pauses: list[tuple[int, int]], since: int, length: int
) -> None:
    """Against the set of the instants."""
    stillness = Counts().stillness()
    still: set[int] = set()
    for start, took in pauses:
        stillness.hold(start)
        stillness.release(start + took)
        still |= set(range(start, start + took))
    expected = len(still & set(range(since, since + length)))
    assert stillness.between(since, since + length) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's counts are Linux' own")
def test_the_kernel_counts_this_thread() -> None:
    """The file is there, and says that the thread has had the processor."""
    thread = ThreadTurns(threading.get_native_id())
    turns = thread.read()
    assert turns is None or turns.count > 0
    thread.close()
    thread.close()
    assert thread.read() is None


@pytest.mark.parametrize("content", ["", "1 2", "a b c", "1 2 3 4", "\0" * 50])
def test_an_odd_file_tells_nothing(tmp_path: Path, content: str) -> None:
    """Some kernels and sandboxes write other things there, or nothing."""
    file = tmp_path / "self" / "task" / "7" / "schedstat"
    assert ThreadTurns(7, tmp_path).read() is None
    file.parent.mkdir(parents=True)
    file.write_text(content)
    thread = ThreadTurns(7, tmp_path)
    assert thread.read() is None
    file.write_text("11 22 33\n")
    assert thread.read() == Turns(22, 33)
    thread.close()
