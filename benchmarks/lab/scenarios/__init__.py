"""All scenarios of the lab, by what is wrong in them."""

from __future__ import annotations

from ..scenario import Scenario
from .clocks import CLOCKS
from .generators import GENERATORS
from .networks import NETWORKS
from .services import SERVICES
from .together import TOGETHER

__all__ = ["QUICK", "SCENARIOS"]

SCENARIOS: tuple[Scenario, ...] = (*SERVICES, *GENERATORS, *NETWORKS, *CLOCKS, *TOGETHER)
"""In the order in which they are made."""

QUICK = (
    "service-await",
    "service-loop-blocked-evenly",
    "service-overloaded",
    "service-streams-slowly",
    "generator-http-saturated",
    "generator-in-step",
    "generator-blocked-evenly",
    "network-delay",
    "network-jitter",
    "network-loss-back",
    "network-reorders",
    "network-narrow-out",
    "network-connection-per-request",
    "balancer-answers",
    "clock-ahead",
    "generator-and-loop-blocked",
)
"""A fixed part of them: each kind of cause, in a few minutes."""
