"""Several causes at once: which of them is the largest?"""

from __future__ import annotations

from ..scenario import GeneratorOptions, LinkOptions, Scenario, ServiceOptions, Way
from .causes import JITTER, OVERTAKEN, PAUSED, STALE
from .networks import both

__all__ = ["TOGETHER"]

_BLOCKED = GeneratorOptions(block="periodic", block_ms=40, block_every_ms=60)

TOGETHER = (
    Scenario(
        "generator-and-loop-blocked",
        "service",
        "the loop is blocked for 80 of every 120 ms, the generator for 30 of every 130",
        ServiceOptions(delay_ms=2, block="periodic", block_ms=80, block_every_ms=40),
        GeneratorOptions(block="periodic", block_ms=30, block_every_ms=100),
    ),
    Scenario(
        "generator-blocked-and-delay",
        "network",
        "the generator is blocked for 40 of every 100 ms; 40 ms each way",
        ServiceOptions(delay_ms=5),
        _BLOCKED,
        link=both(Way(delay_ms=40)),
    ),
    Scenario(
        "generator-blocked-and-jitter",
        "generator",
        "the generator is blocked for 100 ms at random; 3 ms each way and 3 ms of jitter",
        ServiceOptions(delay_ms=5),
        GeneratorOptions(block="random", block_ms=100, block_every_ms=120),
        link=both(Way(delay_ms=3, jitter_ms=3)),
        off=JITTER,
    ),
    Scenario(
        "generator-saturated-and-service-slow",
        "generator",
        "HttpUser at its limit, and a handler that awaits 30 ms",
        ServiceOptions(delay_ms=30),
        GeneratorOptions(client="http"),
        users=160,
        pace=0,
    ),
    Scenario(
        "in-step-and-service-slow",
        "service.app",
        "users in step, and a handler that awaits 120 ms",
        ServiceOptions(delay_ms=120),
        GeneratorOptions(client="http", in_step=True),
        users=60,
        pace=1,
    ),
    Scenario(
        "in-step-and-computes",
        "service.queue",
        "users in step, and a handler that computes 4 ms",
        ServiceOptions(cpu_ms=4),
        GeneratorOptions(in_step=True),
        users=60,
        pace=1,
    ),
    Scenario(
        "jitter-and-queue",
        "service.queue",
        "3 ms of jitter, and a loop that is blocked for 100 of every 140 ms",
        ServiceOptions(delay_ms=2, block="periodic", block_ms=100, block_every_ms=40),
        link=both(Way(delay_ms=2, jitter_ms=3)),
        off=JITTER,
    ),
    Scenario(
        "jitter-and-small-queue",
        "network",
        "5 ms of jitter, and a loop that is blocked for 4 of every 12 ms",
        ServiceOptions(delay_ms=2, block="periodic", block_ms=4, block_every_ms=8),
        link=both(Way(delay_ms=2, jitter_ms=5)),
        off=JITTER,
    ),
    Scenario(
        "loss-and-loop-blocked",
        "network",
        "5 % loss each way, and a loop that is blocked for 20 of every 60 ms",
        ServiceOptions(delay_ms=2, block="periodic", block_ms=20, block_every_ms=40),
        link=both(Way(delay_ms=8, loss=0.05)),
        pace=8,
        off=OVERTAKEN,
    ),
    Scenario(
        "clock-ahead-and-jitter",
        "network",
        "its clock is 50 ms ahead and drifts, 5 ms of jitter",
        ServiceOptions(delay_ms=5, clock_offset_ms=50, clock_drift_ppm=100),
        link=both(Way(delay_ms=3, jitter_ms=5)),
        off=JITTER,
    ),
    Scenario(
        "streams-through-delay",
        "service.body",
        "a body in 4 pieces, 15 ms apart, and 6 ms each way",
        ServiceOptions(delay_ms=3, chunks=4, chunk_bytes=3000, chunk_gap_ms=15),
        link=both(Way(delay_ms=6)),
    ),
    Scenario(
        "redirects-through-delay",
        "network",
        "two redirects, 15 ms each way",
        ServiceOptions(delay_ms=5, redirects=2),
        link=both(Way(delay_ms=15)),
    ),
    Scenario(
        "overloaded-and-delay",
        "service.queue",
        "one worker gets more than it can compute; 10 ms each way",
        ServiceOptions(cpu_ms=6),
        link=LinkOptions("link", Way(delay_ms=10), Way(delay_ms=10)),
        users=30,
        pace=0,
        off=STALE,
    ),
    Scenario(
        "both-throttled",
        "service",
        "both control groups are short of processors",
        ServiceOptions(cpu_ms=3, cpu_quota=0.2),
        GeneratorOptions(client="http", cpu_quota=0.4),
        seconds=7,
        off=PAUSED,
    ),
)
