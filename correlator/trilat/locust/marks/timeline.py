"""The timeline of one request as the generator's sockets see it, kept per greenlet.

A Locust user's socket work runs in the greenlet that Locust timed the request in, so "which request
do these bytes belong to" is answered by the current greenlet: no client library has to be known.

One request may take several exchanges (a redirect, a connection found dead and tried again). Each
is marked with a span of its own. The marks kept here always describe the latest exchange; those of
the ones before it are set aside in ``earlier``.
"""

from __future__ import annotations

from time import perf_counter_ns, time_ns
from typing import Any, NamedTuple

from greenlet import getcurrent

from trilat.agent.layout import MarkFlag
from trilat.agent.records import UNKNOWN
from trilat.agent.stamp import EMPTY
from trilat.agent.tcp import RECEIVE_STAMP

from .earlier import EARLIER_MAX, Exchange
from .heads import is_request

__all__ = ["Due", "Timeline", "attach", "current"]

_SENT = int(MarkFlag.SENT)
_ANSWERED = int(MarkFlag.ANSWERED)
_CONNECTED = int(MarkFlag.CONNECTED)
_TLS = int(MarkFlag.TLS)
_BROKEN = int(MarkFlag.BROKEN)
_TUNNEL = int(MarkFlag.TUNNEL)
REORDERED = int(MarkFlag.REORDERED)
_unpack_stamp = RECEIVE_STAMP.unpack


def current() -> Timeline | None:
    """The timeline that is open in the current greenlet."""
    timeline: Timeline | None = getattr(getcurrent(), "trilat_timeline", None)
    return timeline


def attach(timeline: Timeline | None) -> None:
    """Open a timeline in the current greenlet, or close it (None)."""
    greenlet: Any = getcurrent()
    greenlet.trilat_timeline = timeline


class Due(NamedTuple):
    """When a task was to start; its greenlet carries it as ``trilat_due`` up to a request.

    Attributes:
        intended_ns: instant of `time.perf_counter_ns`; -1: the user has no schedule.
        missed: tasks that the schedule wanted since then, and that were never started.
    """

    intended_ns: int
    missed: int


class Timeline:
    """Marks of one request. Instants are `time.perf_counter_ns`, -1 where not reached.

    A plain class with slots, written by the socket layer: this is the hottest code of the project.
    ``earlier`` is there once ``exchanges`` is above 1, ``ended`` once `MarkFlag.BROKEN` is set.
    """

    __slots__ = (
        "connect_began",
        "connect_ns",
        "due",
        "earlier",
        "ended",
        "exchanges",
        "first_lay",
        "first_read",
        "flags",
        "handshake_ns",
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
        self.handshake_ns = -1  # -1: no TLS handshake is going on
        self.prior_ns = 0
        self.stamp = EMPTY
        self.due: Due | None = None  # known of a task's first request
        self.recorded = False

    def begins_exchange(self, socket_id: int, data: Any) -> bool:
        """Whether bytes about to be sent begin an exchange; if so, it is begun.

        Those that go where an answer has begun are the rest of a body, unless they are a request's
        head: after ``100 Continue``, or where a service answers before it has read all.
        """
        if self.sent >= 0:
            if self.socket_id == socket_id and not (self.turned and is_request(data)):
                return False
            self._end_exchange()
        self.socket_id = socket_id
        self.flags |= _SENT
        return True

    def received(self, ancillary: list[tuple[int, int, bytes]]) -> bool:
        """Bytes were read from a plain socket, with the kernel's stamp of the last one.

        Returns:
            Whether they are the first of an answer.
        """
        now = perf_counter_ns()
        self.turned = True
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

    def received_tls(self) -> bool:
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
        self.last_read = now
        self.read_wall = wall
        lay = wall - self.peeked_wall
        self.last_lay = lay if self.peeked_wall > 0 and 0 <= lay <= now - self.sent else UNKNOWN
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

    def waited_in_handshake(self, began: int) -> None:
        """A wait in a TLS handshake ended: it was the network's up to the stamp of what came."""
        waited = perf_counter_ns() - began
        lay = time_ns() - self.peeked_wall if self.peeked_wall > 0 else 0
        self.handshake_ns += max(waited - max(lay, 0), 0)

    def interim(self) -> None:
        """What was read is an interim answer (1xx): the one that counts is still to come."""
        self.first_read = self.last_read = -1
        self.first_lay = self.last_lay = UNKNOWN
        self.flags &= ~_ANSWERED
        self.turned = False

    def closed(self, seen_ns_ago: int = UNKNOWN) -> None:
        """The other side has closed the connection, which carries no stamp.

        Args:
            seen_ns_ago: where that was waited for, how long ago the event loop saw it; else it
                had come before it was asked for.
        """
        if self.first_read < 0:
            self.broke_off()
            return
        now = perf_counter_ns()
        self.turned = True
        if seen_ns_ago >= 0:
            self.last_lay = seen_ns_ago
            self.flags |= REORDERED
        elif self.last_lay >= 0:
            self.last_lay += now - self.last_read
        self.last_read = now
        self.read_wall = time_ns()

    def broke_off(self) -> None:
        """Waiting for bytes ended without any: a timeout, a connection that was reset."""
        self.turned = True
        self.flags |= _BROKEN
        self.ended = perf_counter_ns()

    def asks_for_tunnel(self) -> None:
        """The exchange that was begun is one with a proxy, and a part of making the connection."""
        self.flags |= _TUNNEL

    def connecting(self) -> None:
        """A connection is being made for this request; of several addresses the first counts."""
        if self.sent >= 0:
            self._end_exchange()
        if self.connect_began < 0:
            self.connect_began = perf_counter_ns()

    def not_connected(self, took_ns: int) -> None:
        """An address could not be reached; what that took is part of a connection to the next."""
        self.connect_ns += took_ns

    def connected(self, network_ns: int) -> None:
        """A connection, or the TLS handshake on it, took this long outside the generator."""
        self.connect_ns += max(network_ns, 0)
        self.flags |= _CONNECTED

    def _end_exchange(self) -> None:
        if self.flags & _BROKEN:
            ended = arrived = self.ended
        elif self.last_read >= 0:
            ended = self.last_read
            arrived = ended - max(self.last_lay, 0)
        else:  # sending failed
            ended = arrived = perf_counter_ns()
        outside_ns = max(arrived - self.sent, 0)
        if self.flags & _TUNNEL:
            self.connect_ns += outside_ns
            self.flags = _CONNECTED
        else:
            self._set_aside(ended)
            self.prior_ns += self.connect_ns + outside_ns
            self.exchanges += 1
            self.connect_began, self.connect_ns = -1, 0
            self.flags = 0
        self.trace_high = self.trace_low = self.span = 0
        self.sent = self.first_read = self.last_read = -1
        self.first_lay = self.last_lay = UNKNOWN
        self.turned = False
        self.stamp = EMPTY

    def _set_aside(self, ended: int) -> None:
        if self.exchanges == 1:
            self.earlier: list[Exchange] = []
        if len(self.earlier) == EARLIER_MAX:
            return  # from here on, prior_ns is all that is known
        self.earlier.append(
            Exchange(
                self.flags,
                self.trace_high,
                self.trace_low,
                self.span,
                ended,
                self.connect_ns,
                self.sent,
                self.first_read,
                self.first_lay,
                self.last_read,
                self.last_lay,
                self.read_wall,
                self.stamp,
            )
        )
