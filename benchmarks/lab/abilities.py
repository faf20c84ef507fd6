"""What this machine lets the lab do, and what is left out without it."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .namespaces import new_namespace
from .processes import LabError
from .quota import can_limit
from .scenario import Scenario

__all__ = ["Abilities", "look"]


@dataclass(frozen=True, slots=True)
class Abilities:
    """What can be done here.

    Attributes:
        captures: packets can be captured.
        links: namespaces and TUN devices can be made.
        quotas: control groups can be made.
        proxies: there is an nginx.
    """

    captures: bool
    links: bool
    quotas: bool
    proxies: bool

    def allow(self, scenario: Scenario) -> bool:
        """Whether a scenario can be made here."""
        limited = scenario.service.cpu_quota or scenario.generator.cpu_quota
        return (
            (self.links or scenario.link.kind == "loopback")
            and (self.quotas or not limited)
            and (self.proxies or scenario.service.proxy == "none")
        )

    def left_out(self, scenarios: Sequence[Scenario]) -> list[str]:
        """What is left out here, a line for each reason."""
        links = sum(scenario.link.kind == "link" for scenario in scenarios)
        limits = sum(bool(each.service.cpu_quota or each.generator.cpu_quota) for each in scenarios)
        proxies = sum(scenario.service.proxy != "none" for scenario in scenarios)
        lines = []
        if not self.captures:
            lines.append(
                "without root and tcpdump nothing is captured: only service.app, service.body and"
                " the time before and after them are compared"
            )
        if not self.links and links:
            lines.append(
                f"without root, /dev/net/tun and nsenter {links} scenarios with a network are"
                " left out"
            )
        if not self.quotas and limits:
            lines.append(
                f"without a writable control group {limits} scenarios with a limit are left out"
            )
        if not self.proxies and proxies:
            lines.append(f"without nginx {proxies} scenarios with a load balancer are left out")
        return lines


def look() -> Abilities:
    """Try what this machine lets us do."""
    captures = shutil.which("tcpdump") is not None and _can_capture()
    tools = all(map(shutil.which, ("ip", "tc", "nsenter")))
    return Abilities(
        captures=captures,
        links=captures and tools and _can_link(),
        quotas=can_limit(),
        proxies=shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is not None,
    )


def _can_capture() -> bool:
    if not hasattr(socket, "AF_PACKET"):  # Linux only
        return False
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW):
            return True
    except OSError:
        return False


def _can_link() -> bool:
    try:
        with new_namespace(), Path("/dev/net/tun").open("r+b", buffering=0):
            return True
    except (LabError, OSError):
        return False
