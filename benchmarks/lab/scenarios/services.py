"""What is wrong is the service; on the loopback, unless the cause needs a network."""

from __future__ import annotations

from ..scenario import GeneratorOptions, Scenario, ServiceOptions
from .causes import BACKLOG, CLOSING, PAUSED, SHORT

__all__ = ["SERVICES"]

_HTTP = GeneratorOptions(client="http")

SERVICES = (
    Scenario(
        "service-await",
        "service.app",
        "the handler awaits 20 ms",
        ServiceOptions(delay_ms=20),
    ),
    Scenario(
        "service-await-uvloop",
        "service.app",
        "the same on uvloop",
        ServiceOptions(delay_ms=20, loop="uvloop"),
    ),
    Scenario(
        "service-await-h11",
        "service.app",
        "the same with the h11 parser, asked by HttpUser",
        ServiceOptions(delay_ms=20, http="h11"),
        _HTTP,
    ),
    Scenario(
        "service-await-varies",
        "service.app",
        "the handler awaits 30 ms on average, exponentially",
        ServiceOptions(delay_ms=30, delay_varies=True),
    ),
    Scenario(
        "service-fast",
        "generator",
        "nothing is wrong, and the answer takes no time",
        off=SHORT,
    ),
    Scenario(
        "service-computes",
        "service.app",
        "the handler computes 8 ms on the event loop, at 30 % of a processor",
        ServiceOptions(cpu_ms=8),
        users=10,
        pace=4,
        off=SHORT,
    ),
    Scenario(
        "service-overloaded",
        "service.queue",
        "one worker gets more than it can compute: 6 ms each, 30 users without a pause",
        ServiceOptions(cpu_ms=6),
        users=30,
        pace=0,
    ),
    Scenario(
        "service-overloaded-uvloop",
        "service.queue",
        "the same on uvloop",
        ServiceOptions(cpu_ms=6, loop="uvloop"),
        users=30,
        pace=0,
    ),
    Scenario(
        "service-two-workers",
        "service.queue",
        "two worker processes get more than they can compute",
        ServiceOptions(cpu_ms=8, workers=2),
        users=30,
        pace=0,
    ),
    Scenario(
        "service-threads-full",
        "service.app",
        "a thread pool of 4 gets 20 requests at once, 20 ms each",
        ServiceOptions(thread_ms=20, threads=4),
        pace=0,
    ),
    Scenario(
        "service-threads-free",
        "service.app",
        "the same in a pool that is large enough",
        ServiceOptions(thread_ms=20, threads=40),
        pace=10,
    ),
    Scenario(
        "service-loop-blocked-evenly",
        "service.queue",
        "the event loop is blocked for 60 of every 120 ms",
        ServiceOptions(delay_ms=1, block="periodic", block_ms=60, block_every_ms=60),
    ),
    Scenario(
        "service-loop-blocked-uvloop",
        "service.queue",
        "the same on uvloop",
        ServiceOptions(delay_ms=1, block="periodic", block_ms=60, block_every_ms=60, loop="uvloop"),
    ),
    Scenario(
        "service-loop-blocked-briefly",
        "service.queue",
        "the event loop is blocked for 16 of every 24 ms",
        ServiceOptions(delay_ms=1, block="periodic", block_ms=16, block_every_ms=8),
        off=SHORT,
    ),
    Scenario(
        "service-loop-blocked-randomly",
        "service.queue",
        "the event loop is blocked for 100 ms at random moments",
        ServiceOptions(delay_ms=2, block="random", block_ms=100, block_every_ms=150),
    ),
    Scenario(
        "service-one-stall",
        "service.queue",
        "the event loop stalls once for 1.5 s",
        ServiceOptions(delay_ms=5, block="once", block_ms=1500, block_every_ms=1500),
    ),
    Scenario(
        "service-loop-blocked-while-awaiting",
        "service.app",
        "requests await 30 ms on a loop that is blocked for 20 of every 40 ms",
        ServiceOptions(delay_ms=30, block="periodic", block_ms=20, block_every_ms=20),
    ),
    Scenario(
        "service-garbage",
        "service.queue",
        "the garbage collector looks at 600,000 objects, four times a second",
        ServiceOptions(delay_ms=2, garbage=300_000, garbage_every_ms=150),
    ),
    Scenario(
        "service-throttled",
        "service.queue",
        "its control group may use a fifth of a processor, and it needs more",
        ServiceOptions(cpu_ms=3, cpu_quota=0.2),
    ),
    Scenario(
        "service-accepts-late",
        "service.queue",
        "a connection for each request, to a loop that is blocked for 80 of every 120 ms",
        ServiceOptions(delay_ms=1, block="periodic", block_ms=80, block_every_ms=40),
        GeneratorOptions(close=True),
        off=CLOSING,
    ),
    Scenario(
        "service-backlog-full",
        "network.connect",
        "the same with room for 4 connections: the kernel drops what asks for more",
        ServiceOptions(delay_ms=1, block="periodic", block_ms=300, block_every_ms=40, backlog=4),
        GeneratorOptions(close=True),
        users=40,
        off=BACKLOG,
    ),
    Scenario(
        "service-streams-slowly",
        "service.body",
        "the body comes in 5 pieces, 10 ms apart",
        ServiceOptions(delay_ms=5, chunks=5, chunk_bytes=2000, chunk_gap_ms=10),
    ),
    Scenario(
        "service-streams-to-http-user",
        "service.body",
        "the same, read by HttpUser",
        ServiceOptions(delay_ms=5, chunks=5, chunk_bytes=2000, chunk_gap_ms=10),
        _HTTP,
    ),
    Scenario(
        "service-large-body",
        "service.app",
        "the body has 400,000 bytes in one piece",
        ServiceOptions(delay_ms=15, chunk_bytes=400_000),
    ),
    Scenario(
        "service-redirects",
        "service.app",
        "two redirects before an answer that takes 20 ms",
        ServiceOptions(delay_ms=20, redirects=2),
    ),
    Scenario(
        "service-redirects-http-user",
        "service.app",
        "the same, followed by HttpUser",
        ServiceOptions(delay_ms=20, redirects=2),
        _HTTP,
    ),
    Scenario(
        "service-times-out",
        "unattributed",
        "the client gives up after 150 ms, and many answers take longer",
        ServiceOptions(delay_ms=200, delay_varies=True),
        GeneratorOptions(timeout_s=0.15),
        off=PAUSED,
    ),
)
