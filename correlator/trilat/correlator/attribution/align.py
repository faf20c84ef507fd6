"""How far each service host's wall clock is from the generator's, and how sure that is.

Each request is an NTP exchange (RFC 5905, section 8). The request cannot have arrived before it was
sent, nor the answer before it was given, so the clock's offset lies within ::

    [gap - spread, gap - queue_low]

where ``gap`` is the service's clock at the app's call less the generator's at the send, ``spread``
what the exchange spent outside both, and ``queue_low`` what the kernel tells to be the
service's queue at least. The middle of the first form is NTP's ``((T2 - T1) + (T3 - T4)) / 2``.

A kernel counts in ticks, and after a pause of a virtual machine it may count the pause in. So its
word moves no edge unless that of several exchanges does.

Two clocks drift, by at most `DRIFT_PPM` here, so an exchange still says something of the offset at
any other moment: the same interval, wider by the drift. The offset at each request therefore lies
in the intersection of all exchanges' intervals, widened so: its upper and lower envelope. Two
running minima, one from each end, give it exactly. What an earlier window knew is one more
interval. No exchange needs to be chosen, and knowledge fades at the rate at which it becomes
false.

Where intervals contradict each other, a clock has stepped: what was known before is forgotten. A
single false stamp looks the same; it costs knowledge, not honesty.

The envelope also holds the network's floor: from its lower edge to its upper one is the shortest
round trip that was seen. A handshake's is answered by the service's kernel; what the other has
beyond it is a server's shortest turn from its socket to the application, and no network's. Without
that the offset is in the middle, and the floor of each way is half. What a request's way out has
beyond its floor is jitter or queue. The way back has no queue, so what it has beyond the lower edge
tells how large the jitter is.

On one host there is one clock: offset 0, no bound, no drift, and floors that stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trilat.correlator.arrays import INSTANT_MAX, MAX_NS, Bools, Int64s, clamp

from .cuts import Cuts
from .queueing import JitterBalance, Ways

__all__ = ["DRIFT_PPM", "Aligner", "Alignment"]

DRIFT_PPM = 200
"""How fast two clocks may drift apart: two crystals' usual tolerances of 100 ppm each."""

_DRIFT = 1_000_000 // DRIFT_PPM  # ns of time for 1 ns of drift
_ANYWHERE = INSTANT_MAX // 2  # half the width of an interval that says nothing
_STEPS_MAX = 8  # in one window; clocks that contradict each other more often are not aligned
_HOSTS_MAX = 256
_TURN_MAX = 1_000_000
"""A server's shortest turn, in ns. Where more is missing, who answers handshakes is somebody in
between (a proxy, a load balancer), and what lies behind is not known to be no network."""

_TELLERS_MIN, _TELLERS = 2, 50
"""One exchange of a window is not believed by itself about the queue, nor are two of fifty."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """What is known of the clocks at each of n requests; shape (n,), int64 ns.

    Attributes:
        offset_ns: the service's wall clock less the generator's.
        bound_ns: how far from the truth that may be.
        floor_ns: the network's shortest way out to the service, by these clocks.
        jitter_ns: what of a way out beyond that counts as the network's jitter.
        split_ok: whether this is enough to tell the way out from the way back. Not where the
            bound is wider than the time to be split, or where the request's own marks contradict
            the clocks.
    """

    offset_ns: Int64s
    bound_ns: Int64s
    floor_ns: Int64s
    jitter_ns: Int64s
    split_ok: Bools


@dataclass(frozen=True, slots=True)
class _Interval:
    """Where a host's offset lay at a monotonic instant."""

    at: int
    low: int
    high: int


_NOTHING = _Interval(0, -_ANYWHERE, _ANYWHERE)


class Aligner:
    """Lines up the clocks of the services that one generator process talks to.

    Windows of requests are to be given in order of time; the order within one does not matter.

    Args:
        host_identity: the generator's own host (`trilat.agent.host.host_identity`).
    """

    def __init__(self, host_identity: int) -> None:
        self._own = host_identity
        self._hosts: dict[int, _Host] = {}

    @property
    def same_host(self) -> bool | None:
        """Whether all services seen so far run on the generator's own host; None: none was seen."""
        return self._hosts.keys() == {self._own} if self._hosts else None

    def align(self, cuts: Cuts) -> Alignment:
        """Line the clocks up for one window of requests; what is not matched gets no split."""
        n = cuts.response.size
        offset, bound, floor, jitter = (np.zeros(n, np.int64) for _ in range(4))
        split_ok = np.zeros(n, np.bool_)
        for identity in np.unique(cuts.host[cuts.matched]).tolist():
            if identity not in self._hosts:
                if len(self._hosts) >= _HOSTS_MAX:
                    continue
                self._hosts[identity] = _Host(own=identity == self._own)
            rows = np.flatnonzero(cuts.matched & (cuts.host == identity))
            one = self._hosts[identity].align(cuts.part(rows))
            offset[rows], bound[rows], floor[rows] = one.offset_ns, one.bound_ns, one.floor_ns
            jitter[rows], split_ok[rows] = one.jitter_ns, one.split_ok
        return Alignment(offset, bound, floor, jitter, split_ok)


class _Host:
    """What is known of one host that serves."""

    def __init__(self, *, own: bool) -> None:
        self._own = own
        self._known = _NOTHING
        self._handshake = MAX_NS
        self._balance = JitterBalance()

    def align(self, cuts: Cuts) -> Alignment:
        """Line its clock up for those requests of a window that it has answered."""
        self._handshake = min(self._handshake, int(cuts.handshake.min()))
        low, high, back_jitter = self._envelope(cuts)
        if self._own:
            offset = bound = np.zeros_like(low)
            floor = np.minimum(high, self._handshake >> 1)
        else:
            beyond = np.maximum(high - low - self._handshake, 0)
            turn = np.where(beyond <= _TURN_MAX + _ticks_of_queue(cuts), beyond, 0)
            offset = (low + high - turn) >> 1
            floor, bound = high - turn - offset, high - offset
        out = cuts.gap - offset
        ok = (bound <= cuts.outside) & (out >= -bound) & (out <= cuts.outside + bound)
        jitter = np.full_like(low, back_jitter)
        if ok.any():
            ways = Ways.of(cuts, clamp(out, 0, cuts.outside), floor).part(ok)
            jitter[:] = self._balance.jitter(cuts.part(np.flatnonzero(ok)), ways, back_jitter)
        return Alignment(offset, bound, floor, jitter, ok)

    def _envelope(self, cuts: Cuts) -> tuple[Int64s, Int64s, int]:
        """Lower and upper edge of its offset at each request, and the way back's jitter."""
        low, high, sound = cuts.gap - cuts.spread, _upper_ends(cuts), cuts.sound
        if self._own:  # one clock: what says otherwise is false
            sound = sound & (low <= 0) & (high >= 0)
        low, high = np.where(sound, low, -_ANYWHERE), np.where(sound, high, _ANYWHERE)
        edges, self._known = (_still if self._own else _drifting)(
            low, high, cuts.sent_at, self._known
        )
        beyond = (edges[0] - low)[sound]
        return *edges, int(beyond.sum()) // max(beyond.size, 1)


def _ticks_of_queue(cuts: Cuts) -> int:
    """What the kernel's ticks leave open of the queue, where all exchanges waited in one; in ns."""
    if not cuts.queue_low.min():
        return 0
    return int((cuts.queue_high - cuts.queue_low).max())


def _upper_ends(cuts: Cuts) -> Int64s:
    """How far ahead the service's clock can be by each exchange."""
    queue = np.minimum(cuts.queue_low, cuts.spread)
    told = np.flatnonzero(cuts.sound & (queue > 0))
    if told.size < _TELLERS_MIN:
        return cuts.gap
    high, ends = cuts.gap.copy(), cuts.gap[told] - queue[told]
    nth = 1 + told.size // _TELLERS
    high[told] = np.minimum(high[told], np.maximum(ends, np.partition(ends, nth)[nth]))
    return high


_Edges = tuple[Int64s, Int64s]


def _still(low: Int64s, high: Int64s, at: Int64s, known: _Interval) -> tuple[_Edges, _Interval]:
    """The edges, the same at all moments, as there is no drift; and what is known then."""
    lower, upper = max(int(low.max()), known.low), min(int(high.min()), known.high)
    edges = np.full_like(low, lower), np.full_like(high, upper)
    return edges, _Interval(int(at.max()), lower, upper)


def _drifting(low: Int64s, high: Int64s, at: Int64s, known: _Interval) -> tuple[_Edges, _Interval]:
    """The edges at each interval's moment, in whatever order these are; and what is known then."""
    low, high, at = np.append(low, known.low), np.append(high, known.high), np.append(at, known.at)
    order = np.argsort(at)
    moments = at[order]
    if (moments[1:] == moments[:-1]).any():  # then in an order that is not the input's
        order = np.lexsort((high, low, at))
    lower, upper, last = _edges(low[order], high[order], moments // _DRIFT)
    edges = np.empty((2, at.size), np.int64)
    edges[:, order] = lower, upper
    return (edges[0, :-1], edges[1, :-1]), _Interval(int(moments[-1]), *last)


def _edges(low: Int64s, high: Int64s, drift: Int64s) -> tuple[Int64s, Int64s, tuple[int, int]]:
    """Intersect intervals, each widened by the drift between it and where it is asked for.

    Args:
        low: lower ends, in order of time.
        high: upper ends.
        drift: the drift since some fixed moment, ascending.

    Returns:
        Lower and upper edge at each interval's moment, and both for what comes after the last
        one. After too many steps nothing is known.
    """
    lower, upper = np.full_like(low, -_ANYWHERE), np.full_like(high, _ANYWHERE)
    begin, last = 0, (-_ANYWHERE, _ANYWHERE)
    for _ in range(_STEPS_MAX + 1):
        # From the past: the running minimum of the upper ends, in a frame that drifts along.
        past_high = np.minimum.accumulate(high[begin:] - drift[begin:]) + drift[begin:]
        past_low = np.maximum.accumulate(low[begin:] + drift[begin:]) - drift[begin:]
        contradictory = past_low > past_high
        steps = contradictory.any()
        end = begin + int(contradictory.argmax()) if steps else low.size
        now, size = slice(begin, end), end - begin
        # From the future, the same the other way round.
        next_high = np.minimum.accumulate((high[now] + drift[now])[::-1])[::-1] - drift[now]
        next_low = np.maximum.accumulate((low[now] - drift[now])[::-1])[::-1] + drift[now]
        upper[now] = np.minimum(past_high[:size], next_high)
        lower[now] = np.maximum(past_low[:size], next_low)
        if not steps:
            last = int(lower[-1]), int(upper[-1])
            break
        begin = end
    return lower, upper, last
