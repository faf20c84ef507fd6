"""The timeline of one request as the generator's sockets see it, kept per greenlet.

A Locust user's socket work runs in the greenlet that Locust timed the request in, so "which request
do these bytes belong to" is answered by the current greenlet: no client library has to be known.

One request may take several exchanges (a redirect, a connection found dead and tried again). Each
is marked with a span of its own. The marks kept here always describe the latest exchange; what the
earlier ones spent outside the generator adds up in ``prior_ns``.
"""

from __future__ import annotations

from time import perf_counter_ns, time_ns
from typing import Any

from greenlet import getcurrent

from trilat.agent.layout import MarkFlag
from trilat.agent.records import UNKNOWN
from trilat.agent.stamp import EMPTY
from trilat.agent.tcp import RECEIVE_STAMP

__all__ = ["Timeline", "attach", "current"]

_SENT = int(MarkFlag.SENT)
_ANSWERED = int(MarkFlag.ANSWERED)
_CONNECTED = int(MarkFlag.CONNECTED)
_TLS = int(MarkFlag.TLS)
_unpack_stamp = RECEIVE_STAMP.unpack


def current() -> Timeline | None:
    """The timeline that is open in the current greenlet."""
    timeline: Timeline | None = getattr(getcurrent(), "trilat_timeline", None)
    return timeline


def attach(timeline: Timeline | None) -> None:
    """Open a timeline in the current greenlet, or close it (None)."""
    greenlet: Any = getcurrent()
    greenlet.trilat_timeline = timeline


class Timeline:
    """Marks of one request. Instants are `time.perf_counter_ns`, -1 where not reached.

    A plain class with slots, written by the socket layer: this is the hottest code of the project.
    """

    __slots__ = (
        "connect_began",
        "connect_ns",
        "exchanges",
        "first_lay",
        "first_read",
        "flags",
        "handshake_lay_ns",
        "last_lay",
        "last_read",
        "peeked_wall",
        "prior_ns",
        "read_wall",
        "recorded",
        "sent",
        "socket_id",
        "span",
        "stamp",
        "started",
        "trace_high",
        "trace_low",
        "turned",
    )

    def __init__(self) -> None:
        self.started = perf_counter_ns()
        self.trace_high = self.trace_low = self.span = 0
        self.flags = 0
        self.exchanges = 1
        self.connect_began = -1
        self.connect_ns = 0
        self.sent = -1
        self.socket_id = 0
        self.turned = False  # the other side's turn has ended: the next send starts an exchange
        self.first_read = self.last_read = -1
        self.first_lay = self.last_lay = UNKNOWN
        self.read_wall = 0
        self.peeked_wall = 0
        self.handshake_lay_ns = -1  # -1: no TLS handshake is going on
        self.prior_ns = 0
        self.stamp = EMPTY
        self.recorded = False

    def begins_exchange(self, socket_id: int) -> bool:
        """Whether bytes about to be sent begin an exchange; if so, it is begun."""
        if self.sent >= 0:
            if not self.turned and self.socket_id == socket_id:
                return False
            self._end_exchange()
        self.socket_id = socket_id
        self.flags |= _SENT
        return True

    def received(self, size: int, ancillary: list[tuple[int, int, bytes]]) -> bool:
        """Bytes were read from a plain socket, with the kernel's stamp of the last one.

        Returns:
            Whether they are the first of an answer.
        """
        now = perf_counter_ns()
        self.turned = True
        if not size:  # the end of the stream carries no stamp
            return False
        self.last_read = now
        self.read_wall = wall = time_ns()
        if ancillary:
            seconds, nanoseconds = _unpack_stamp(ancillary[0][2])
            self.last_lay = wall - seconds * 1_000_000_000 - nanoseconds
        else:
            self.last_lay = UNKNOWN
        if self.first_read >= 0:
            return False
        self.first_read = now
        self.first_lay = self.last_lay
        self.flags |= _ANSWERED
        return True

    def received_tls(self, size: int) -> bool:
        """Bytes came out of OpenSSL.

        The stamp is that of the last segment that was seen to lie there. One from before the
        request was sent is not the answer's: a session ticket of TLS 1.3 that lay unread.

        Returns:
            Whether they are the first of an answer.
        """
        # In this order: a pause between the two must not make a stamp seem older than the request.
        wall = time_ns()
        now = perf_counter_ns()
        self.turned = True
        if not size:
            return False
        self.last_read = now
        self.read_wall = wall
        lay = wall - self.peeked_wall
        self.last_lay = lay if self.peeked_wall and 0 <= lay <= now - self.sent else UNKNOWN
        if self.first_read >= 0:
            return False
        self.first_read = now
        self.first_lay = self.last_lay
        self.flags |= _ANSWERED | _TLS
        return True

    def peeked(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        """Bytes lie unread in the kernel under a TLS connection; keep the latest one's stamp."""
        if ancillary:
            seconds, nanoseconds = _unpack_stamp(ancillary[0][2])
            self.peeked_wall = seconds * 1_000_000_000 + nanoseconds

    def waited_for_bytes(self) -> None:
        """A wait for bytes under TLS ended; in a handshake, what they lay is the generator's."""
        if self.handshake_lay_ns >= 0 and self.peeked_wall:
            self.handshake_lay_ns += max(time_ns() - self.peeked_wall, 0)

    def connecting(self) -> None:
        """A connection is being made for this request."""
        if self.sent >= 0:
            self._end_exchange()
        self.connect_began = perf_counter_ns()

    def connected(self, network_ns: int) -> None:
        """A connection, or the TLS handshake on it, took this long outside the generator."""
        self.connect_ns += max(network_ns, 0)
        self.flags |= _CONNECTED

    def _end_exchange(self) -> None:
        read = self.last_read
        ended = read - max(self.last_lay, 0) if read >= 0 else perf_counter_ns()
        self.prior_ns += max(ended - self.sent, 0)
        self.exchanges += 1
        self.sent = self.first_read = self.last_read = -1
        self.first_lay = self.last_lay = UNKNOWN
        self.turned = False
        self.stamp = EMPTY
        self.flags &= ~(_ANSWERED | _SENT)
