"""The lab's network: two namespaces, a TUN device in each, and a process that carries packets.

The kernel of this machine need not have ``netem``. Packets that leave one namespace are read from
its device, held for as long as their way takes, and written to the device of the other: a routed
network with real TCP and the kernel's own stamps. What the carrier itself adds is on the captures
of both sides, and so is part of the truth; it also keeps how late it was, and the lab says it.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .namespaces import enter, new_namespace
from .processes import Started, started
from .scenario import LinkOptions, Way, options_from

__all__ = ["GENERATOR_ADDRESS", "SERVICE_ADDRESS", "Link", "open_link"]

GENERATOR_ADDRESS, SERVICE_ADDRESS = "10.77.0.1", "10.77.0.2"
DEVICE = "lab0"
_TUNSETIFF = 0x400454CA  # include/uapi/linux/if_tun.h
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_PR_SET_TIMERSLACK = 29  # include/uapi/linux/prctl.h
_MTU = 1500
_SPIN_NS = 40_000  # before a packet is due: waking up takes about that long
_HELD_MAX = 20_000  # packets of one way; a router drops what comes then, too
_LATE_MAX = 200_000
_SYN, _ACK = 0x02, 0x10


@dataclass(frozen=True, slots=True)
class Link:
    """A link that is open.

    Attributes:
        generator: descriptor of the generator's namespace.
        service: descriptor of the service's.
        carrier: the process that carries the packets.
        report: where it says how it did, once it has ended.
    """

    generator: int
    service: int
    carrier: Started
    report: Path


@contextmanager
def open_link(options: LinkOptions, folder: Path) -> Iterator[Link]:
    """Two namespaces with a network between them, for as long as the block lasts.

    Args:
        options: what the network is like.
        folder: for what the carrier writes.

    Raises:
        LabError: namespaces or devices cannot be made.
    """
    report = folder / "link.json"
    with ExitStack() as stack:
        ends = [stack.enter_context(new_namespace()) for _ in range(2)]
        command = [sys.executable, "-m", "benchmarks.lab.link", *map(str, ends), str(report)]
        ways = {f"LAB_{k}": json.dumps(asdict(getattr(options, k))) for k in ("out", "back")}
        env = {**ways, "LAB_BUCKET": str(options.bucket_kbit)}
        carrier = stack.enter_context(
            started(command, folder / "link.log", env=env, inherited=ends)
        )
        carrier.when_says("carries")
        yield Link(ends[0], ends[1], carrier, report)


class Carrier:
    """One way: the packets that are under way, and when each is due.

    Args:
        way: what happens to a packet.
        target: descriptor of the device that they are written to.
        seed: of its chances.
    """

    def __init__(self, way: Way, target: int, seed: int) -> None:
        self._way = way
        self._target = target
        self._choice = random.Random(seed)
        self._held: list[tuple[int, int, bytes]] = []
        self._last_due = self._free_at = self._count = 0
        self.lost = self.refused = 0
        self.late_ns: list[int] = []

    @property
    def next_due(self) -> int:
        """When the next packet is due; far away where there is none."""
        return self._held[0][0] if self._held else 2**62

    def take(self, packet: bytes, now: int) -> None:
        """A packet has come."""
        way = self._way
        if way.loss and self._choice.random() < way.loss:
            self.lost += 1
            return
        if len(self._held) >= _HELD_MAX:
            self.refused += 1
            return
        due = now
        if way.rate_kbit:
            self._free_at = max(self._free_at, now) + len(packet) * 8_000_000 // way.rate_kbit
            due = self._free_at
        due += round(way.delay_ms * 1e6)
        if way.jitter_ms:
            due += round(self._choice.expovariate(1 / (way.jitter_ms * 1e6)))
        overtaken_ms = way.connect_ms if way.connect_ms and opens_a_connection(packet) else 0.0
        if way.reorder and self._choice.random() < way.reorder:
            overtaken_ms += way.reorder_ms
        if overtaken_ms:  # those behind it need not wait for it
            due += round(overtaken_ms * 1e6)
        else:
            self._last_due = due = max(due, self._last_due)
        self._count += 1
        heapq.heappush(self._held, (due, self._count, packet))

    def give(self, now: int) -> None:
        """Write the packets that are due."""
        held = self._held
        while held and held[0][0] <= now:
            due, _, packet = heapq.heappop(held)
            try:
                os.write(self._target, packet)
            except OSError:  # no packet that this kernel takes
                self.refused += 1
            if len(self.late_ns) < _LATE_MAX:
                self.late_ns.append(time.perf_counter_ns() - due)


def opens_a_connection(packet: bytes) -> bool:
    """Whether an IPv4 packet is TCP's first."""
    at = (packet[0] & 0x0F) * 4
    return packet[9] == 6 and packet[at + 13] & (_SYN | _ACK) == _SYN


def carry(ends: list[int], carriers: list[Carrier]) -> None:
    """Carry packets until this process is told to end."""
    while True:
        now = time.perf_counter_ns()
        for carrier in carriers:
            carrier.give(now)
        left_ns = min(carrier.next_due for carrier in carriers) - time.perf_counter_ns()
        wait_s = min(max(left_ns - _SPIN_NS, 0) / 1e9, 1.0)
        ready, _, _ = select.select(ends, (), (), wait_s)
        now = time.perf_counter_ns()
        for end in ready:
            carrier = carriers[ends.index(end)]
            try:
                while True:
                    packet = os.read(end, _MTU + 4)
                    if packet[0] >> 4 == 4:  # IPv6 speaks of itself only
                        carrier.take(packet, now)
            except BlockingIOError:
                pass


def open_device(namespace: int, own: str, other: str, bucket_kbit: int) -> int:
    """Make a device in a namespace, with the addresses of both ends.

    Returns:
        The descriptor that its packets come from.
    """
    enter(namespace)
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH", DEVICE.encode(), _IFF_TUN | _IFF_NO_PI))
    commands = [
        f"ip link set {DEVICE} mtu {_MTU} txqueuelen 10000 up",
        f"ip address add {own} peer {other} dev {DEVICE}",
        "ip link set lo up",
    ]
    if bucket_kbit:
        shape = f"rate {bucket_kbit}kbit burst 4kb latency 2s"
        commands.append(f"tc qdisc add dev {DEVICE} root tbf {shape}")
    for command in commands:
        subprocess.run(command.split(), check=True)
    return end


def report_of(carriers: list[Carrier]) -> dict[str, Any]:
    """How the carrier did: packets, and how late they were, in microseconds."""
    late = sorted(each for carrier in carriers for each in carrier.late_ns)

    def at(quantile: float) -> float:
        return round(late[int(quantile * (len(late) - 1))] / 1000, 1) if late else 0.0

    return {
        "packets": len(late),
        "lost": sum(carrier.lost for carrier in carriers),
        "refused": sum(carrier.refused for carrier in carriers),
        "late_us": {"p50": at(0.5), "p99": at(0.99), "max": at(1.0)},
    }


def main() -> None:
    """Open both devices and carry packets between them."""
    namespaces, report = list(map(int, sys.argv[1:3])), Path(sys.argv[3])
    addresses = [GENERATOR_ADDRESS, SERVICE_ADDRESS]
    buckets = [0, int(os.environ["LAB_BUCKET"])]
    ends = [
        open_device(namespace, addresses[i], addresses[1 - i], buckets[i])
        for i, namespace in enumerate(namespaces)
    ]
    carriers = [
        Carrier(options_from(Way, os.environ[f"LAB_{name}"]), ends[1 - i], seed=i)
        for i, name in enumerate(("out", "back"))
    ]
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    with suppress(OSError):  # a packet that is due does not wait for a busy program
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    print("carries", flush=True)
    try:
        carry(ends, carriers)
    finally:
        report.write_text(json.dumps(report_of(carriers)))


if __name__ == "__main__":
    main()
