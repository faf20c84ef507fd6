"""Local ports for connections that go out, and how many of them are taken (Linux).

A connection holds a local port while it is open, and where this side closed it first for another
minute (TIME_WAIT). Who makes a connection for each request runs out of them: 28,232 ports by
default, of which 470 a second come back.
https://docs.kernel.org/networking/ip-sysctl.html (ip_local_port_range), and the kernel's
net/ipv4/proc.c for the files ``sockstat`` and ``snmp``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .procfs import read_file, whole

__all__ = ["LocalPorts", "PortUse"]


@dataclass(frozen=True, slots=True)
class PortUse:
    """All processes of a network namespace together.

    Attributes:
        taken: TCP sockets that are open or in TIME_WAIT, those of both families: at most so many
            ports are taken. Listening sockets and connections that came in are among them, and
            one port can serve connections to several addresses.
        time_wait: those in TIME_WAIT.
        available: ports that the kernel gives to outgoing connections.
        opened: connections begun since the namespace was made.
    """

    taken: int
    time_wait: int
    available: int
    opened: int


class LocalPorts:
    """Reads them.

    Args:
        proc: where the kernel tells of processes.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._net = proc / "self/net"
        self._range = proc / "sys/net/ipv4/ip_local_port_range"

    def read(self) -> PortUse:
        """The ports as they are taken now.

        Raises:
            OSError: the kernel does not tell.
            ValueError: what it tells is damaged.
        """
        low, high = (whole(each) for each in read_file(self._range).split())
        sockets = _named(read_file(self._net / "sockstat"), b"TCP:")
        time_wait = whole(sockets.get(b"tw", b""))
        try:
            inuse6 = whole(_named(read_file(self._net / "sockstat6"), b"TCP6:").get(b"inuse", b""))
        except OSError:  # without IPv6
            inuse6 = 0
        return PortUse(
            taken=whole(sockets.get(b"inuse", b"")) + inuse6 + time_wait,
            time_wait=time_wait,
            available=max(high - low + 1, 0),
            opened=self._opened(),
        )

    def _opened(self) -> int:
        lines = [
            line.split()
            for line in read_file(self._net / "snmp").split(b"\n")
            if line.startswith(b"Tcp:")
        ]
        if len(lines) != 2:  # names, and then values
            raise ValueError("no counts of TCP")
        return whole(dict(zip(*lines, strict=False)).get(b"ActiveOpens", b""))


def _named(raw: bytes, lead: bytes) -> dict[bytes, bytes]:
    """Names and values of the line that begins so.

    Raises:
        ValueError: there is none.
    """
    for line in raw.split(b"\n"):
        if line.startswith(lead):
            words = line[len(lead) :].split()
            return dict(zip(words[::2], words[1::2], strict=False))
    raise ValueError(f"no line {lead!r}")
