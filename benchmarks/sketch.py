"""What attribution costs the load generator, in whose process it runs, per request and per batch.

    python benchmarks/sketch.py [--rounds 30] [--format json]

The requests are made up: what they hold hardly matters for the time it takes. Each step is
measured by itself, and all of them as `Attributor` does them. The shortest of the rounds counts,
as whatever else the machine does can only add.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from trilat.agent.layout import Kind, MarkFlag
from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import attribute
from trilat.correlator.attribution.cuts import cut
from trilat.correlator.records.frames import EXCHANGE_DTYPE
from trilat.correlator.requests.pipeline import Attributor
from trilat.correlator.sketches.book import SketchBook
from trilat.correlator.sketches.sketch import Sketch
from trilat.correlator.sketches.sparse import run_starts
from trilat.correlator.sketches.tally import tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilat.correlator.arrays import Rows

__all__ = ["Cost", "main", "measure"]

OWN_HOST, OTHER_HOST = 1, 2
MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    """What one step takes.

    Attributes:
        step: what is done.
        requests: in one batch.
        endpoints: that they belong to.
        batch_us: microseconds for the batch.
        request_us: the same for one request.
    """

    step: str
    requests: int
    endpoints: int
    batch_us: float
    request_us: float


def make_rows(requests: int, endpoints: int, host: int) -> Rows:
    """Matched requests within one window, 1 to 100 ms long, to a service on a host."""
    random = np.random.default_rng(1)
    rows = np.zeros(requests, EXCHANGE_DTYPE)
    at = np.sort(random.integers(0, 1000 * MS, requests)) + 10**12
    marks = np.cumsum(random.exponential(4 * MS, (5, requests)) + 0.2 * MS, axis=0)
    sent, called, answered, read, response = marks.astype(np.int64)
    rows["kind"] = Kind.EXCHANGE
    rows["flags"] = MarkFlag.SENT | MarkFlag.ANSWERED
    rows["name_id"] = np.arange(requests) % endpoints
    rows["started_wall_ns"] = rows["started_ns"] = at
    rows["response_ns"] = response
    rows["sent_ns"] = sent
    rows["first_read_ns"] = rows["last_read_ns"] = read
    rows["first_lay_ns"] = rows["last_lay_ns"] = (read - answered) // 2
    rows["read_wall_ns"] = at + read
    rows["lateness_ns"] = -1
    rows["service_called_wall_ns"] = at + called
    rows["service_app_ns"] = answered - called
    rows["service_queue_ms"] = -1
    rows["service_host"] = host
    return rows


def shortest_us(work: Callable[[], object], rounds: int) -> float:
    """Microseconds of the shortest of a number of rounds."""
    took = []
    for _ in range(rounds):
        begun_ns = time.perf_counter_ns()
        work()
        took.append(time.perf_counter_ns() - begun_ns)
    return min(took) / 1000


def measure(requests: int, endpoints: int, host: int, rounds: int) -> list[Cost]:
    """All steps for one kind of batch."""
    rows = make_rows(requests, endpoints, host)
    rows = rows[np.argsort(rows["name_id"], kind="stable")]
    starts = run_starts(rows["name_id"].astype(np.int32))
    cuts, aligner = cut(rows), Aligner(OWN_HOST)
    alignment = aligner.align(cuts)
    attributed = attribute(cuts, alignment)
    attributor, raw = Attributor(OWN_HOST), rows.tobytes()

    def feed() -> None:
        attributor.feed(raw)
        attributor.flush()

    feed()
    book = attributor.take_book()
    page = next(iter(book.endpoints.values()))
    packed = page.to_bytes()
    place = "own host" if host == OWN_HOST else "other host"
    steps: dict[str, Callable[[], object]] = {
        "cut": lambda: cut(rows),
        f"align, {place}": lambda: aligner.align(cuts),
        "attribute": lambda: attribute(cuts, alignment),
        "tally": lambda: tally(attributed, starts),
        f"all of it, {place}": feed,
        "merge two books": lambda: SketchBook().merge(book),
        f"one sketch to {len(packed):,} bytes": page.to_bytes,
        "one sketch from bytes": lambda: Sketch.from_bytes(packed),
    }
    return [
        Cost(step, requests, endpoints, us := shortest_us(work, rounds), us / requests)
        for step, work in steps.items()
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=30, help="rounds of each (default 30)")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    options = parser.parse_args()
    costs = [
        cost
        for requests, endpoints, host in (
            (20, 1, OWN_HOST),
            (2000, 1, OWN_HOST),
            (2000, 1, OTHER_HOST),
            (2000, 50, OWN_HOST),
        )
        for cost in measure(requests, endpoints, host, options.rounds)
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
    print(f"{'step':32}{'requests':>10}{'endpoints':>11}{'µs a batch':>12}{'µs a request':>14}")
    for cost in costs:
        print(
            f"{cost.step:32}{cost.requests:10,}{cost.endpoints:11}"
            f"{cost.batch_us:12.0f}{cost.request_us:14.3f}"
        )
    print(f"Shortest of {options.rounds} rounds; numpy {np.__version__}.")


if __name__ == "__main__":
    main()
