"""What a host is: its identity, its tick rate, its processors."""

from __future__ import annotations

import os
import platform
import secrets
import socket
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

__all__ = ["HostFacts", "host_facts", "host_identity", "kernel_tick_us", "process_identity"]

_PROC = Path("/proc")
_DEFAULT_TICK_US = 4000


def host_identity(proc: Path = _PROC) -> int:
    """32-bit identity of the running kernel, never 0: equal means one wall clock.

    It is a checksum of the boot id, which all containers of one kernel share, as they share its
    wall clock. Where there is none (macOS, Windows) it is a checksum of the host name.
    """
    try:
        text = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        text = socket.gethostname()
    return crc32(text.encode()) or 1


def process_identity() -> int:
    """32-bit identity of this process, never 0: drawn at the first call, again after a fork.

    A process number would not do: containers of one host number theirs alike.
    """
    return _identity_of(os.getpid())


@cache
def _identity_of(_pid: int) -> int:
    return secrets.randbits(32) or 1


def kernel_tick_us() -> int:
    """Length of the kernel's tick in microseconds: the resolution of ``tcpi_last_data_recv``.

    The kernel counts these fields in jiffies. ``CLOCK_REALTIME_COARSE`` advances once a jiffy, so
    its resolution is the tick (4,000 at 250 Hz). 4,000 where the clock does not exist.
    """
    coarse = getattr(time, "CLOCK_REALTIME_COARSE", 5)  # Linux' number; Python 3.11 has no name
    try:
        resolution_ns = round(time.clock_getres(coarse) * 1e9)
    except (AttributeError, OSError):
        return _DEFAULT_TICK_US
    return min(max(resolution_ns // 1000, 10), 100_000)


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts of a host that a result is worth nothing without.

    Attributes:
        identity: see `host_identity`.
        name: host name.
        system: operating system and kernel release.
        cpus: processors this process may run on.
        python: version of the interpreter.
        tick_us: see `kernel_tick_us`.
    """

    identity: int
    name: str
    system: str
    cpus: int
    python: str
    tick_us: int


def host_facts() -> HostFacts:
    """The facts of the host that this process runs on."""
    has_affinity = hasattr(os, "sched_getaffinity")  # Linux only
    cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return HostFacts(
        identity=host_identity(),
        name=socket.gethostname(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpus=cpus,
        python=platform.python_version(),
        tick_us=kernel_tick_us(),
    )
