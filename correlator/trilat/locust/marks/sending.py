"""The sending half of the stamped sockets: marks go into a request's head on its way out."""

from __future__ import annotations

import errno
from time import perf_counter_ns
from typing import Any

import gevent.socket
from greenlet import getcurrent

from trilat.locust import faults

from .marker import marker
from .timeline import Timeline

__all__ = ["install", "send_marked"]

_Socket: Any = gevent.socket.socket
_plain_send = _Socket.send
_plain_sendall = _Socket.sendall
_EWOULDBLOCK = errno.EWOULDBLOCK
_AT_ONCE = 65536  # bytes; more than that is cut into pieces, which go through `send`


def install() -> None:
    """Wrap what gevent's sockets send with; a second call changes nothing."""
    _Socket.send = _send
    _Socket.sendall = _sendall


def _send(self: Any, data: Any, flags: int = 0, **kwargs: Any) -> int:
    timeline = getattr(getcurrent(), "trilat_timeline", None)
    if timeline is None or not timeline.begins_exchange(id(self), data):
        plain: int = _plain_send(self, data, flags, **kwargs)
        return plain
    return send_marked(_plain_send, self, timeline, data, flags, **kwargs)


def _sendall(self: Any, data: Any, flags: int = 0) -> None:
    """What both of Locust's clients send a head with.

    gevent's own asks the kernel for the size of a buffer, cuts views of the data and keeps the time
    before it sends. Where all goes out at once, as a head does, none of that is needed, which makes
    up for a part of what the marks cost.
    """
    timeline = getattr(getcurrent(), "trilat_timeline", None)
    if (
        timeline is None
        or flags
        or type(data) is not bytes
        or not 0 < len(data) <= _AT_ONCE
        or type(self) is not _Socket  # that of TLS sends through OpenSSL
        or not timeline.begins_exchange(id(self), data)
    ):
        _plain_sendall(self, data, flags)
        return
    try:
        at, marks = marker.lines(timeline, data)
    except Exception as error:  # noqa: BLE001 - fails open: the request goes out unmarked
        faults.note("marking a request", error)
        marks = b""
    if marks:
        data = b"".join((data[:at], marks, data[at:]))
    elif data.startswith(b"CONNECT "):
        timeline.asks_for_tunnel()
    timeline.sent = perf_counter_ns()
    try:
        sent = self._sock.send(data)
    except OSError as error:
        if error.args[0] != _EWOULDBLOCK or self.timeout == 0.0:
            raise
        sent = 0
    if sent < len(data):
        _plain_sendall(self, memoryview(data)[sent:])


def send_marked(
    send: Any, self: Any, timeline: Timeline, data: Any, flags: int, **kwargs: Any
) -> int:
    """Send the first bytes of an exchange, with the marks put into the request's head.

    Returns:
        How many of the caller's own bytes were sent, at least one.
    """
    head, at, marks = bytes(data), 0, b""
    try:
        at, marks = marker.lines(timeline, head)
    except Exception as error:  # noqa: BLE001 - fails open: the request goes out unmarked
        faults.note("marking a request", error)
    timeline.sent = perf_counter_ns()
    if not marks:
        if head.startswith(b"CONNECT "):
            timeline.asks_for_tunnel()
        plain: int = send(self, data, flags, **kwargs)
        return plain
    marked = b"".join((head[:at], marks, head[at:]))
    sent: int = send(self, marked, flags, **kwargs)
    while sent < at + len(marks):  # the caller knows nothing of the marks: send them whole
        sent += send(self, memoryview(marked)[sent:], flags, **kwargs)
    return sent - len(marks)
