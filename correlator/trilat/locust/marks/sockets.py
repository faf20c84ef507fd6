"""The stamped sockets: gevent's own, with the marks of a request taken on the way through.

Both of Locust's HTTP clients, and anything else a locustfile may use, end in gevent's socket class.
Its methods are wrapped once; without an open timeline in the current greenlet they call the
original and nothing else. `trilat.locust.marks.sending` has what sends,
`trilat.locust.marks.reading` what reads.
"""

from __future__ import annotations

import socket as stdlib_socket
from time import perf_counter_ns
from typing import Any

import gevent.socket

from trilat.agent.tcp import HAS_KERNEL_STAMPS, SO_TIMESTAMPNS, STAMP_BUFFER, handshake_ns
from trilat.locust import faults

from . import reading, sending
from .timeline import Timeline, current

__all__ = ["ask_early", "enable_stamps", "install", "peek"]

_Socket: Any = gevent.socket.socket
_plain_connect = _Socket._internal_connect
_SOL_SOCKET = stdlib_socket.SOL_SOCKET
_PEEK = stdlib_socket.MSG_PEEK
_scratch = bytearray(65536)


def install(*, kernel_stamps: bool = HAS_KERNEL_STAMPS) -> None:
    """Wrap gevent's socket class; a second call changes nothing.

    Args:
        kernel_stamps: take the kernel's receive stamps; False measures as on macOS and Windows.
    """
    _Socket._internal_connect = _connect
    sending.install()
    reading.install(kernel_stamps=kernel_stamps)


def ask_early() -> stdlib_socket.socket:
    """A socket that does nothing but ask for stamps, to be kept open while requests are made.

    The first socket of a machine to ask for them gets them only a moment later.
    """
    early = stdlib_socket.socket(stdlib_socket.AF_INET, stdlib_socket.SOCK_DGRAM)
    enable_stamps(early)
    return early


def enable_stamps(raw: Any) -> None:
    """Ask the kernel for receive stamps on a raw socket; one that cannot give them stays as is."""
    if HAS_KERNEL_STAMPS:
        try:
            raw.setsockopt(_SOL_SOCKET, SO_TIMESTAMPNS, 1)
        except OSError as error:  # a Unix socket, say
            faults.note("receive stamps", error)


def peek(timeline: Timeline, raw: Any) -> bool:
    """Take the stamp of what lies unread in a raw socket, without taking the bytes.

    Returns:
        Whether the other side has closed the connection, and all was read.
    """
    try:
        size, ancillary, _, _ = raw.recvmsg_into([_scratch], STAMP_BUFFER, _PEEK)
    except OSError:  # nothing lies there, or the connection is gone: its read will say so
        return False
    timeline.peeked(ancillary)
    return not size


def _connect(self: Any, address: Any) -> Any:
    timeline = current()
    if timeline is None or self.timeout == 0.0:
        return _plain_connect(self, address)
    enable_stamps(self._sock)
    timeline.connecting()
    began = perf_counter_ns()
    try:
        result = _plain_connect(self, address)
    except BaseException:
        timeline.not_connected(perf_counter_ns() - began)
        raise
    timeline.connected(_network_share(self._sock, perf_counter_ns() - began))
    return result


def _network_share(raw: Any, took_ns: int) -> int:
    """The part of a connect that the network took: the kernel's round trip where it is known.

    The rest is the wait for a busy hub to come back to this greenlet, which is the generator's.
    """
    if not HAS_KERNEL_STAMPS:
        return took_ns
    try:
        round_trip_ns = handshake_ns(raw)
    except Exception as error:  # noqa: BLE001 - fails open: the whole wait is an upper bound
        faults.note("TCP_INFO", error)
        return took_ns
    return took_ns if round_trip_ns is None else min(round_trip_ns, took_ns)
