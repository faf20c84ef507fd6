"""Groups of simulated requests, by whose time they are slow."""

from __future__ import annotations

from typing import Any

__all__ = [
    "BLIND",
    "BLIND_GENERATOR",
    "BLIND_SLOW",
    "BOTH",
    "BOTH_NETWORK",
    "GENERATOR",
    "NETWORK",
    "SERVICE",
    "Group",
    "part",
    "requests",
    "scheduled",
]

Group = dict[str, Any]


def requests(**values: Any) -> Group:
    """1,000 requests of 20 ms in the service and 1 ms in the network, but for what is given."""
    return {"n": 1000, "service": 20.0, "network": 1.0} | values


def part(share: float, n: int = 1000) -> list[bool]:
    """True for this share of n requests, spread evenly."""
    return [(i + 1) * share // 1 > i * share // 1 for i in range(n)]


def scheduled(target: float, reached: float, **changes: Any) -> dict[str, Any]:
    """What a manifest says of a run that was to reach a rate."""
    return {
        "target_rate_per_s": target,
        "reached_rate_per_s": reached,
        "target_rate_source": "option",
        **changes,
    }


GENERATOR = requests(generator=40.0)  # 61 ms: 40 generator, 1 network, 20 service
NETWORK = requests(network=40.0)  # 60 ms
SERVICE = requests(service=60.0)  # 61 ms
BOTH = requests(generator=25.0, network=30.0)  # 75 ms
BOTH_NETWORK = requests(generator=20.0, network=35.0)
BLIND = requests(matched=False)  # 21 ms nobody can be named for
BLIND_GENERATOR = requests(generator=40.0, matched=False)
BLIND_SLOW = requests(unattributed=60.0, matched=False)
