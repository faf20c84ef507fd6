"""What the recorder costs the load generator: CPU per request, Locust with and without trilat.

One process plays one Locust user with each of its two HTTP clients against a service that answers
at once, in blocks that alternate: Locust alone, then with the sockets, the marks and the recorder.
The service does the same work for marked and unmarked requests. CPU is `time.process_time` of the
generator; figures are medians over pairs of neighbouring blocks.

    python benchmarks/recorder.py [--format json] [--pairs N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BLOCK = {"FastHttpUser": 800, "HttpUser": 300}


class Canned(asyncio.Protocol):
    """Answers every request at once; a marked one with a stamp."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        """One read is one request here."""
        from trilat.agent import stamp
        from trilat.agent.records import ServiceMarks

        at = data.find(b"traceparent: 00-")
        span = int(data[at + 49 : at + 65], 16) if at >= 0 else 1
        marks = ServiceMarks(span, time.time_ns(), 20_000_000, -1, 0, 4000, 1, 1)
        timing = b"server-timing: app;dur=20.000, queue;dur=0, " + stamp.encode(marks) + b"\r\n"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5\r\n"
        self.transport.write(head + (timing if at >= 0 else b"") + b"\r\nhello")


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


class Bench:
    """One client of Locust's, with and without trilat."""

    def __init__(self, base: Any, url: str, journals: Path) -> None:
        import locust
        from locust.env import Environment

        from trilat.agent.host import host_identity
        from trilat.locust.recorder import Recorder

        user_class: Any = type("BenchUser", (base,), {"host": url, "tasks": []})
        environment = Environment(user_classes=[user_class], events=locust.events)
        environment.create_local_runner()
        self.client = user_class(environment).client
        self.handlers: list[Any] = locust.events.request._handlers
        self.recorder = Recorder(journals, base.__name__, {}, host_identity())

    def block(self, requests: int) -> float:
        """CPU microseconds per request."""
        began = time.process_time()
        for number in range(requests):
            self.client.get(f"/item/{number}", name="/item/[id]")
        return (time.process_time() - began) / requests * 1e6

    def with_trilat(self, requests: int) -> float:
        """The same with trilat."""
        from trilat.locust import clients, sockets, tls
        from trilat.locust.marker import marker

        originals = [
            (owner, name, value)
            for owner in (sockets._Socket, tls._SSLSocket, clients._HttpSession,
                          clients._FastHttpSession)
            for name, value in list(vars(owner).items())
        ]  # fmt: skip
        sockets.install()
        tls.install()
        clients.install()
        marker.start("0123456789ab")
        self.handlers.insert(0, self.recorder.on_request)
        try:
            return self.block(requests)
        finally:
            self.handlers.remove(self.recorder.on_request)
            marker.stop()
            for owner, name, value in originals:
                if vars(owner).get(name) is not value:
                    setattr(owner, name, value)


def measure(pairs: int) -> list[dict[str, Any]]:
    """A row per client: without, with, added (µs of CPU per request)."""
    import locust

    rows = []
    with service() as url, tempfile.TemporaryDirectory() as journals:
        for base in (locust.FastHttpUser, locust.HttpUser):
            bench = Bench(base, url, Path(journals))
            size = BLOCK[base.__name__]
            bench.block(size)
            bench.with_trilat(size)
            seen = [(bench.block(size), bench.with_trilat(size)) for _ in range(pairs)]
            without = statistics.median(off for off, _ in seen)
            added = statistics.median(on - off for off, on in seen)
            bench.recorder.stop()
            rows.append(
                {
                    "client": base.__name__,
                    "without_us": round(without, 1),
                    "added_us": round(added, 1),
                    "added_percent": round(100 * added / without, 1),
                    "matched": bench.recorder.book.total().matched,
                    "requests": bench.recorder.requests,
                }
            )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--pairs", type=int, default=20, help="pairs of blocks (default 20)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
        return
    rows = measure(options.pairs)
    if options.format == "json":
        print(json.dumps(rows, indent=2))
        return
    print(f"{'client':14} {'without':>10} {'added':>10} {'added':>8}")
    for row in rows:
        print(
            f"{row['client']:14} {row['without_us']:>7.1f} µs {row['added_us']:>7.1f} µs"
            f" {row['added_percent']:>6.1f} %"
        )


if __name__ == "__main__":
    main()
