"""Packets as the kernel saw them: tcpdump writes, and here they are read.

All namespaces of a machine share its clock, so the stamps of two captures can be compared.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dpkt  # type: ignore[import-untyped]

from .processes import Started, started

__all__ = ["ACK", "FIN", "RST", "SYN", "Capture", "Segment", "capturing", "read_segments"]

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
_SNAP = 1600  # bytes of a packet that are kept: the whole head of a request
_DROPPED = re.compile(r"(\d+) packets dropped by kernel")
_RAW, _ETHERNET, _ANY = (101, 12, 14, 228), 1, 276  # link types of pcap


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture that goes on.

    Attributes:
        path: the file.
        process: tcpdump.
    """

    path: Path
    process: Started

    def end(self) -> None:
        """Let tcpdump write what it has, and end."""
        self.process.end(signal.SIGINT)

    @property
    def dropped(self) -> int:
        """Packets that it lost, once it has ended."""
        found = _DROPPED.search(self.process.said)
        return int(found.group(1)) if found else 0


@contextmanager
def capturing(
    path: Path, device: str, ports: tuple[int, ...], namespace: int | None = None
) -> Iterator[Capture]:
    """Capture TCP segments to and from ports, for as long as the block lasts.

    Args:
        path: the file to write.
        device: ``lo``, ``any``, or another one's name.
        ports: of services.
        namespace: descriptor of a network namespace.

    Raises:
        LabError: tcpdump does not start.
    """
    wanted = " or ".join(f"tcp port {port}" for port in ports)
    command = [
        *("tcpdump", "-i", device, "-w", str(path), "-n", "-s", str(_SNAP), "-B", "65536"),
        *("-Z", "root", "--time-stamp-precision=nano", wanted),
    ]
    log = path.with_name(f"tcpdump-{path.stem}.log")
    with started(command, log, namespace=namespace) as process:
        process.when_says("listening on")
        capture = Capture(path, process)
        yield capture
        capture.end()


@dataclass(frozen=True, slots=True)
class Segment:
    """A TCP segment.

    Attributes:
        at_ns: when the kernel saw it, ns since the epoch.
        source: its port.
        target: the port that it goes to.
        sequence: TCP's number of its first byte.
        acknowledged: TCP's number of the byte that is awaited from the other side.
        flags: TCP's.
        size: bytes that it carries.
        data: those of them that were captured.
    """

    at_ns: int
    source: int
    target: int
    sequence: int
    acknowledged: int
    flags: int
    size: int
    data: bytes


def read_segments(path: Path) -> Iterator[Segment]:
    """The TCP segments of a capture, in order."""
    with path.open("rb") as file:
        reader: Any = dpkt.pcap.Reader(file)
        link = reader.datalink()
        for at, raw in reader:
            packet = _network_layer(link, raw)
            if not isinstance(packet, dpkt.ip.IP) or not isinstance(packet.data, dpkt.tcp.TCP):
                continue
            tcp = packet.data
            size = packet.len - packet.hl * 4 - tcp.off * 4
            at_ns = int(at * 1_000_000_000)
            data = bytes(tcp.data)[:size]
            numbers = tcp.seq, tcp.ack
            yield Segment(at_ns, tcp.sport, tcp.dport, *numbers, tcp.flags, size, data)


def _network_layer(link: int, raw: bytes) -> Any:
    if link in _RAW:
        return dpkt.ip.IP(raw)
    if link == _ETHERNET:
        return dpkt.ethernet.Ethernet(raw).data
    if link == _ANY:
        return dpkt.sll2.SLL2(raw).data
    raise ValueError(f"a capture of link type {link}")
