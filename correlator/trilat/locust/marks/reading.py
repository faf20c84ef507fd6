"""The reading half of the stamped sockets: when bytes came, and the stamp that the service sent.

On Linux ``SO_TIMESTAMPNS`` makes ``recvmsg`` tell when the kernel received the last byte read
(``Documentation/networking/timestamping.rst`` in the Linux sources), which is how long the answer
lay there before a busy generator came for it.
"""

from __future__ import annotations

import errno
from typing import Any

import gevent.socket
from greenlet import getcurrent

from trilat.agent.tcp import STAMP_BUFFER
from trilat.locust import faults

from .answer import take_stamp
from .arrival import LONG_NS, correct, seen_ns_ago
from .timeline import Timeline, current

__all__ = ["cut_in_place", "install"]

_Socket: Any = gevent.socket.socket
_plain_recv = _Socket.recv
_plain_recv_into = _Socket.recv_into
_EWOULDBLOCK = errno.EWOULDBLOCK


def install(*, kernel_stamps: bool) -> None:
    """Wrap what gevent's sockets read with; a second call changes nothing."""
    _Socket.recv = _recv if kernel_stamps else _recv_unstamped
    _Socket.recv_into = _recv_into if kernel_stamps else _recv_into_unstamped


def note_bytes(
    timeline: Timeline, raw: Any, data: bytes, ancillary: list[tuple[int, int, bytes]]
) -> bytes:
    """Bytes came in: take their marks and, from an answer's first ones, the service's stamp.

    Returns:
        What the client gets to see.
    """
    try:
        first = timeline.received(ancillary)
        if timeline.last_lay > LONG_NS:
            correct(timeline, raw, first=first)
        if first:
            begin, end = take_stamp(timeline, data)
            if end:
                return data[:begin] + data[end:]
    except Exception as error:  # noqa: BLE001 - fails open
        faults.note("reading an answer", error)
    return data


def note_buffer(
    timeline: Timeline, raw: Any, target: Any, size: int, ancillary: list[tuple[int, int, bytes]]
) -> int:
    """The same for bytes that came into the caller's buffer.

    Returns:
        How many of them the client gets to see.
    """
    try:
        first = timeline.received(ancillary)
        if timeline.last_lay > LONG_NS:
            correct(timeline, raw, first=first)
        if first:
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
    # gevent's own loop, with recvmsg in the place of recv. What was sent a moment ago cannot be
    # answered yet: gevent tries to read all the same, and the error that comes of it takes as long
    # as all that is measured here.
    waits = not timeline.turned and self._read_event is not None and self.timeout != 0.0
    while True:
        if waits:
            _await_bytes(self, timeline)
        try:
            data, ancillary, _, _ = self._sock.recvmsg(args[0], STAMP_BUFFER)
            break
        except OSError as error:
            _only_if_none_came(self, timeline, error)
            waits = True
    if data:
        return note_bytes(timeline, self._sock, data, ancillary)
    timeline.closed(seen_ns_ago() if waits else -1)
    return b""


def _recv_into(self: Any, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
    timeline = getattr(getcurrent(), "trilat_timeline", None)
    if timeline is None or flags:
        plain: int = _plain_recv_into(self, buffer, nbytes, flags)
        return plain
    target = memoryview(buffer)[:nbytes] if nbytes else buffer
    waits = not timeline.turned and self._read_event is not None and self.timeout != 0.0
    while True:
        if waits:
            _await_bytes(self, timeline)
        try:
            size, ancillary, _, _ = self._sock.recvmsg_into([target], STAMP_BUFFER)
            break
        except OSError as error:
            _only_if_none_came(self, timeline, error)
            waits = True
    if size:
        return note_buffer(timeline, self._sock, target, size, ancillary)
    timeline.closed(seen_ns_ago() if waits else -1)
    return 0


def _await_bytes(self: Any, timeline: Timeline) -> None:
    """Wait until there is something to read, or for the socket's timeout.

    A timer of the event loop does what `gevent.Timeout` does with one, without its eight calls.
    """
    watcher, seconds = self._read_event, self.timeout
    try:
        if seconds is None or watcher is None or watcher.callback is not None:
            self._wait(watcher)  # which also says so where another greenlet waits for it
            return
        timer = self.hub.loop.timer(seconds, priority=-1)
        timer.start(_time_out, getcurrent(), update=True)
        try:
            self.hub.wait(watcher)
        finally:
            timer.stop()
            timer.close()
    except BaseException:
        timeline.broke_off()
        raise


def _time_out(waiting: Any) -> None:
    waiting.throw(TimeoutError("timed out"))


def _only_if_none_came(self: Any, timeline: Timeline, error: OSError) -> None:
    """Go on where all that a read has failed for is that no bytes are there yet."""
    if error.args[0] != _EWOULDBLOCK:
        timeline.broke_off()
        raise error
    if self.timeout == 0.0:
        raise error


def _recv_unstamped(self: Any, *args: Any) -> bytes:
    timeline = current()
    if timeline is None or len(args) != 1:
        plain: bytes = _plain_recv(self, *args)
        return plain
    try:
        data: bytes = _plain_recv(self, *args)
    except BaseException:
        timeline.broke_off()
        raise
    if data:
        return note_bytes(timeline, self._sock, data, [])
    timeline.closed(seen_ns_ago())
    return data


def _recv_into_unstamped(self: Any, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
    timeline = current()
    if timeline is None or flags:
        plain: int = _plain_recv_into(self, buffer, nbytes, flags)
        return plain
    try:
        size: int = _plain_recv_into(self, buffer, nbytes, flags)
    except BaseException:
        timeline.broke_off()
        raise
    if size:
        return note_buffer(timeline, self._sock, buffer, size, [])
    timeline.closed(seen_ns_ago())
    return 0
