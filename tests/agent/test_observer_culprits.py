"""Whatever blocks a real event loop is named: file, line and function."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import sqlite3
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

import pytest
import uvloop

from trilat.agent.blocks import BlockedPlaces
from trilat.agent.lag import LoopLag
from trilat.agent.observer import Observer
from trilat.agent.stillness import Stillness

LOOKS = 5  # 20 ms apart, the first one when the timer is 75 ms overdue: more than 100 ms in all
_GIVE_UP_S = 60


class Looks:
    """Counts how often the watching thread has looked, so that nothing here depends on speed."""

    def __init__(self) -> None:
        self.number = 0

    def frames(self) -> Mapping[int, FrameType]:
        """What the observer asks for."""
        self.number += 1
        return sys._current_frames()

    def wanted(self) -> Callable[[], bool]:
        """Whether it has not yet looked often enough from here on."""
        goal, end = self.number + LOOKS, time.monotonic() + _GIVE_UP_S
        return lambda: self.number < goal and time.monotonic() < end


def sleeps(more: Callable[[], bool], _: Path) -> None:
    """A sleep of the wrong kind."""
    while more():
        time.sleep(0.05)


def computes(more: Callable[[], bool], _: Path) -> None:
    """Python code that keeps the interpreter busy."""
    while more():
        sum(range(20_000))


def compresses(more: Callable[[], bool], _: Path) -> None:
    """C code that lets go of the interpreter."""
    data = bytes(range(256)) * 40_000
    while more():
        zlib.compress(data)


def holds_the_interpreter(more: Callable[[], bool], _: Path) -> None:
    """C code that does not let go of it, and does not compute either."""
    usleep = ctypes.PyDLL(None).usleep
    while more():
        usleep(150_000)


def receives(more: Callable[[], bool], _: Path) -> None:
    """A socket without an event loop."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0.05)
        while more():
            with pytest.raises(TimeoutError):
                ours.recv(1)


def queries(more: Callable[[], bool], directory: Path) -> None:
    """A database that somebody else has locked."""
    file = directory / "locked.sqlite"
    first, second = sqlite3.connect(file), sqlite3.connect(file, timeout=0.05)
    try:
        first.execute("BEGIN EXCLUSIVE")
        while more():
            with pytest.raises(sqlite3.OperationalError):
                second.execute("BEGIN EXCLUSIVE")
    finally:
        first.close()
        second.close()


CULPRITS = (sleeps, computes, compresses, holds_the_interpreter, receives, queries)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_blocks_the_loop_is_named(
    new_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """Sleeping, computing, C code with and without the interpreter, sockets and databases."""
    looks, places = Looks(), BlockedPlaces()
    lag = LoopLag()
    # A busy machine must not be taken for a process that stood still: it always computes.
    stillness = Stillness(time.perf_counter_ns)
    observer = Observer(lag, on_block=places.add, stillness=stillness, frames=looks.frames)

    async def main() -> None:
        lag.wake()
        observer.start()
        for culprit in CULPRITS:
            lag.wake()
            ticks = lag.ticks
            while lag.ticks < ticks + 2:
                await asyncio.sleep(0.001)
            culprit(looks.wanted(), tmp_path)
        ticks = lag.ticks
        while lag.ticks < ticks + 2:
            await asyncio.sleep(0.001)

    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(main())
    finally:
        observer.stop()
    observer.beat()
    found = {event.function: event for event in places.take_new()}
    assert {culprit.__name__ for culprit in CULPRITS} <= set(found)
    for culprit in CULPRITS:
        event, first = found[culprit.__name__], culprit.__code__.co_firstlineno
        assert event.file.endswith("test_observer_culprits.py")
        assert first < event.line <= first + 15
        assert f"{event.file}:{event.line} {event.function}" in event.stack
        assert event.took_ns > lag.late_ns
    assert (lag.errors, observer.errors) == (0, 0)
