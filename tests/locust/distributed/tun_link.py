"""A cable between two network namespaces where the kernel has no veth: packets go through here.

    python tun_link.py NAMESPACE ADDRESS NAMESPACE ADDRESS

Prints ``ready`` when the link is up, and ends with its standard input.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys

_TUNSETIFF = 0x400454CA
_TUN_WITHOUT_HEADER = 0x0001 | 0x1000
_PACKET_MAX = 65536


def _end(number: int, namespace: str, address: str) -> int:
    """A TUN device in a namespace; it stays with the descriptor that made it."""
    device = f"trilat{os.getpid() % 10_000}{number}"
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH", device.encode(), _TUN_WITHOUT_HEADER))
    subprocess.run(["ip", "link", "set", device, "netns", namespace], check=True)
    inside = ["ip", "-n", namespace]
    subprocess.run([*inside, "address", "add", address, "dev", device], check=True)
    subprocess.run([*inside, "link", "set", device, "up"], check=True)
    return descriptor


def main() -> None:
    """Carry packets to and fro."""
    first, second = _end(0, *sys.argv[1:3]), _end(1, *sys.argv[3:5])
    print("ready", flush=True)
    other = {first: second, second: first}
    while True:
        readable, _, _ = select.select([first, second, sys.stdin.fileno()], [], [])
        for descriptor in readable:
            if descriptor not in other:
                return
            try:
                os.write(other[descriptor], os.read(descriptor, _PACKET_MAX))
            except OSError:  # a link that is down for a moment loses packets, as a cable does
                continue


if __name__ == "__main__":
    main()
