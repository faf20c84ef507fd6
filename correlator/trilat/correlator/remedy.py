"""What to do when the load generator is in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.agent.records import Component

if TYPE_CHECKING:
    from .manifest import Manifest
    from .sketch import Sketch

__all__ = ["CPU_HIGH", "generator_remedies", "in_step", "send_share"]

CPU_HIGH = 80.0
"""Per cent of one processor from which a generator process is taken to be saturated.

Queueing grows with 1 / (1 - utilisation): at 80 % a request waits for four others on average.
"""

_SEND_SHARE_IN_STEP = 0.15
_CPU_LOW = 60.0


def send_share(total: Sketch) -> float:
    """The part of the mean response time that went by before the request was sent."""
    made_of = total.makeup(None)
    whole = float(made_of.sum())
    return float(made_of[Component.GENERATOR_SEND]) / whole if whole > 0 else 0.0


def in_step(manifest: Manifest, total: Sketch) -> bool | None:
    """Whether users fire in the same instant and queue for one process; None if unknown.

    The sign of it is a long wait before sending while the processor is far from busy: what the
    requests wait for is each other.
    """
    cpu = manifest.generator_cpu_percent
    if cpu is None or not total.histogram(Component.GENERATOR_SEND.label).count:
        return None
    return cpu["mean"] < _CPU_LOW and send_share(total) > _SEND_SHARE_IN_STEP


def generator_remedies(manifest: Manifest, total: Sketch) -> str:
    """What would make the generator's share smaller in this run, the most useful first."""
    remedies = []
    if in_step(manifest, total):
        remedies.append(
            "spread the users, which fire in the same instant: let each sleep for a random one to "
            "two of its periods in on_start, or wait with poisson(rate); keep what blocks out of "
            "tasks"
        )
    if any(each["client"] == "HttpUser" for each in manifest.user_classes):
        remedies.append(
            "use FastHttpUser in place of HttpUser, which costs about a fifth of the CPU time"
        )
    cpus = manifest.host.get("cpus")
    if isinstance(cpus, int) and manifest.processes < cpus:
        remedies.append(
            f"run more processes: --processes {cpus} (there are {cpus} processors, "
            f"{manifest.processes} in use)"
        )
    elif manifest.same_host:
        remedies.append("run the generator on another host than the service")
    else:
        remedies.append("add Locust workers on further hosts")
    return "; ".join(remedies)
