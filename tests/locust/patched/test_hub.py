"""The watch over gevent's hub: what blocks it is named, and what does not is not."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import gevent.monkey
import pytest

from trilat.agent.blocks import COLLECTING, IN_TURN, BlockEvent
from trilat.agent.stacks import Stack
from trilat.locust import faults
from trilat.locust.health.heartbeat import Heartbeat
from trilat.locust.health.hub import HubWatch, watch_hub

GIVES_UP_S = 60.0
STOPPED_S = 1.5


class Watched:
    """A watch, and how often it has looked: so nothing here depends on speed."""

    def __init__(self) -> None:
        self.watch = HubWatch()
        self.looks = 0
        take = self.watch.heartbeat.take_stack

        def counting(*arguments: Any) -> Stack | None:
            self.looks += 1
            return take(*arguments)

        vars(self.watch.heartbeat)["take_stack"] = counting

    def looked(self, times: int) -> Callable[[], bool]:
        """Whether it has looked so often from here on, or never will."""
        goal, end = self.looks + times, time.monotonic() + GIVES_UP_S
        return lambda: self.looks >= goal or time.monotonic() > end

    def found(self) -> list[dict[str, Any]]:
        """What was told since the last call; blocks are told in the thread, a moment later."""
        ticks, end = self.watch.heartbeat.ticks, time.monotonic() + GIVES_UP_S
        while self.watch.heartbeat.ticks < ticks + 2 and time.monotonic() < end:
            gevent.sleep(0.01)
        while self.watch.heartbeat.late and time.monotonic() < end:
            gevent.sleep(0.01)
        gevent.sleep(0.01)
        return list(self.watch.blocked())

    def until(self, block: Callable[[], None], holds: Callable[[dict[str, Any]], bool]) -> Any:
        """Block in a user's greenlet until something like that is told; what was told.

        A watching thread that does not get a processor sees nothing, and says so.
        """
        end = time.monotonic() + GIVES_UP_S
        while time.monotonic() < end:
            gevent.spawn(block).join()
            for line in self.found():
                if holds(line):
                    return line
        raise AssertionError("it was not found")


@pytest.fixture
def watched() -> Iterator[Watched]:
    """A watch that is stopped at the end, without an error inside."""
    made = Watched()
    yield made
    made.watch.stop()
    assert made.watch.errors == 0


def in_function(name: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a line of that function is named."""
    return lambda line: line["function"].endswith(name)


def test_the_line_that_computes_is_named(watched: Watched) -> None:
    """With how often, how long and its stack."""

    def computes() -> None:
        enough = watched.looked(4)
        while not enough():
            sum(range(20_000))

    line = watched.until(computes, in_function("computes"))
    assert line["file"].endswith("test_hub.py")
    assert computes.__code__.co_firstlineno < line["line"] <= computes.__code__.co_firstlineno + 3
    assert line["count"] >= 1
    assert line["took_ms"] >= line["max_ms"] > 15
    assert any(f":{line['line']} {line['function']}" in frame for frame in line["stack"])
    told = watched.watch.read()
    assert told["hub_lag_max_ms"] > 15
    assert told["hub_blocked_ms"] >= line["took_ms"] - 1
    assert told["hub_lag_ms"] > 0


def test_a_call_into_c_that_keeps_the_interpreter_is_named(watched: Watched) -> None:
    """Nobody can look while it lasts; that nobody could is what tells of it."""
    usleep = ctypes.PyDLL(None).usleep

    def keeps() -> None:
        usleep(200_000)

    assert watched.until(keeps, in_function("keeps"))["max_ms"] > 100


def test_a_call_that_gevent_does_not_know_is_named(watched: Watched) -> None:
    """A driver written in C, a file on a slow disk, a sleep of the wrong kind."""
    sleep = gevent.monkey.get_original("time", "sleep")

    def sleeps() -> None:
        enough = watched.looked(4)
        while not enough():
            sleep(0.02)

    assert watched.until(sleeps, in_function("sleeps"))["max_ms"] > 15


def test_a_sleep_that_gevent_has_patched_blocks_nothing(watched: Watched) -> None:
    """The hub runs the others meanwhile."""

    def patient() -> None:
        time.sleep(0.2)

    gevent.joinall([gevent.spawn(patient) for _ in range(5)])
    assert not any(in_function("patient")(line) for line in watched.found())


def test_users_that_take_turns_are_not_blamed_for_the_time_of_all(watched: Watched) -> None:
    """Each has the thread for a moment, and together they make the last one wait."""

    def turn() -> None:
        until = time.thread_time_ns() + 2_000_000
        while time.thread_time_ns() < until:
            pass

    def many() -> None:
        enough = watched.looked(4)
        while not enough():
            gevent.joinall([gevent.spawn(turn) for _ in range(40)])

    assert watched.until(many, lambda line: line["file"] == IN_TURN.file)["took_ms"] > 15


def test_a_garbage_collection_is_not_the_line_that_set_it_off(watched: Watched) -> None:
    """What is to be done about it is something else."""
    kept = [[number] for number in range(400_000)]

    def collects() -> None:
        gc.collect()

    line = watched.until(collects, lambda line: line["file"] == COLLECTING.file)
    assert line["max_ms"] > 15
    assert len(kept) == 400_000


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there is no such signal")
def test_a_stopped_process_was_not_blocked(watched: Watched) -> None:
    """Somebody stopped it, suspended its machine, or looks at it in a debugger."""
    while watched.watch.heartbeat.ticks < 3:
        gevent.sleep(0.01)
    command = (
        f"import os, signal, time; time.sleep({STOPPED_S}); os.kill({os.getpid()}, signal.{{}})"
    )
    with subprocess.Popen([sys.executable, "-c", command.format("SIGCONT")]):
        os.kill(os.getpid(), signal.SIGSTOP)
        found = watched.found()
    told = watched.watch.read()
    assert told["hub_paused_ms"] > 1000 * STOPPED_S / 2
    assert told["hub_lag_max_ms"] < 1000 * STOPPED_S / 2
    assert max((line["max_ms"] for line in found), default=0) < 1000 * STOPPED_S / 2


def test_a_hub_that_cannot_be_watched_does_not_keep_a_run_from_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is noted, and the run goes on without."""

    def failing(*_: Any) -> Heartbeat:
        raise RuntimeError("no timer")

    faults.counts.clear()
    monkeypatch.setattr("trilat.locust.health.hub.Heartbeat", failing)
    assert watch_hub() is None
    assert faults.counts == {"watching the hub": 1}
    faults.counts.clear()


def test_many_lines_are_told_of_as_one() -> None:
    """A sample holds a few lines, and a stack only where it is news."""
    watched = Watched()
    watched.watch.stop()
    watched.watch._events.clear()
    stack = Stack.__name__
    for number in range(12):
        took_ns = (100 - number) * 1_000_000
        watched.watch._events.append(BlockEvent(0, took_ns, "file.py", number + 1, "f", (stack,)))
    lines = list(watched.watch.blocked())
    assert [line["line"] for line in lines] == [1, 2, 3, 4, 5, 0]
    assert (lines[-1]["file"], lines[-1]["count"]) == ("(other)", 7)
    assert lines[0]["stack"] == [stack]
    for took_ms in (101, 200):
        event = BlockEvent(0, took_ms * 1_000_000, "file.py", 1, "f", (stack,))
        watched.watch._events.append(event)
        (line,) = watched.watch.blocked()
        assert line["stack"] == ([] if took_ms < 125 else [stack])


def test_the_latest_lag_estimates_how_long_an_answer_lay() -> None:
    """Where the kernel does not tell; a healthy hub's own lateness is taken off."""
    heartbeat = Heartbeat(5_000_000, 5_000_000)
    lags = []

    def note() -> None:
        ticks = heartbeat.ticks
        until = time.thread_time_ns() + 50_000_000
        while time.thread_time_ns() < until:
            pass
        while heartbeat.ticks == ticks:
            gevent.sleep(0)
        lags.append(heartbeat.lag_ns)

    while heartbeat.ticks < 5:
        gevent.sleep(0.01)
    gevent.spawn(note).join()
    heartbeat.stop()
    assert lags[0] > 30_000_000
    assert heartbeat.lag.max_ns >= lags[0]
    assert (heartbeat.errors, heartbeat.running) == (0, False)
    ticks = heartbeat.ticks
    gevent.sleep(0.03)
    assert heartbeat.ticks == ticks
