"""What a finished run costs: its journals written, read and attributed, and its report.

    python benchmarks/finished.py [--requests 1000000 10000000] [--format json]

The requests are made up, 2,000 a second at 20 endpoints, in journal files as a generator leaves
them. Each step runs in a process of its own, so that its peak memory is its own. The floor is what
nobody can go below: the same files read, and their columns summed, bare. The join with a service's
journals is not in it.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from sketch import make_rows  # type: ignore[import-not-found]

from trilat.agent.host import host_facts
from trilat.agent.journal import JournalWriter
from trilat.agent.segment import HEADER_SIZE, journal_files, read_segment
from trilat.agent.stamp import EMPTY
from trilat.correlator.finish import finish
from trilat.correlator.records.frames import EXCHANGE_DTYPE
from trilat.correlator.requests.pipeline import Attributor
from trilat.correlator.run.manifest import Manifest
from trilat.correlator.run.rundir import RunDirectory

__all__ = ["Cost", "main"]

HOST = 1
ENDPOINTS = 20
PER_SECOND = 2000
SEGMENT_BYTES = 8 * 2**20
RUN = "0123456789ab"
NS = 1_000_000_000
STEPS = ("floor", "read", "attribute", "report")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one step takes.

    Attributes:
        step: what is done.
        requests: that the run has.
        seconds: by the wall.
        processor_s: of processor time.
        peak_mb: the process' largest memory.
        memory_before_mb: of that, before it began: Python and numpy.
        requests_per_s: by processor time.
        times_floor: of the floor's processor time; None for the floor and for the report.
        bytes: of what was read, or of the report.
    """

    step: str
    requests: int
    seconds: float
    processor_s: float
    peak_mb: float
    memory_before_mb: float
    requests_per_s: float
    times_floor: float | None
    bytes: int


def write_run(folder: Path, requests: int) -> float:
    """Write the journals of a run.

    Returns:
        Microseconds to append one record, as a generator does it.
    """
    facts = {"run": RUN, "side": "generator", "host": HOST}
    writer = JournalWriter(folder, "generator-1", facts, segment_bytes=SEGMENT_BYTES)
    names = [writer.name_id(f"GET\t/endpoint/{number}") for number in range(ENDPOINTS)]
    block = make_rows(PER_SECOND, ENDPOINTS, HOST)
    block["name_id"] = np.array(names, np.uint32)[np.arange(PER_SECOND) % ENDPOINTS]
    stamp_at = (EXCHANGE_DTYPE.names or ()).index("service_span")
    values = [(*row[:stamp_at], EMPTY, *row[-3:-1]) for row in block.tolist()]
    began = time.perf_counter_ns()
    for row in values:
        writer.append(*row)
    append_us = (time.perf_counter_ns() - began) / 1000 / PER_SECOND
    writer.close()
    first = journal_files(folder)[0].read_bytes()
    per_file = (SEGMENT_BYTES - HEADER_SIZE) // EXCHANGE_DTYPE.itemsize
    written, number = PER_SECOND, 2
    while written < requests:
        rows = _rows(block, written, min(per_file, requests - written))
        path = folder / f"generator-1-{number:06}.trilat"
        path.write_bytes(first[:HEADER_SIZE] + rows.tobytes())
        written, number = written + rows.size, number + 1
    return append_us


def _rows(block: np.ndarray, begin: int, count: int) -> np.ndarray:
    """Rows of a run from a place on: the same second again and again, each time a second later."""
    places = np.arange(begin, begin + count)
    rows = block[places % PER_SECOND]
    later = places // PER_SECOND * NS
    for name in ("started_wall_ns", "started_ns", "read_wall_ns", "service_called_wall_ns"):
        rows[name] += later
    rows["commit"] = np.arange(1, count + 1)
    return rows


def floor(folder: Path) -> int:
    """Read all files and sum their columns; nothing else."""
    total = 0
    for path in journal_files(folder):
        rows = np.fromfile(path, EXCHANGE_DTYPE, offset=HEADER_SIZE)
        for name in EXCHANGE_DTYPE.names or ():
            total += int(rows[name].sum(dtype=np.int64))
    return sum(path.stat().st_size for path in journal_files(folder))


def read(folder: Path) -> int:
    """Read all files as journals, which finds out where their records end."""
    return sum(len(read_segment(path).records) for path in journal_files(folder))


def attributed(folder: Path) -> Attributor:
    """Attribute all requests."""
    attributor = Attributor(HOST)
    for path in journal_files(folder):
        attributor.feed(read_segment(path).records)
    attributor.flush()
    return attributor


def report(folder: Path) -> int:
    """Judge the run and write its files; the size of the report."""
    total = (book := attributed(folder).book).total()
    facts = host_facts()
    manifest = Manifest(
        run_id=RUN,
        started_wall_ns=total.first_wall_ns,
        ended_wall_ns=total.last_wall_ns,
        measured_s=(total.last_wall_ns - total.first_wall_ns) / NS,
        trilat="0",
        locust="0",
        python=facts.python,
        host=asdict(facts),
        command=["locust"],
        locustfile="locustfile.py",
        target_host=None,
        user_classes=[],
        users=100,
        objectives=["p95<=50ms"],
    )
    with tempfile.TemporaryDirectory() as scratch:
        run = RunDirectory.create(Path(scratch) / "run", RUN, time.time())
        began = time.perf_counter(), time.process_time()
        finish(run, manifest, book)
        _say_took(began, run.report.stat().st_size)
    return 0


def _say_took(began: tuple[float, float], size: int) -> None:
    now = time.perf_counter(), time.process_time()
    print(json.dumps([now[0] - began[0], now[1] - began[1], peak_mb(), size]), flush=True)


def peak_mb() -> float:
    """The largest memory of this process so far.

    Not ``ru_maxrss``: that of a new process begins with its parent's.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _child(step: str, folder: Path) -> None:
    """Do one step in this process, and say what it took."""
    print(json.dumps(peak_mb()))
    if step == "report":
        report(folder)
        return
    work: Callable[[Path], object] = {"floor": floor, "read": read, "attribute": attributed}[step]
    began = time.perf_counter(), time.process_time()
    work(folder)
    _say_took(began, sum(path.stat().st_size for path in journal_files(folder)))


def measure(requests: int) -> tuple[float, list[Cost]]:
    """All steps for a run of so many requests; and the microseconds to append a record."""
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        append_us = write_run(folder, requests)
        for step in STEPS:
            command = [sys.executable, __file__, "--child", step, scratch]
            ran = subprocess.run(command, check=True, capture_output=True, text=True)
            before_mb, (seconds, processor_s, peak_mb, size) = map(
                json.loads, ran.stdout.split("\n")[:2]
            )
            least = costs[0].processor_s if costs else None
            times = None if least is None or step == "report" else round(processor_s / least, 1)
            costs.append(
                Cost(
                    step,
                    requests,
                    round(seconds, 3),
                    round(processor_s, 3),
                    round(peak_mb, 1),
                    round(before_mb, 1),
                    round(requests / processor_s),
                    times,
                    size,
                )
            )
    return append_us, costs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options.child[0], Path(options.child[1]))
        return
    measured = [measure(requests) for requests in options.requests]
    append_us = min(us for us, _ in measured)
    costs = [cost for _, found in measured for cost in found]
    if options.format == "json":
        facts = {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "system": f"{platform.system()} {platform.release()}",
            "append_us": round(append_us, 2),
        }
        print(json.dumps({**facts, "costs": [asdict(cost) for cost in costs]}, indent=2))
        return
    print(f"{'step':12}{'requests':>12}{'s':>9}{'CPU s':>9}{'peak MB':>9}{'M/s':>8}{'x floor':>9}")
    for cost in costs:
        times = "" if cost.times_floor is None else f"{cost.times_floor:.1f}"
        print(
            f"{cost.step:12}{cost.requests:12,}{cost.seconds:9.2f}{cost.processor_s:9.2f}"
            f"{cost.peak_mb:9.0f}{cost.requests_per_s / 1e6:8.2f}{times:>9}"
        )
    print(f"To append a record takes {append_us:.1f} µs. numpy {np.__version__}.")


if __name__ == "__main__":
    main()
