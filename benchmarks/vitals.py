"""What one look at a process' vitals takes, part by part, and a second's share of a core.

    python benchmarks/vitals.py [--rounds 300] [--format json]

A service's watching thread and the load generator's hub each look once a second. The process that
is measured listens on a socket, has 200 files open and 200 MB of memory, as a service might. Each
part is repeated; the median counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import socket
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trilat.agent.cgroup import ControlGroup
from trilat.agent.listeners import Listeners
from trilat.agent.pauses import CollectorPauses
from trilat.agent.process import KernelProcess, PortableProcess
from trilat.agent.processors import kernel_times, portable_times
from trilat.agent.samples import SampleWriter
from trilat.agent.vitals import Vitals

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Cost", "main", "measure"]

FILES = 200
MEMORY = 200 * 2**20
COLLECTIONS = 20_000


@dataclass(frozen=True, slots=True)
class Cost:
    """What one part takes.

    Attributes:
        part: what is done.
        median_us: microseconds, median.
        highest_us: the longest of the rounds.
    """

    part: str
    median_us: float
    highest_us: float


def _timed(part: str, call: Callable[[], object], rounds: int) -> Cost:
    call()
    taken = []
    for _ in range(rounds):
        began = time.perf_counter_ns()
        call()
        taken.append((time.perf_counter_ns() - began) / 1000)
    return Cost(part, round(statistics.median(taken), 1), round(max(taken), 1))


def _collection(rounds: int) -> Cost:
    """What counting a garbage collection adds to it: the shortest of blocks with and without."""

    def block() -> float:
        began = time.perf_counter_ns()
        for _ in range(COLLECTIONS):
            gc.collect(0)
        return (time.perf_counter_ns() - began) / COLLECTIONS / 1000

    added = []
    for _ in range(max(rounds // 50, 3)):
        bare = block()
        pauses = CollectorPauses()
        added.append(block() - bare)
        pauses.close()
    return Cost(
        "a garbage collection counted", *(round(f(added), 2) for f in (statistics.median, max))
    )


def measure(rounds: int) -> list[Cost]:
    """Time each part ``rounds`` times."""
    with ExitStack() as held:
        server = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        for _ in range(FILES):
            held.enter_context(Path(os.devnull).open("rb"))
        memory = bytearray(os.urandom(4096)) * (MEMORY // 4096)
        vitals, generators = Vitals(), Vitals(thorough=False)
        held.callback(vitals.close)
        held.callback(generators.close)
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        writer = SampleWriter(folder / "service.jsonl", {"side": "service"})
        held.callback(writer.close)
        figures = vitals.read()
        process, group, listeners = KernelProcess(), ControlGroup(), Listeners()
        listeners.find()
        parts: dict[str, Callable[[], object]] = {
            "all, as a service": vitals.read,
            "all, as a generator": generators.read,
            "one sample written": partial(writer.write, "vitals", figures),
            "- process": process.read,
            "- processors": kernel_times,
            "- throttling": group.throttled_ns,
            "- listening sockets": listeners.read,
            "- memory limit, every 10 s": group.memory_limit_bytes,
            "- looking for sockets, every 10 s": listeners.find,
            "- unshared memory, every 10 s": process.unique_bytes,
            "psutil: process": PortableProcess().read,
            "psutil: processors": portable_times,
        }
        costs = [_timed(part, call, rounds) for part, call in parts.items()]
        assert server.fileno() >= 0
        assert len(memory) == MEMORY
        return [*costs, _collection(rounds)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--format", choices=("table", "json"), default="table")
    options = parser.parse_args()
    costs = measure(options.rounds)
    if options.format == "json":
        facts = {"system": platform.platform(), "python": platform.python_version()}
        print(json.dumps({**facts, "costs": [asdict(cost) for cost in costs]}, indent=2))
        return
    print(f"{'':36}{'µs, median':>12}{'highest':>12}")
    for cost in costs:
        print(f"{cost.part:36}{cost.median_us:12.1f}{cost.highest_us:12.1f}")


if __name__ == "__main__":
    main()
