"""Stamps under TLS: OpenSSL reads the bytes itself, so the kernel's stamp is peeked at beforehand.

Just when the raw socket became readable, and before each read, ``recvmsg(…, MSG_PEEK)`` on it gives
the stamp of the last segment that lies there. The handshake's own reads are peeked at too: its
waits are the network's up to the stamp of what came; what it computes is the generator's.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import gevent.ssl

from trilat.agent.tcp import HAS_KERNEL_STAMPS
from trilat.locust import faults

from .answer import take_stamp
from .arrival import LONG_NS, correct, seen_ns_ago
from .reading import cut_in_place
from .sending import send_marked
from .sockets import enable_stamps, peek
from .timeline import current

__all__ = ["install"]

_SSLSocket: Any = gevent.ssl.SSLSocket
_plain_send = _SSLSocket.send
_plain_read = _SSLSocket.read
_plain_wait = _SSLSocket._wait
_plain_handshake = _SSLSocket.do_handshake
_NO_STAMP = -1
_state = {"peeks": HAS_KERNEL_STAMPS}


def install(*, kernel_stamps: bool = HAS_KERNEL_STAMPS) -> None:
    """Wrap gevent's TLS socket class; a second call changes nothing."""
    _state["peeks"] = kernel_stamps
    _SSLSocket.send = _send
    _SSLSocket.read = _read
    _SSLSocket._wait = _wait
    _SSLSocket.do_handshake = _do_handshake


def _send(self: Any, data: Any, flags: int = 0, **kwargs: Any) -> int:
    timeline = current()
    if timeline is None or not self._sslobj or not timeline.begins_exchange(id(self), data):
        plain: int = _plain_send(self, data, flags, **kwargs)
        return plain
    return send_marked(_plain_send, self, timeline, data, flags, **kwargs)


def _read(self: Any, nbytes: int = 2014, buffer: Any = None) -> Any:
    timeline = current()
    if timeline is None:
        return _plain_read(self, nbytes, buffer)
    if _state["peeks"]:
        peek(timeline, self._sock)
    try:
        result = _plain_read(self, nbytes, buffer)
    except BaseException:
        if self.timeout != 0.0:
            timeline.broke_off()
        raise
    try:
        size = result if buffer is not None else len(result)
        if not size and timeline.first_read < 0:
            timeline.closed(seen_ns_ago())
            return result
        first = timeline.received_tls()
        if timeline.last_lay > LONG_NS:
            correct(timeline, self._sock, first=first)
        if first:
            if buffer is not None:
                return cut_in_place(timeline, buffer, size)
            begin, end = take_stamp(timeline, result)
            return result[:begin] + result[end:] if end else result
    except Exception as error:  # noqa: BLE001 - fails open
        faults.note("reading an answer", error)
    return result


def _wait(self: Any, watcher: Any, timeout_exc: Any = None) -> None:
    timeline = current()
    if timeline is None:
        _plain_wait(self, watcher, timeout_exc)
        return
    if timeline.handshake_ns >= 0:
        timeline.peeked_wall = _NO_STAMP  # of the flight before
    began = perf_counter_ns()
    _plain_wait(self, watcher, timeout_exc)
    if watcher is self._read_event and _state["peeks"] and peek(timeline, self._sock):
        timeline.peeked_wall = _NO_STAMP
    if timeline.handshake_ns >= 0:
        timeline.waited_in_handshake(began)


def _do_handshake(self: Any) -> None:
    timeline = current()
    if timeline is None:
        _plain_handshake(self)
        return
    enable_stamps(self._sock)
    timeline.handshake_ns = 0
    try:
        _plain_handshake(self)
        timeline.connected(timeline.handshake_ns)
    finally:
        timeline.handshake_ns = -1
        timeline.peeked_wall = 0
