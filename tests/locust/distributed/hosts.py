"""Hosts on one machine: network namespaces with a cable between them, and a disk of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Host", "two_hosts", "why_not"]


@dataclass(frozen=True, slots=True)
class Host:
    """A network namespace.

    Attributes:
        name: its name, which processes in it see as the host's.
        address: its end of the cable.
        hidden: a folder that is not on its disk; None: it sees all.
    """

    name: str
    address: str
    hidden: Path | None = None

    @property
    def within(self) -> tuple[str, ...]:
        """The command that runs another one here."""
        hide = "" if self.hidden is None else f"mount -t tmpfs none '{self.hidden}' && "
        script = f'hostname "{self.name}" && {hide}exec "$@"'
        return (
            *("ip", "netns", "exec", self.name),
            *("unshare", "--uts", "--mount", "sh", "-c", script, "sh"),
        )


def why_not() -> str:
    """Why there can be no hosts here; empty where there can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "iproute2 and util-linux are not installed"
    probe = f"trilat-probe-{os.getpid()}"
    made = subprocess.run(
        ["ip", "netns", "add", probe], capture_output=True, text=True, check=False
    )
    if made.returncode:
        return f"this kernel makes no network namespace: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", probe], check=True)
    return ""


@contextmanager
def two_hosts(hidden: Path) -> Iterator[tuple[Host, Host]]:
    """Two hosts with a cable between them.

    Args:
        hidden: a folder that only the first one sees.
    """
    number = os.getpid()
    first = Host(f"trilat-{number}-a", "10.77.0.1")
    second = Host(f"trilat-{number}-b", "10.77.0.2", hidden)
    made: list[str] = []
    try:
        for host in (first, second):
            _ip("netns", "add", host.name)
            made.append(host.name)
            _ip("-n", host.name, "link", "set", "lo", "up")
        with _cable(first, second):
            yield first, second
    finally:
        for name in made:
            _ip("netns", "delete", name)


@contextmanager
def _cable(first: Host, second: Host) -> Iterator[None]:
    ends = ("veth", "netns", first.name, "type", "veth", "peer", "veth", "netns", second.name)
    veth = subprocess.run(["ip", "link", "add", *ends], capture_output=True, check=False)
    if veth.returncode == 0:
        for host in (first, second):
            _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", "veth")
            _ip("-n", host.name, "link", "set", "veth", "up")
        yield
        return
    script = str(Path(__file__).with_name("tun_link.py"))
    arguments = [first.name, f"{first.address}/24", second.name, f"{second.address}/24"]
    with subprocess.Popen(
        [sys.executable, script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as link:
        assert link.stdout is not None
        assert link.stdout.readline() == b"ready\n"
        yield
        assert link.stdin is not None
        link.stdin.close()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
