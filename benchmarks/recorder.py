"""What measuring costs the load generator: processor time of a request, in whole Locust processes.

    python benchmarks/recorder.py [--launches 5] [--rounds 3] [--format json]

The same users make the same requests with each of Locust's two HTTP clients: Locust alone, with
trilat and everything it does on (marks, kernel stamps, journal, attribution, samples, live
figures), with Locust's own log of requests (``locust.contrib.csv_request_logger``), and with its
OpenTelemetry (``--otel``, which makes spans for HttpUser and counts for both; to a collector that
takes everything). Each is a process of its own, a real ``locust``. They take turns, block by block,
so what slows this machine down slows all of them. And they are launched several times: where a
process happens to lie in memory makes more of a difference than some of what is measured here. What
is added is the difference to Locust alone in the same round; its median over the rounds of a launch
counts, and of those the median over the launches, with the lowest and the highest of them.

Ten users wait for a service that answers after 2 ms, whatever it is asked, and does the same work
for all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

__all__ = ["Cost", "main", "measure"]

ALONE, TRILAT, LOGGER, OTEL = "Locust alone", "trilat", "csv_request_logger", "--otel"
BLOCK = {"FastHttpUser": 12_000, "HttpUser": 3_000}
"""Requests of a block: some two seconds' work, as a part of what is measured is done once a
second, or every two seconds."""

USERS = 10
LATENCY_S = 0.002
LOCUSTFILE = Path(__file__).with_name("recorder_locustfile.py")
OTEL_PACKAGES = ("sdk", "exporter.otlp.proto.http", "instrumentation.requests")


class Canned(asyncio.Protocol):
    """Answers every request after the same time; a marked one with a stamp."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport: Any = transport
        self._missing = 0

    def data_received(self, data: bytes) -> None:
        """Take bytes in: a request's head is one read here, the body of a telemetry's may be more.

        The stamp is made for all requests, and sent to those that are marked.
        """
        if self._missing:
            self._missing -= len(data)
        elif data.startswith(b"POST"):
            head, _, body = data.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            self._missing = int(length or 0) - len(body)
        if not self._missing:
            called = time.time_ns()
            asyncio.get_running_loop().call_later(LATENCY_S, self._answer, data, called)

    def _answer(self, data: bytes, called_ns: int) -> None:
        from trilat.agent import stamp
        from trilat.agent.records import ServiceMarks

        at = data.find(b"traceparent: 00-") if b"Trilat-Run: " in data else -1
        span = int(data[at + 49 : at + 65], 16) if at >= 0 else 1
        app_ns = min(time.time_ns() - called_ns, round(LATENCY_S * 1e9))
        marks = ServiceMarks(span, called_ns, app_ns, -1, 0, 4000, 1, 1)
        timing = b"server-timing: " + stamp.encode(marks) + b"\r\n"
        head = (
            b"HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\nserver: canned\r\n"
            b"content-type: application/json\r\ncontent-length: 5\r\n"
        )
        self._transport.write(head + (timing if at >= 0 else b"") + b"\r\nhello")


async def serve() -> None:
    """Serve until standard input closes; the port is the first line of standard output."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Canned, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


@contextmanager
def service() -> Iterator[str]:
    """The service in a process of its own; its base URL."""
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        yield f"http://127.0.0.1:{int(child.stdout.readline())}"
        child.communicate()


class Subject:
    """One way to run Locust, in a process that stands still but for the blocks it is asked for."""

    def __init__(self, name: str, client: str, url: str, scratch: Path, launch: int) -> None:
        self.name, self.client = name, client
        self._scratch = scratch / f"{name}-{client}-{launch}"
        self._scratch.mkdir()
        command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--host", url]
        command += ["--headless", "--only-summary", "-u", str(USERS), "-r", str(USERS)]
        if name == OTEL:
            command.append("--otel")
        if name == TRILAT:
            command += ["--trilat-quiet", "--trilat-out", str(self._scratch / "run")]
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(launch),
            "BENCH_SUBJECT": name,
            "BENCH_CLIENT": client,
            "BENCH_FILE": str(self._scratch / "requests.csv"),
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        }
        with (self._scratch / "log").open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        self._line("ready")

    def block(self, requests: int) -> float:
        """Microseconds of processor time of one of so many requests."""
        self._input.write(f"{requests}\n")
        self._input.flush()
        return float(self._line())

    def stop(self) -> None:
        """End the run."""
        self._process.communicate(timeout=60)

    def check(self, requests: int) -> None:
        """Make sure that what was measured did its work.

        Raises:
            RuntimeError: it did not.
        """
        if self.name == TRILAT:
            total = json.loads((self._scratch / "run" / "result.json").read_text())["total"]
            if (total["requests"], total["matched"]) != (requests, requests):
                raise RuntimeError(f"{self.client}: {total['matched']} of {requests} matched")
        if self.name == LOGGER and sum(1 for _ in (self._scratch / "requests.csv").open()) < 2:
            raise RuntimeError(f"{self.client}: no request was logged")

    @property
    def _input(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _line(self, expected: str = "") -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line or not line.startswith(expected):
            raise RuntimeError(
                f"{self.name}, {self.client}: it said {line!r}\n"
                + (self._scratch / "log").read_text()
            )
        return line


@dataclass(frozen=True, slots=True)
class Cost:
    """What one subject costs; microseconds of processor time a request.

    Attributes:
        client: of Locust's two.
        subject: what runs beside it.
        without_us: of Locust alone.
        added_us: by the subject; 0 for Locust alone.
        lowest_us: the same in the launch in which it was the least.
        highest_us: and in that in which it was the most.
        added_percent: of Locust alone.
        times_trilat: what is added, as a multiple of what trilat adds.
    """

    client: str
    subject: str
    without_us: float
    added_us: float
    lowest_us: float
    highest_us: float
    added_percent: float
    times_trilat: float


def measure(launches: int, rounds: int) -> tuple[list[Cost], list[str]]:
    """All subjects with both clients, and what could not be measured.

    Raises:
        RuntimeError: a subject did not do what is to be measured.
    """
    names, missing = [ALONE, TRILAT, LOGGER], []
    if all(_is_there(f"opentelemetry.{package}") for package in OTEL_PACKAGES):
        names.append(OTEL)
    else:
        missing.append("locust[otel]")
    costs: list[Cost] = []
    for client in BLOCK:
        took = [_launch(names, client, number, rounds) for number in range(1, launches + 1)]
        costs += _costs(client, took)
    return costs, missing


def _launch(names: list[str], client: str, number: int, rounds: int) -> dict[str, float]:
    """Launch each subject once: microseconds of a request alone, and what the others add."""
    requests = BLOCK[client]
    with service() as url, tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        subjects = [Subject(name, client, url, Path(scratch), number) for name in names]
        for subject in subjects:
            stack.callback(subject.stop)
        took = _rounds(subjects, rounds, requests)
        stack.pop_all().close()
        for subject in subjects:
            subject.check(requests * (rounds + 1))
    added = {name: statistics.median(each[name] - each[ALONE] for each in took) for name in names}
    return added | {ALONE: statistics.median(each[ALONE] for each in took)}


def _rounds(subjects: list[Subject], rounds: int, requests: int) -> list[dict[str, float]]:
    """Microseconds of each subject in each round; one more, before, is to warm up."""
    took = []
    for number in range(rounds + 1):
        turn = number % len(subjects)
        order = subjects[turn:] + subjects[:turn]
        took.append({subject.name: subject.block(requests) for subject in order})
    return took[1:]


def _costs(client: str, took: list[dict[str, float]]) -> list[Cost]:
    found = {name: [each[name] for each in took] for name in took[0]}
    alone, ours = (statistics.median(found[name]) for name in (ALONE, TRILAT))
    costs = [Cost(client, ALONE, round(alone, 1), 0, 0, 0, 0, 0)]
    for name, each in found.items():
        if name == ALONE:
            continue
        added = statistics.median(each)
        spread = round(min(each), 1), round(max(each), 1)
        part, times = round(100 * added / alone, 1), round(added / ours, 1)
        costs.append(Cost(client, name, round(alone, 1), round(added, 1), *spread, part, times))
    return costs


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--launches", type=int, default=5, help="of each subject (default 5)")
    parser.add_argument("--rounds", type=int, default=3, help="of a launch, paired (default 3)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
        return
    costs, missing = measure(options.launches, options.rounds)
    if missing:
        print(f"not measured, since not installed: {' '.join(missing)}", file=sys.stderr)
    if options.format == "json":
        print(json.dumps([asdict(cost) for cost in costs], indent=2))
        return
    print(
        f"{'client':14} {'':20} {'µs a request':>13} {'added':>9} {'from to':>15} {'x trilat':>17}"
    )
    for cost in costs:
        whole = cost.without_us + cost.added_us
        line = f"{cost.client:14} {cost.subject:20} {whole:13.1f}"
        if cost.subject != ALONE:
            spread = f"{cost.lowest_us:.1f} to {cost.highest_us:.1f}"
            line += f" {cost.added_us:9.1f} {spread:>15} {cost.added_percent:6.1f} %"
            line += f" {cost.times_trilat:8.1f}"
        print(line)
    print(f"Medians of {options.launches} launches, each of {options.rounds} rounds.")


if __name__ == "__main__":
    main()
