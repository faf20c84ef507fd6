"""What a scenario of the lab is: a service, a generator, a network, and what is wrong there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeVar

__all__ = [
    "GeneratorOptions",
    "LinkOptions",
    "Pattern",
    "Scenario",
    "ServiceOptions",
    "Way",
    "options_from",
    "options_text",
]

Pattern = Literal["none", "periodic", "random", "once"]
"""When something blocks: in even steps, at random moments with that mean distance, or one time."""

_Options = TypeVar("_Options")


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The service: what its handler does, what is wrong with its process, how it is served.

    Attributes:
        delay_ms: the handler awaits this long.
        delay_varies: exponentially around ``delay_ms``, instead of always the same.
        cpu_ms: the handler computes this long, on the event loop.
        thread_ms: the handler waits this long in a thread of the pool.
        threads: threads of the pool.
        block: when the event loop is blocked, beside all requests.
        block_ms: for how long each time.
        block_every_ms: how often.
        garbage: objects that the garbage collector has to look at, at each full collection.
        garbage_every_ms: how often it is made to collect.
        chunks: messages of the answer's body.
        chunk_bytes: bytes of each.
        chunk_gap_ms: what the handler awaits between two of them.
        redirects: that a request goes through before its answer.
        loop: of uvicorn.
        http: uvicorn's parser of HTTP.
        workers: processes.
        backlog: connections that wait to be accepted.
        tls: speak TLS.
        cpu_quota: processors that the control group may use; 0 all.
        proxy: nginx in front: ``pass`` hands on, ``limit`` answers what is above ``proxy_rate``
            with a 503 of its own.
        proxy_rate: requests a second that it lets through.
        clock_offset_ms: its wall clock is ahead of the truth by this.
        clock_drift_ppm: and gains this many microseconds a second.
        clock_step_ms: and steps by this once,
        clock_step_after_s: so long after the first request.
    """

    delay_ms: float = 0.0
    delay_varies: bool = False
    cpu_ms: float = 0.0
    thread_ms: float = 0.0
    threads: int = 40
    block: Pattern = "none"
    block_ms: float = 0.0
    block_every_ms: float = 1000.0
    garbage: int = 0
    garbage_every_ms: float = 1000.0
    chunks: int = 1
    chunk_bytes: int = 200
    chunk_gap_ms: float = 0.0
    redirects: int = 0
    loop: Literal["asyncio", "uvloop"] = "asyncio"
    http: Literal["httptools", "h11"] = "httptools"
    workers: int = 1
    backlog: int = 2048
    tls: bool = False
    cpu_quota: float = 0.0
    proxy: Literal["none", "pass", "limit"] = "none"
    proxy_rate: int = 0
    clock_offset_ms: float = 0.0
    clock_drift_ppm: float = 0.0
    clock_step_ms: float = 0.0
    clock_step_after_s: float = 2.0


@dataclass(frozen=True, slots=True)
class GeneratorOptions:
    """The generator: which client, and what is wrong with its process.

    Attributes:
        client: ``http`` is HttpUser, ``fast`` is FastHttpUser.
        in_step: users start together and stay so; else each begins at a moment of its own.
        block: when a greenlet of the locustfile computes, beside all users.
        block_ms: for how long each time.
        block_every_ms: how often.
        task_cpu_ms: each task computes this long before its request.
        close: each request makes a connection of its own.
        upload_bytes: bytes of the request's body; 0: a GET.
        timeout_s: after which the client gives up; 0: its own.
        cpu_quota: processors that the control group may use; 0 all.
        processes: of Locust; 1: no workers.
    """

    client: Literal["http", "fast"] = "fast"
    in_step: bool = False
    block: Pattern = "none"
    block_ms: float = 0.0
    block_every_ms: float = 1000.0
    task_cpu_ms: float = 0.0
    close: bool = False
    upload_bytes: int = 0
    timeout_s: float = 0.0
    cpu_quota: float = 0.0
    processes: int = 1


@dataclass(frozen=True, slots=True)
class Way:
    """One direction of the link.

    Attributes:
        delay_ms: each packet takes at least this long.
        jitter_ms: and more: exponentially, with this mean. Packets stay in order.
        loss: part of the packets that is lost.
        reorder: part of the packets that others overtake,
        reorder_ms: as they take so much longer.
        rate_kbit: kilobits a second; 0: as fast as it can.
        connect_ms: what a packet that opens a connection takes beside.
    """

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    reorder: float = 0.0
    reorder_ms: float = 0.0
    rate_kbit: int = 0
    connect_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """The network: this host's loopback, or two namespaces and a link between them.

    Attributes:
        kind: which.
        out: from the generator to the service.
        back: from the service to the generator.
        bucket_kbit: a token bucket of the kernel's (``tc … tbf``) on the service's side; 0: none.
    """

    kind: Literal["loopback", "link"] = "loopback"
    out: Way = field(default_factory=Way)
    back: Way = field(default_factory=Way)
    bucket_kbit: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One experiment.

    Attributes:
        name: unique, in words with dashes.
        expects: the component, or the side, that is to dominate: if it does not by the truth, what
            was injected did not work, and the lab says so.
        what: what is wrong here, in a few words.
        service: see there.
        generator: see there.
        link: see there.
        seconds: of load.
        users: Locust's.
        pace: requests a second of each user; 0: one after the other, without a wait.
        off: why trilat's figures are off here, where that is known and has not been mended.
    """

    name: str
    expects: str
    what: str
    service: ServiceOptions = field(default_factory=ServiceOptions)
    generator: GeneratorOptions = field(default_factory=GeneratorOptions)
    link: LinkOptions = field(default_factory=LinkOptions)
    seconds: float = 5.0
    users: int = 20
    pace: float = 5.0
    off: str = ""

    @property
    def needs_root(self) -> bool:
        """Whether it cannot be made without root's rights."""
        return self.link.kind == "link" or bool(self.service.cpu_quota or self.generator.cpu_quota)


def options_text(options: object) -> str:
    """Options of one of these classes as text, for the environment of a process."""
    return json.dumps(asdict(options))  # type: ignore[call-overload]


def options_from(kind: type[_Options], text: str) -> _Options:
    """The other way round; for options that hold no others.

    Raises:
        ValueError: not JSON.
        TypeError: not such options.
    """
    values: dict[str, Any] = json.loads(text)
    return kind(**values)
