"""The stamped sockets: gevent's own, with the marks of a request taken on the way through.

Both of Locust's HTTP clients, and anything else a locustfile may use, end in gevent's socket class.
Its methods are wrapped once; without an open timeline in the current greenlet they call the
original and nothing else. On Linux ``SO_TIMESTAMPNS`` makes ``recvmsg`` tell when the kernel
received the last byte read (``Documentation/networking/timestamping.rst`` in the Linux sources),
which is how long the answer lay there before a busy generator came for it.
"""

from __future__ import annotations

import errno
import socket as stdlib_socket
from time import perf_counter_ns
from typing import Any

import gevent.socket
from greenlet import getcurrent

from trilat.agent.tcp import HAS_KERNEL_STAMPS, SO_TIMESTAMPNS, STAMP_BUFFER, handshake_ns

from . import faults
from .answer import take_stamp
from .marker import marker
from .timeline import Timeline, current

__all__ = ["ask_early", "cut_in_place", "enable_stamps", "install", "peek", "send_marked"]

_Socket: Any = gevent.socket.socket
_plain_send = _Socket.send
_plain_recv = _Socket.recv
_plain_recv_into = _Socket.recv_into
_plain_connect = _Socket._internal_connect
_EWOULDBLOCK = errno.EWOULDBLOCK
_SOL_SOCKET = stdlib_socket.SOL_SOCKET
_PEEK = stdlib_socket.MSG_PEEK
_scratch = bytearray(65536)


def install(*, kernel_stamps: bool = HAS_KERNEL_STAMPS) -> None:
    """Wrap gevent's socket class; a second call changes nothing.

    Args:
        kernel_stamps: take the kernel's receive stamps; False measures as on macOS and Windows.
    """
    _Socket.send = _send
    _Socket._internal_connect = _connect
    _Socket.recv = _recv if kernel_stamps else _recv_unstamped
    _Socket.recv_into = _recv_into if kernel_stamps else _recv_into_unstamped


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


def peek(timeline: Timeline, raw: Any) -> None:
    """Take the stamp of what lies unread in a raw socket, without taking the bytes."""
    try:  # noqa: SIM105 - a context manager costs a microsecond
        timeline.peeked(raw.recvmsg_into([_scratch], STAMP_BUFFER, _PEEK)[1])
    except OSError:  # nothing lies there, or the connection is gone: its read will say so
        pass


def _send(self: Any, data: Any, flags: int = 0, **kwargs: Any) -> int:
    timeline = getattr(getcurrent(), "trilat_timeline", None)
    if timeline is None or not timeline.begins_exchange(id(self)):
        plain: int = _plain_send(self, data, flags, **kwargs)
        return plain
    return send_marked(_plain_send, self, timeline, data, flags, **kwargs)


def send_marked(
    send: Any, self: Any, timeline: Timeline, data: Any, flags: int, **kwargs: Any
) -> int:
    """Send the first bytes of an exchange, with the marks put into the request's head.

    Returns:
        How many of the caller's own bytes were sent, at least one.
    """
    try:
        head = bytes(data)
        at, marks = marker.lines(timeline, head)
    except Exception as error:  # noqa: BLE001 - fails open: the request goes out unmarked
        faults.note("marking a request", error)
        at, marks = 0, b""
    timeline.sent = perf_counter_ns()
    if not marks:
        plain: int = send(self, data, flags, **kwargs)
        return plain
    marked = b"".join((head[:at], marks, head[at:]))
    sent: int = send(self, marked, flags, **kwargs)
    while sent < at + len(marks):  # the caller knows nothing of the marks: send them whole
        sent += send(self, memoryview(marked)[sent:], flags, **kwargs)
    return sent - len(marks)


def note_bytes(timeline: Timeline, data: bytes, ancillary: list[tuple[int, int, bytes]]) -> bytes:
    """Bytes came in: take their marks and, from an answer's first ones, the service's stamp.

    Returns:
        What the client gets to see.
    """
    try:
        if timeline.received(len(data), ancillary):
            begin, end = take_stamp(timeline, data)
            if end:
                return data[:begin] + data[end:]
    except Exception as error:  # noqa: BLE001 - fails open
        faults.note("reading an answer", error)
    return data


def note_buffer(
    timeline: Timeline, target: Any, size: int, ancillary: list[tuple[int, int, bytes]]
) -> int:
    """The same for bytes that came into the caller's buffer.

    Returns:
        How many of them the client gets to see.
    """
    try:
        if timeline.received(size, ancillary):
            return cut_in_place(timeline, target, size)
    except Exception as error:  # noqa: BLE001 - fails open
        faults.note("reading an answer", error)
    return size


def cut_in_place(timeline: Timeline, target: Any, size: int) -> int:
    """Take the stamp out of a buffer that holds an answer's first bytes.

    Returns:
        How many bytes are left in it.
    """
    with memoryview(target) as view:
        head = bytes(view[:size])
        begin, end = take_stamp(timeline, head)
        if end:
            view[begin : size - (end - begin)] = head[end:]
    return size - (end - begin)


def _recv(self: Any, *args: Any) -> bytes:
    timeline = getattr(getcurrent(), "trilat_timeline", None)
    if timeline is None or len(args) != 1:
        plain: bytes = _plain_recv(self, *args)
        return plain
    # gevent's own loop, with recvmsg in the place of recv.
    while True:
        try:
            data, ancillary, _, _ = self._sock.recvmsg(args[0], STAMP_BUFFER)
            break
        except OSError as error:
            if error.args[0] != _EWOULDBLOCK or self.timeout == 0.0:
                timeline.turned = True
                raise
        self._wait(self._read_event)
    return note_bytes(timeline, data, ancillary)


def _recv_into(self: Any, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
    timeline = getattr(getcurrent(), "trilat_timeline", None)
    if timeline is None or flags:
        plain: int = _plain_recv_into(self, buffer, nbytes, flags)
        return plain
    target = memoryview(buffer)[:nbytes] if nbytes else buffer
    while True:
        try:
            size, ancillary, _, _ = self._sock.recvmsg_into([target], STAMP_BUFFER)
            break
        except OSError as error:
            if error.args[0] != _EWOULDBLOCK or self.timeout == 0.0:
                timeline.turned = True
                raise
        self._wait(self._read_event)
    return note_buffer(timeline, target, size, ancillary)


def _recv_unstamped(self: Any, *args: Any) -> bytes:
    data: bytes = _plain_recv(self, *args)
    if (timeline := current()) is not None and len(args) == 1:
        return note_bytes(timeline, data, [])
    return data


def _recv_into_unstamped(self: Any, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
    size: int = _plain_recv_into(self, buffer, nbytes, flags)
    if (timeline := current()) is not None and not flags:
        return note_buffer(timeline, buffer, size, [])
    return size


def _connect(self: Any, address: Any) -> Any:
    timeline = current()
    if timeline is None or self.timeout == 0.0:
        return _plain_connect(self, address)
    enable_stamps(self._sock)
    timeline.connecting()
    result = _plain_connect(self, address)
    took = perf_counter_ns() - timeline.connect_began
    timeline.connected(_network_share(self._sock, took))
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
