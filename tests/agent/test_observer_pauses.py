"""A real process that is stopped for a while, or is in a debugger, was not blocked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

_SERVICE = """
import asyncio, json, sys, time
import uvloop
from trilat.agent.lag import LoopLag
from trilat.agent.observer import Observer

lag, blocks = LoopLag(in_flight=lambda: 1), []
observer = Observer(lag, on_block=blocks.append)

async def main():
    lag.wake()
    observer.start()
    while lag.ticks < 20:
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    what = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    if what == "debug\\n":
        breakpoint()
    ticks = lag.ticks
    while lag.ticks < ticks + 20:
        await asyncio.sleep(0.01)
    observer.stop()
    observer.beat()
    figures = {"paused_ns": lag.paused_ns, "blocked_ns": lag.blocked_ns, "errors": observer.errors}
    print(json.dumps({**figures, "longest_ns": max((b.took_ns for b in blocks), default=0)}))

new_loop = uvloop.new_event_loop if sys.argv[1] == "uvloop" else asyncio.new_event_loop
with asyncio.Runner(loop_factory=new_loop) as runner:
    runner.run(main())
"""
_STOPPED_S = 1.2


@pytest.fixture(params=["asyncio", "uvloop"])
def service(request: pytest.FixtureRequest) -> subprocess.Popen[str]:
    """A process with a watched loop that runs, and waits for a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVICE, request.param],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there is no such signal")
def test_a_stopped_process_was_paused(service: subprocess.Popen[str]) -> None:
    """SIGSTOP is nobody's fault: its time is a pause, not a block."""
    os.kill(service.pid, signal.SIGSTOP)
    time.sleep(_STOPPED_S)
    os.kill(service.pid, signal.SIGCONT)
    out, _ = service.communicate("go\n", timeout=60)
    found = json.loads(out)
    assert found["paused_ns"] > _STOPPED_S / 2 * 1e9
    assert found["longest_ns"] < _STOPPED_S / 2 * 1e9
    assert found["errors"] == 0


def test_a_process_in_a_debugger_was_paused(service: subprocess.Popen[str]) -> None:
    """However long somebody looks at a breakpoint."""
    assert service.stdin is not None
    service.stdin.write("debug\n")
    service.stdin.flush()
    assert service.stdout is not None
    prompt = ""
    while not prompt.endswith("(Pdb) "):
        read = service.stdout.read(1)
        assert read, prompt
        prompt += read
    time.sleep(_STOPPED_S)
    out, _ = service.communicate("continue\n", timeout=60)
    found = json.loads(out)
    assert found["paused_ns"] > _STOPPED_S / 2 * 1e9
    assert found["longest_ns"] < _STOPPED_S / 2 * 1e9
    assert found["errors"] == 0
