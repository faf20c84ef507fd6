"""What is done beside the event loop, and where there is none of asyncio."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from trilat.middleware.serving import Beside


def test_functions_run_on_threads_of_their_own() -> None:
    """So many at a time as there are threads; what they raise is raised."""
    beside = Beside(2, "beside")
    together = threading.Barrier(2, timeout=30)

    def meet(number: int, *, sign: int) -> tuple[int, str]:
        together.wait()
        return number * sign, threading.current_thread().name

    def fail() -> None:
        raise LookupError("nothing")

    async def show() -> list[tuple[int, str]]:
        with pytest.raises(LookupError, match="nothing"):
            await beside.run(fail)
        return await asyncio.gather(*(beside.run(meet, each, sign=-1) for each in (1, 2)))

    found = asyncio.run(show())
    assert [number for number, _ in found] == [-1, -2]
    assert {name for _, name in found} == {"beside_0", "beside_1"}


def test_without_asyncio_they_run_at_once() -> None:
    """Under trio there is no loop to come back to."""
    asked = Beside(1, "beside").run(threading.get_ident)
    with pytest.raises(StopIteration) as ended:
        asked.send(None)
    assert ended.value.value == threading.get_ident()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_fork_has_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the parent are not there; what is handed to them would wait for ever."""
    beside = Beside(1, "beside")
    idle = asyncio.run(beside.run(threading.current_thread))
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as it is in another process
    assert asyncio.run(beside.run(threading.current_thread)) is not idle
