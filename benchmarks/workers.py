"""What the reports of workers cost: a worker that packs them, the line, and the master.

    python benchmarks/workers.py [--rounds 30] [--format json]

A report holds what came in three seconds, at a thousand requests a second and at three thousand. It
is packed page by page, between which the worker's users go on: the longest page is for how long one
may have to wait. The master reads a report, adds it to what it knows of the worker and to the
total. Processor time of the shortest of the rounds, as whatever else the machine does can only add.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np
from locust.rpc.protocol import Message
from sketch import make_rows  # type: ignore[import-not-found]  # it lies beside this file

import trilat.locust  # noqa: F401 - Locust patches the process, before anything else is imported
from trilat.agent.layout import EXCHANGE, Kind, name_layout
from trilat.correlator.requests.pipeline import Attributor
from trilat.correlator.sketches.book import SketchBook
from trilat.locust.distribution.reports import KEY, PROTOCOL, Parcel, Report, said_of
from trilat.locust.distribution.workers import Crew

__all__ = ["Cost", "main", "measure"]

RUN = "0123456789ab"
SECONDS = 3  # between two of Locust's reports
HOST = 1


@dataclass(frozen=True, slots=True)
class Cost:
    """One report.

    Attributes:
        endpoints: that its requests belong to.
        requests: that it tells of.
        bytes: of our part of it.
        pack_ms: processor time for packing all of it.
        page_ms: the same for its longest page.
        master_ms: processor time that the master takes for our part, from the wire's bytes on.
    """

    endpoints: int
    requests: int
    bytes: int
    pack_ms: float
    page_ms: float
    master_ms: float


def make_book(requests: int, endpoints: int) -> SketchBook:
    """What one worker attributes in the time of a report."""
    attributor = Attributor(HOST)
    names = name_layout(EXCHANGE.size).struct
    for number in range(endpoints):
        text = f"GET\t/shop/{number}/items/[id]".encode()
        attributor.feed(names.pack(int(Kind.NAME), 0, number, text, 0))
    attributor.feed(make_rows(requests, endpoints, HOST).tobytes())
    attributor.flush()
    return attributor.take_book()


def shortest_ms(work: Callable[[], object], rounds: int) -> float:
    """Processor time of the shortest of a number of rounds."""
    took = []
    for _ in range(rounds):
        begun_ns = time.thread_time_ns()
        work()
        took.append(time.thread_time_ns() - begun_ns)
    return min(took) / 1e6


def longest_page_ms(book: SketchBook, rounds: int) -> float:
    """Processor time of a report's longest page, in the round where that was shortest."""
    longest = []
    for _ in range(rounds):
        pages, took = book.to_pages(), []
        while True:
            begun_ns = time.thread_time_ns()
            if next(pages, None) is None:
                break
            took.append(time.thread_time_ns() - begun_ns)
        longest.append(max(took))
    return min(longest) / 1e6


def report_of(book: SketchBook, number: int) -> Report:
    """A report with one parcel."""
    requests = book.total().requests
    return Report(
        protocol=PROTOCOL,
        trilat=version("trilat"),
        run=RUN,
        session="feed",
        host="generator",
        host_identity=HOST,
        pid=1,
        journals="/journals",
        shared=True,
        epoch=0,
        requests=requests * number,
        left_out=0,
        carried=0,
        users=100,
        final=False,
        cpu_s=1.0,
        elapsed_s=2.0,
        cpu_highest=50.0,
        cpu_latest=50.0,
        hub_lag_ms=1.0,
        wanted=0.0,
        tasks=0,
        missed=0,
        kernel_stamps=True,
        same_host=True,
        lost={},
        samples=[],
        parcels=[Parcel(number, 0, requests, list(book.to_pages()))],
    )


def measure(requests: int, endpoints: int, rounds: int) -> Cost:
    """All of one kind of report."""
    book = make_book(requests, endpoints)
    message: Any = Message
    wires = [
        message("stats", {KEY: [report_of(book, number + 1).to_wire()]}, "worker").serialize()
        for number in range(rounds)
    ]
    arriving = iter(wires)
    session: Any = SimpleNamespace(book=SketchBook(), epoch=0)
    crew = Crew(session, lambda *_: None, lambda _: None)

    def take() -> None:
        data = message.unserialize(next(arriving)).data
        crew.receive("worker", said_of(data, RUN), requests)

    master_ms = shortest_ms(take, rounds)
    assert session.book.total().requests == requests * rounds
    return Cost(
        endpoints,
        requests,
        len(wires[-1]),
        round(shortest_ms(lambda: list(book.to_pages()), rounds), 2),
        round(longest_page_ms(book, rounds), 2),
        round(master_ms, 2),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=30, help="rounds of each (default 30)")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    options = parser.parse_args()
    costs = [
        measure(rate * SECONDS, endpoints, options.rounds)
        for endpoints in (1, 50, 1000)
        for rate in (1000, 3000)
    ]
    if options.format == "json":
        facts = {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "system": f"{platform.system()} {platform.release()}",
            "rounds": options.rounds,
        }
        print(json.dumps({**facts, "costs": [asdict(cost) for cost in costs]}, indent=2))
        return
    print(
        f"{'endpoints':>9}{'requests':>10}{'bytes':>11}"
        f"{'pack, ms':>10}{'a page, ms':>12}{'master, ms':>12}"
    )
    for cost in costs:
        print(
            f"{cost.endpoints:9,}{cost.requests:10,}{cost.bytes:11,}"
            f"{cost.pack_ms:10.2f}{cost.page_ms:12.2f}{cost.master_ms:12.2f}"
        )
    print(f"Processor time, shortest of {options.rounds} rounds; numpy {np.__version__}.")


if __name__ == "__main__":
    main()
