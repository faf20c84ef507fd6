"""What the kernel knows of a TCP connection: ``TCP_INFO``, and when bytes arrived.

Offsets are those of ``struct tcp_info`` in Linux' ``include/uapi/linux/tcp.h``, an ABI that only
grows at its end.
"""

from __future__ import annotations

import socket
import sys
from struct import Struct
from typing import Protocol

__all__ = [
    "HAS_KERNEL_STAMPS",
    "RECEIVE_STAMP",
    "SO_TIMESTAMPNS",
    "STAMP_BUFFER",
    "HasSocketOptions",
    "handshake_ns",
    "last_data_received_ms",
    "packets_out_of_order",
]

_IS_LINUX = sys.platform.startswith("linux")
_TCP_INFO = getattr(socket, "TCP_INFO", 11)
_TCP = int(socket.IPPROTO_TCP)
_LAST_DATA_RECV = Struct("=52xI")  # ends after tcpi_last_data_recv
_HANDSHAKE = Struct("=68xI28xI")  # tcpi_rtt, and tcpi_total_retrans at 100
_OUT_OF_ORDER = Struct("=224xI")  # ends after tcpi_rcv_ooopack, which Linux has since 5.4

SO_TIMESTAMPNS = 35
"""``SO_TIMESTAMPNS`` (``include/uapi/asm-generic/socket.h``); `socket` has no name for it."""

RECEIVE_STAMP = Struct("@qq")
"""The control message: ``struct timespec``, seconds and nanoseconds of CLOCK_REALTIME."""

STAMP_BUFFER = socket.CMSG_SPACE(RECEIVE_STAMP.size) if hasattr(socket, "CMSG_SPACE") else 0
"""Bytes of ancillary data to ask ``recvmsg`` for."""

HAS_KERNEL_STAMPS = _IS_LINUX and sys.maxsize > 2**32
"""Whether the kernel can tell when received bytes arrived."""


class HasSocketOptions(Protocol):
    """A socket, or what a server or gevent offers in its place."""

    def getsockopt(self, level: int, option: int, length: int, /) -> bytes:
        """See `socket.socket.getsockopt`."""
        ...


def last_data_received_ms(sock: HasSocketOptions) -> int:
    """How long ago the kernel received the connection's last data, in milliseconds.

    Whole milliseconds with the kernel tick's resolution: the truth lies within one tick of it.

    Raises:
        OSError: not a TCP socket, or closed.
        struct.error: not Linux.
    """
    value: int
    (value,) = _LAST_DATA_RECV.unpack(sock.getsockopt(_TCP, _TCP_INFO, _LAST_DATA_RECV.size))
    return value


def handshake_ns(sock: HasSocketOptions) -> int | None:
    """The TCP handshake's round trip in nanoseconds, read just after a connection was made.

    At that moment the kernel's smoothed round-trip time holds one sample, the handshake's own.
    None where a segment had to be sent again, as the sample then is not the whole wait.

    Raises:
        OSError: not a TCP socket, or closed.
        struct.error: not Linux.
    """
    rtt_us: int
    rtt_us, resent = _HANDSHAKE.unpack(sock.getsockopt(_TCP, _TCP_INFO, _HANDSHAKE.size))
    return None if resent else rtt_us * 1000


def packets_out_of_order(sock: HasSocketOptions) -> int | None:
    """How many packets of a connection came before one that was sent earlier; None: not known.

    Raises:
        OSError: not a TCP socket, or closed.
    """
    raw = sock.getsockopt(_TCP, _TCP_INFO, _OUT_OF_ORDER.size)
    if len(raw) < _OUT_OF_ORDER.size:
        return None
    count: int
    (count,) = _OUT_OF_ORDER.unpack(raw)
    return count
