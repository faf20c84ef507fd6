"""What is wrong is the network: two namespaces with the lab's link between them."""

from __future__ import annotations

from ..scenario import GeneratorOptions, LinkOptions, Scenario, ServiceOptions, Way
from .causes import JITTER, LOPSIDED, OVERTAKEN, PACKETS

__all__ = ["LAN", "NETWORKS", "both"]

_SERVICE = ServiceOptions(delay_ms=5)
_HTTP = GeneratorOptions(client="http")


def both(way: Way, bucket_kbit: int = 0) -> LinkOptions:
    """A link that is the same in both directions."""
    return LinkOptions("link", way, way, bucket_kbit)


LAN = both(Way(delay_ms=0.2))

NETWORKS = (
    Scenario(
        "network-bare",
        "service.app",
        "nothing is wrong: the link as fast as it can",
        ServiceOptions(delay_ms=10),
        link=both(Way()),
    ),
    Scenario(
        "network-delay",
        "network",
        "10 ms each way",
        _SERVICE,
        link=both(Way(delay_ms=10)),
    ),
    Scenario(
        "network-long-delay",
        "network",
        "80 ms each way, HttpUser",
        _SERVICE,
        _HTTP,
        link=both(Way(delay_ms=80)),
        pace=3,
    ),
    Scenario(
        "network-lopsided",
        "network.out",
        "12 ms out, 3 ms back: what no exchange between two clocks can see",
        _SERVICE,
        link=LinkOptions("link", Way(delay_ms=12), Way(delay_ms=3)),
        off=LOPSIDED,
    ),
    Scenario(
        "network-jitter",
        "network",
        "5 ms each way, and 5 ms of jitter",
        _SERVICE,
        link=both(Way(delay_ms=5, jitter_ms=5)),
        off=JITTER,
    ),
    Scenario(
        "network-little-jitter",
        "network",
        "4 ms each way, and 1 ms of jitter",
        ServiceOptions(delay_ms=2),
        link=both(Way(delay_ms=4, jitter_ms=1)),
        off=JITTER,
    ),
    Scenario(
        "network-jitter-back",
        "network.back",
        "2 ms each way, and 15 ms of jitter on the way back",
        _SERVICE,
        link=LinkOptions("link", Way(delay_ms=2), Way(delay_ms=2, jitter_ms=15)),
        off=JITTER,
    ),
    Scenario(
        "network-loss",
        "network",
        "5 % of the packets get lost, each way",
        _SERVICE,
        link=both(Way(delay_ms=5, loss=0.05)),
        pace=8,
        off=JITTER,
    ),
    Scenario(
        "network-loss-back",
        "network.back",
        "15 % of the answers' packets get lost",
        _SERVICE,
        link=LinkOptions("link", Way(delay_ms=2), Way(delay_ms=2, loss=0.15)),
        pace=8,
        off=OVERTAKEN,
    ),
    Scenario(
        "network-reorders",
        "network.back",
        "a fifth of the packets is overtaken; answers of 20,000 bytes",
        ServiceOptions(delay_ms=5, chunk_bytes=20_000),
        link=both(Way(delay_ms=5, reorder=0.2, reorder_ms=15)),
        off=f"{OVERTAKEN}; {JITTER}",
    ),
    Scenario(
        "network-narrow-back",
        "network.back",
        "answers of 20,000 bytes through 12 Mbit/s: a token bucket of the kernel's",
        ServiceOptions(delay_ms=2, chunk_bytes=20_000),
        link=both(Way(delay_ms=1), bucket_kbit=12_000),
        pace=2,
        off=JITTER,
    ),
    Scenario(
        "network-narrow-out",
        "network.out",
        "requests of 20,000 bytes through 12 Mbit/s",
        ServiceOptions(delay_ms=2),
        GeneratorOptions(upload_bytes=20_000),
        link=LinkOptions("link", Way(delay_ms=1, rate_kbit=12_000), Way(delay_ms=1)),
        pace=2,
        off=PACKETS,
    ),
    Scenario(
        "network-connection-per-request",
        "network.connect",
        "a connection for each request, 10 ms each way",
        ServiceOptions(delay_ms=2),
        GeneratorOptions(close=True),
        link=LinkOptions("link", Way(delay_ms=10, connect_ms=5), Way(delay_ms=10)),
    ),
    Scenario(
        "network-slow-connect",
        "network.connect",
        "a connection for each request; what opens one is held for 60 ms",
        _SERVICE,
        GeneratorOptions(client="http", close=True),
        link=LinkOptions("link", Way(delay_ms=2, connect_ms=60), Way(delay_ms=2)),
    ),
    Scenario(
        "network-tls",
        "network",
        "TLS on connections that are kept, 10 ms each way",
        ServiceOptions(delay_ms=5, tls=True),
        _HTTP,
        link=both(Way(delay_ms=10)),
    ),
    Scenario(
        "network-tls-each-time",
        "network.connect",
        "TLS on a connection for each request, 20 ms each way, HttpUser",
        ServiceOptions(delay_ms=2, tls=True),
        GeneratorOptions(client="http", close=True),
        link=both(Way(delay_ms=20)),
        users=6,
        pace=3,
    ),
    Scenario(
        "network-tls-each-time-fast",
        "network",
        "the same with FastHttpUser, which makes a TLS context for each user's first connection",
        ServiceOptions(delay_ms=2, tls=True),
        GeneratorOptions(close=True),
        link=both(Way(delay_ms=20)),
        users=6,
        pace=3,
    ),
    Scenario(
        "loopback-tls",
        "service.app",
        "TLS on connections that are kept, on the loopback",
        ServiceOptions(delay_ms=20, tls=True),
        _HTTP,
    ),
    Scenario(
        "loopback-tls-blocked",
        "generator",
        "TLS, and a greenlet that computes for 40 of every 100 ms",
        ServiceOptions(delay_ms=10, tls=True),
        GeneratorOptions(client="http", block="periodic", block_ms=40, block_every_ms=60),
    ),
    Scenario(
        "balancer-hands-on",
        "service.app",
        "nginx between the two, which hands all on",
        ServiceOptions(delay_ms=15, proxy="pass"),
        link=LAN,
    ),
    Scenario(
        "balancer-answers",
        "unattributed",
        "nginx answers most requests with a 503 of its own",
        ServiceOptions(delay_ms=2, proxy="limit", proxy_rate=20),
        link=both(Way(delay_ms=8)),
    ),
    Scenario(
        "network-lan-queue",
        "service.queue",
        "0.2 ms each way, and a loop that is blocked for 12 of every 36 ms",
        ServiceOptions(delay_ms=1, block="periodic", block_ms=24, block_every_ms=24),
        link=LAN,
    ),
)
