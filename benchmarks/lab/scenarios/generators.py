"""What is wrong is the generator; the service and the loopback are well."""

from __future__ import annotations

from ..scenario import GeneratorOptions, Scenario, ServiceOptions
from .causes import CLOSING, PAUSED, UPLOAD

__all__ = ["GENERATORS"]

_SERVICE = ServiceOptions(delay_ms=4)
_SLOWER = ServiceOptions(delay_ms=10)

GENERATORS = (
    Scenario(
        "generator-http-saturated",
        "generator",
        "HttpUser at its limit: 60 users without a pause",
        _SERVICE,
        GeneratorOptions(client="http"),
        users=60,
        pace=0,
    ),
    Scenario(
        "generator-fast-saturated",
        "generator",
        "FastHttpUser at its limit: 100 users without a pause, tasks that compute 1 ms",
        _SERVICE,
        GeneratorOptions(task_cpu_ms=1),
        users=100,
        pace=0,
    ),
    Scenario(
        "generator-http-below-limit",
        "service.app",
        "HttpUser at about a third of its limit",
        _SLOWER,
        GeneratorOptions(client="http"),
        users=30,
        pace=5,
    ),
    Scenario(
        "generator-in-step",
        "generator",
        "80 users of HttpUser that start together, once a second",
        _SERVICE,
        GeneratorOptions(client="http", in_step=True),
        users=80,
        pace=1,
    ),
    Scenario(
        "generator-fast-in-step",
        "service.app",
        "the same with FastHttpUser",
        _SLOWER,
        GeneratorOptions(in_step=True),
        users=80,
        pace=1,
    ),
    Scenario(
        "generator-blocked-evenly",
        "generator",
        "a greenlet computes for 80 of every 120 ms",
        _SERVICE,
        GeneratorOptions(block="periodic", block_ms=80, block_every_ms=40),
    ),
    Scenario(
        "generator-blocked-a-third",
        "generator",
        "a greenlet computes for 30 of every 100 ms; the service takes 2 ms",
        ServiceOptions(delay_ms=2),
        GeneratorOptions(block="periodic", block_ms=30, block_every_ms=70),
        pace=10,
    ),
    Scenario(
        "generator-blocked-randomly",
        "generator",
        "a greenlet computes for 100 ms at random moments",
        _SERVICE,
        GeneratorOptions(block="random", block_ms=100, block_every_ms=150),
    ),
    Scenario(
        "generator-one-stall",
        "service.app",
        "a greenlet computes once for 1.5 s: it makes the tail, and not the mean",
        _SERVICE,
        GeneratorOptions(block="once", block_ms=1500, block_every_ms=2000),
    ),
    Scenario(
        "generator-http-blocked",
        "generator",
        "the evenly blocked one with HttpUser",
        _SERVICE,
        GeneratorOptions(client="http", block="periodic", block_ms=80, block_every_ms=40),
    ),
    Scenario(
        "generator-tasks-compute",
        "generator",
        "each task computes 5 ms before its request, 30 users",
        _SERVICE,
        GeneratorOptions(task_cpu_ms=5),
        users=30,
        pace=6,
    ),
    Scenario(
        "generator-throttled",
        "generator",
        "its control group may use a tenth of a processor",
        _SERVICE,
        GeneratorOptions(client="http", cpu_quota=0.15),
        users=30,
        pace=4,
        seconds=8,
        off=PAUSED,
    ),
    Scenario(
        "generator-fast-throttled",
        "generator",
        "the same with FastHttpUser",
        _SERVICE,
        GeneratorOptions(cpu_quota=0.1),
        users=30,
        pace=8,
        seconds=8,
        off=PAUSED,
    ),
    Scenario(
        "generator-two-workers",
        "generator",
        "two workers of HttpUser at their limits",
        _SERVICE,
        GeneratorOptions(client="http", processes=2),
        users=80,
        pace=0,
    ),
    Scenario(
        "generator-connects-each-time",
        "generator",
        "HttpUser at its limit, a connection for each request",
        _SERVICE,
        GeneratorOptions(client="http", close=True),
        users=40,
        pace=0,
        off=CLOSING,
    ),
    Scenario(
        "generator-uploads",
        "service.app",
        "requests with a body of 100,000 bytes",
        _SLOWER,
        GeneratorOptions(upload_bytes=100_000),
        pace=3,
        off=UPLOAD,
    ),
)
