"""What a page of metrics takes, and what an event loop feels of it.

    python benchmarks/page.py [--series 500] [--rounds 20] [--format json]

The service has as many sets of method, route and status as one process may have. Its page is
written by `MetricsApp`, and, for comparison, by prometheus_client alone on such a thread. The
processor's time is the smallest of the rounds. Meanwhile the loop sleeps for a millisecond again
and again; how much later it wakes is what requests feel.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from trilat.agent.collector import ServiceCollector
from trilat.agent.counters import Counters
from trilat.agent.families import HTTP, Histogram
from trilat.agent.sums import add_up
from trilat.agent.workers import GroupSnapshot, WorkerGroup
from trilat.middleware.metrics import MetricsApp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

__all__ = ["Cost", "main", "measure"]

TICK_S = 0.001
REQUESTS = 50
FORMATS: Mapping[str, str] = {
    "Prometheus' text": "text/plain",
    "OpenMetrics": "application/openmetrics-text; version=1.0.0",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What one way of writing a page takes.

    Attributes:
        way: which.
        cpu_ms: processor time of a page, the smallest of the rounds.
        late_p50_ms: how much later than planned the loop woke meanwhile, median.
        late_p90_ms: the same, 90th percentile.
    """

    way: str
    cpu_ms: float
    late_p50_ms: float
    late_p90_ms: float


class _Service(WorkerGroup):
    """A service of one process, with requests of some length in each of its series."""

    def __init__(self, series: int) -> None:
        super().__init__()
        self._numbers = Counters(None)
        spread = random.Random(1)
        durations = next(m for m in HTTP.metrics if m.name.endswith("request_duration_seconds"))
        assert isinstance(durations, Histogram)
        for number in range(series):
            at = self._numbers.block(HTTP, ("GET", f"/orders/{{order}}/items/{number}", "200"))
            for _ in range(REQUESTS):
                took_ns = round(spread.lognormvariate(16, 1.5))
                durations.observe(self._numbers.view, at + HTTP.places[durations.name], took_ns)

    def snapshot(self) -> GroupSnapshot:
        """Read as from the workers' files."""
        return GroupSnapshot(add_up(self._numbers.snapshot().series), 1)


def measure(way: str, write: Callable[[], Awaitable[object]], rounds: int) -> Cost:
    """Write pages while the loop that they are written beside ticks."""
    cpu_s: list[float] = []
    late_s: list[float] = []

    async def alone() -> None:
        began_s = time.process_time()
        await write()
        cpu_s.append(time.process_time() - began_s)

    async def ticking() -> None:
        page = asyncio.ensure_future(write())
        while not page.done():
            began_s = time.perf_counter()
            await asyncio.sleep(TICK_S)
            late_s.append(time.perf_counter() - began_s - TICK_S)
        await page

    for _ in range(rounds):
        asyncio.run(alone())
        asyncio.run(ticking())
    tenths = statistics.quantiles(late_s, n=10)
    return Cost(way, min(cpu_s) * 1e3, statistics.median(late_s) * 1e3, tenths[-1] * 1e3)


def ours(app: MetricsApp, accept: str) -> Callable[[], Awaitable[object]]:
    """The page as a client gets it."""
    scope = {"type": "http", "method": "GET", "headers": [(b"accept", accept.encode())]}

    async def write() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request"}

        async def send(_: Any) -> None:
            pass

        await app(dict(scope), receive, send)

    return write


def theirs(
    pool: ThreadPoolExecutor, registry: CollectorRegistry, accept: str
) -> Callable[[], Awaitable[object]]:
    """The same page as the library writes it by itself."""
    encode, _ = choose_encoder(accept)

    async def write() -> None:
        await asyncio.get_running_loop().run_in_executor(pool, encode, registry)

    return write


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--series", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--format", choices=["table", "json"], default="table")
    options = parser.parse_args()
    collector = ServiceCollector(_Service(options.series))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    app = MetricsApp(collector)
    costs = []
    with ThreadPoolExecutor(1) as pool:
        for name, accept in FORMATS.items():
            for who, write in (
                ("MetricsApp", ours(app, accept)),
                ("prometheus_client", theirs(pool, registry, accept)),
            ):
                costs.append(measure(f"{name}, {who}", write, options.rounds))
    if options.format == "json":
        print(json.dumps([asdict(cost) for cost in costs], indent=1))
        return
    print(f"{'a page':40} {'CPU, ms':>9} {'late p50, ms':>13} {'late p90, ms':>13}")
    for cost in costs:
        print(f"{cost.way:40} {cost.cpu_ms:9.0f} {cost.late_p50_ms:13.1f} {cost.late_p90_ms:13.1f}")


if __name__ == "__main__":
    main()
