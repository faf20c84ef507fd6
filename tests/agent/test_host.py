"""What a host is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

from trilat.agent.host import host_facts, host_identity, kernel_tick_us, process_identity

if TYPE_CHECKING:
    from pathlib import Path


def _proc(folder: Path, boot_id: bytes) -> Path:
    random = folder / "sys/kernel/random"
    random.mkdir(parents=True)
    (random / "boot_id").write_bytes(boot_id)
    return folder


def test_identity_is_of_the_boot(tmp_path: Path) -> None:
    """One boot has one identity, another boot another."""
    one = host_identity(_proc(tmp_path / "a", b"3c0f1d3e-7a2c-4f61-8a54-9e2d6f5b1c10\n"))
    two = host_identity(_proc(tmp_path / "b", b"9b7e1c52-0d1f-4a6e-b3c8-2f4d5e6a7b80\n"))
    assert one == crc32(b"3c0f1d3e-7a2c-4f61-8a54-9e2d6f5b1c10")
    assert one != two


def test_identity_without_a_boot_id_is_of_the_name(tmp_path: Path) -> None:
    """Where the kernel tells no boot id, or an unreadable one, the host's name stands in."""
    named = crc32(socket.gethostname().encode())
    assert host_identity(tmp_path) == named
    assert host_identity(_proc(tmp_path / "a", b"\xff\xfe")) == named


def test_identity_is_the_same_in_all_processes() -> None:
    """Two processes of this host agree, and fit the 32 bits of a stamp."""
    code = "from trilat.agent.host import host_identity; print(host_identity())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert int(ran.stdout) == host_identity()
    assert 0 < host_identity() < 2**32


def test_process_has_one_identity_and_a_fork_another() -> None:
    """The number stays for a process's life, and a child process draws its own."""
    code = (
        "import os\n"
        "from trilat.agent.host import process_identity as own\n"
        "before = own()\n"
        "read, write = os.pipe()\n"
        "if not (child := os.fork()):\n"
        "    os.write(write, b'%d' % own())\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(before, own(), os.read(read, 20).decode())\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    before, after, childs = map(int, ran.stdout.split())
    assert before == after != childs
    assert 0 < process_identity() < 2**32


def test_tick_is_the_kernels() -> None:
    """The tick is the step of the coarse clock, which can be seen to advance by it."""
    tick_us = kernel_tick_us()
    assert 10 <= tick_us <= 100_000
    if not sys.platform.startswith("linux"):
        return
    steps = set()
    last = begun = time.clock_gettime_ns(5)
    while last - begun < 20 * tick_us * 1000:
        now = time.clock_gettime_ns(5)
        if now != last:
            steps.add(now - last)
            last = now
    assert min(steps) >= 0.9 * tick_us * 1000


@pytest.mark.parametrize("resolution_s", [0.0, 1e-9, 5.0])
def test_tick_stays_within_reason(monkeypatch: pytest.MonkeyPatch, resolution_s: float) -> None:
    """A clock that claims an absurd resolution gives one that a stamp can carry."""
    monkeypatch.setattr(time, "clock_getres", lambda _clock: resolution_s)
    assert 10 <= kernel_tick_us() <= 100_000


def test_tick_without_the_clock_is_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no coarse clock, 250 Hz is assumed."""

    def refuse(_clock: int) -> float:
        raise OSError("no such clock")

    monkeypatch.setattr(time, "clock_getres", refuse)
    assert kernel_tick_us() == 4000


def test_facts_are_of_this_host() -> None:
    """The facts name this host, its kernel and the processors that this process may use."""
    facts = host_facts()
    assert facts.identity == host_identity()
    assert facts.name == socket.gethostname()
    assert os.uname().release in facts.system
    assert 1 <= facts.cpus <= (os.cpu_count() or 1)
    assert facts.python == sys.version.split()[0]
    assert facts.tick_us == kernel_tick_us()
