"""The points at which response times are cut, held in their order: 0 ≤ … ≤ R.

Rows come from other processes, and from files that anyone may have written. So no mark is believed
beyond the marks around it: each is clamped between the one before it and the end of the request.
Whatever the rows hold, the cut points are in order, and the parts between them cannot be negative
nor fail to add up. ::

    0      connect begins   sent      first arrival  last arrival  last read        R
    |------------|------------|---------------|-------------|-----------|-----------|
      send, prior   connect      out … back         body         read      finish

Where a mark is missing its point falls together with the next one: a request that was not answered
has its arrivals and its last read at R, one of a custom client is sent at 0. An answer whose
body the service handed over as a whole is as good as arrived with its last byte: whatever lies
between its first packet and its last one is the way back.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from trilat.agent.layout import MarkFlag
from trilat.agent.records import StampFlag
from trilat.correlator.arrays import INSTANT_MAX, MAX_NS, Bools, Int64s, Rows, clamp

__all__ = ["Cuts", "cut", "last_marks"]

_SENT = int(MarkFlag.SENT)
_ANSWERED = int(MarkFlag.ANSWERED)
_CONNECTED = int(MarkFlag.CONNECTED)
_TLS = int(MarkFlag.TLS)
_UNMARKED = int(MarkFlag.UNMARKED)
_FAILED = int(MarkFlag.FAILED)
_BROKEN = int(MarkFlag.BROKEN)
_FIRST = int(MarkFlag.FIRST)
_REORDERED = int(MarkFlag.REORDERED)
_WHOLE = int(StampFlag.WHOLE)

_NS_PER_MS = 1_000_000
_RATES_DIFFER = 1_000  # two clocks may go apart by a thousandth, far more than they do
_MISSED_MAX = 2**20
_MISSED_NS_MAX = 2**51  # of all tasks missed before one request, so that sums fit an int64
_GAP_MAX = INSTANT_MAX // 2  # 73 years: two of them still fit an int64


@dataclass(frozen=True, slots=True)
class Cuts:
    """Cut points and evidence of n requests; all arrays have shape (n,), times are int64 ns.

    Attributes:
        name_id: which endpoint.
        marked: the generator's socket layer saw the request.
        answered: it was sent, and an answer came.
        broken: after the last byte that was read more were awaited, and did not come.
        matched: the answer carried the service's marks, and they can be true.
        failed: Locust counted it as a failure.
        started_wall: wall clock at the start; 0 or less: unknown.
        response: the response time R.
        first: it is the first request of a task.
        lateness: how much later than intended it began; -1 where that is not known.
        missed: tasks that its user's schedule wanted in that time, and that were never started.
        connect: making the connection.
        prior: spent outside the generator in earlier exchanges (redirects, silent retries).
        sent: after the start, when the request went to the kernel, or trying ended.
        connected: it made a connection of its own.
        handshake: the round trip of that in the kernels; `MAX_NS` where it is not known.
        first_arrival: when the answer's first bytes reached the generator's kernel; where the body
            was handed over as a whole, its last ones.
        last_arrival: when its last byte did.
        last_read: when that was read.
        first_stamped: whether the kernel's stamp tells `first_arrival`; else it is estimated.
        last_stamped: the same for `last_arrival`.
        whole: the body was handed over as a whole.
        app: the service's own time from the app's call to its response's start.
        blocked: for how much of ``app`` the service's event loop was blocked; -1 unknown.
        outside: first arrival - sent - app: on the way out, in the service's queue and on the way
            back; 0 where not matched.
        queue_read: what the service's kernel tells of its queue; 0 where it tells nothing.
        queue_low: the lower limit, a tick below that; 0 where it tells nothing.
        queue_high: the upper limit; `MAX_NS` where it tells nothing.
        host: identity of the service's kernel.
        sent_at: monotonic instant at which the request was sent.
        gap: wall clock of the service at the app's call, less the generator's when it was sent.
        spread: like ``outside``, of stamps alone, nothing estimated: how far the service's clock
            may be from ``gap``.
        sound: all of an exchange's marks are there and in order, so it can line clocks up.
    """

    name_id: Int64s
    marked: Bools
    answered: Bools
    broken: Bools
    matched: Bools
    failed: Bools
    started_wall: Int64s
    response: Int64s
    first: Bools
    lateness: Int64s
    missed: Int64s
    connect: Int64s
    prior: Int64s
    sent: Int64s
    connected: Bools
    handshake: Int64s
    first_arrival: Int64s
    last_arrival: Int64s
    last_read: Int64s
    first_stamped: Bools
    last_stamped: Bools
    whole: Bools
    app: Int64s
    blocked: Int64s
    outside: Int64s
    queue_read: Int64s
    queue_low: Int64s
    queue_high: Int64s
    host: Int64s
    sent_at: Int64s
    gap: Int64s
    spread: Int64s
    sound: Bools

    def part(self, rows: npt.NDArray[np.intp]) -> Cuts:
        """Those of some of the requests, by their places, which ascend."""
        if rows.size == self.response.size:
            return self
        return Cuts(*(getattr(self, column.name)[rows] for column in fields(Cuts)))


def cut(rows: Rows) -> Cuts:
    """Cut points of exchange rows, whatever these hold.

    Args:
        rows: shape (n,), of `trilat.correlator.records.frames.EXCHANGE_DTYPE`.
    """
    flags = rows["flags"]
    marked = (flags & _UNMARKED) == 0
    answered = (flags & (_UNMARKED | _SENT | _ANSWERED)) == (_SENT | _ANSWERED)
    matched = answered & _can_be_true(rows)
    response = clamp(rows["response_ns"], 0, MAX_NS)
    sent = clamp(rows["sent_ns"], 0, response) * marked
    prior = clamp(rows["prior_ns"], 0, sent)
    lateness = np.where(
        rows["lateness_ns"] >= 0, clamp(rows["lateness_ns"], 0, MAX_NS - response), -1
    )
    corrected = response + np.maximum(lateness, 0)
    connect = clamp(rows["connect_ns"], 0, sent - prior)
    connected = marked & ((flags & _CONNECTED) != 0)
    # Under TLS its handshake is in it, too.
    bare = connected & ((flags & _TLS) == 0) & (connect > 0)
    missed_max = np.minimum(_MISSED_NS_MAX // (corrected + 1), _MISSED_MAX)
    return Cuts(
        name_id=rows["name_id"].astype(np.int64),
        marked=marked,
        answered=answered,
        broken=answered & ((flags & _BROKEN) != 0),
        matched=matched,
        failed=(flags & _FAILED) != 0,
        started_wall=np.minimum(rows["started_wall_ns"], INSTANT_MAX - MAX_NS),
        response=response,
        first=(flags & _FIRST) != 0,
        lateness=lateness,
        missed=clamp(rows["missed"], 0, missed_max) * (lateness >= 0),
        connect=connect,
        prior=prior,
        sent=sent,
        connected=connected,
        handshake=np.where(bare, connect, MAX_NS),
        **_answer(rows, response, sent, answered, matched),
    )


def _can_be_true(rows: Rows) -> Bools:
    """Whether the service's marks are such as one can give; those of no stamp are not.

    An app cannot take longer than the generator waited for its answer.
    """
    app, blocked = rows["service_app_ns"], rows["service_blocked_ns"]
    waited = clamp(rows["first_read_ns"], 0, MAX_NS) - clamp(rows["sent_ns"], 0, MAX_NS)
    can: Bools = (
        (rows["service_called_wall_ns"] > 0)
        & (app >= 0)
        & (app <= waited + waited // _RATES_DIFFER + _NS_PER_MS)
        & (blocked >= -1)
        & (rows["service_queue_ms"] >= -1)
    )
    return can


def _answer(
    rows: Rows, response: Int64s, sent: Int64s, answered: Bools, matched: Bools
) -> dict[str, Any]:
    """The points after ``sent``, and what the service's marks make of them."""
    last_read = np.where(answered, clamp(rows["last_read_ns"], sent, response), response)
    first_read = clamp(rows["first_read_ns"], sent, last_read)
    # How long bytes lay in the kernel: its stamp; else how late the hub came for anything.
    lag = np.maximum(rows["hub_lag_ns"], 0)
    first_lay, last_lay = rows["first_lay_ns"], rows["last_lay_ns"]
    first_told, last_told = first_lay >= 0, last_lay >= 0
    in_order = (rows["flags"] & _REORDERED) == 0  # else the event loop tells, and not the stamp
    # An estimate gives way to what the service measured: no answer comes before the app gave it.
    given = sent + clamp(rows["service_app_ns"], 0, first_read - sent) * matched
    estimate = np.maximum(last_read - lag * answered, given)
    last_arrival = np.where(last_told & answered, last_read - last_lay, estimate)
    last_arrival = clamp(last_arrival, sent, last_read)
    estimate = np.maximum(first_read - lag, given)
    first_arrival = np.where(first_told, first_read - first_lay, estimate)
    whole = matched & ((rows["service_flags"] & _WHOLE) != 0)
    in_pieces = matched & ~whole
    first_arrival = np.where(in_pieces, clamp(first_arrival, sent, last_arrival), last_arrival)
    app = clamp(rows["service_app_ns"], 0, first_arrival - sent) * matched

    blocked = rows["service_blocked_ns"]
    tick = np.maximum(rows["service_tick_10us"].astype(np.int64) * 10_000, _NS_PER_MS)
    queue = rows["service_queue_ms"].astype(np.int64) * _NS_PER_MS
    return {
        "first_arrival": first_arrival,
        "last_arrival": last_arrival,
        "last_read": last_read,
        "first_stamped": np.where(in_pieces, first_told, last_told) & in_order,
        "last_stamped": last_told & in_order,
        "whole": whole,
        "app": app,
        "blocked": np.where(matched & (blocked >= 0), clamp(blocked, 0, app), -1),
        "outside": (first_arrival - sent - app) * matched,
        "queue_read": np.maximum(queue, 0),
        "queue_low": np.maximum(queue - tick, 0),
        "queue_high": np.where(queue >= 0, queue + tick, MAX_NS),
        **_clocks(rows, sent, first_read, last_read, matched),
    }


def _clocks(
    rows: Rows, sent: Int64s, first_read: Int64s, last_read: Int64s, matched: Bools
) -> dict[str, Any]:
    """What lines the two hosts' clocks up; only marks that needed no clamping are trusted."""
    read_wall, called_wall = rows["read_wall_ns"], rows["service_called_wall_ns"]
    sent_wall = clamp(read_wall, 0, INSTANT_MAX) - (last_read - sent)
    gap = clamp(called_wall, 0, INSTANT_MAX) - sent_wall
    arrival = clamp(first_read - np.maximum(rows["first_lay_ns"], 0), sent, last_read)
    spread = arrival - sent - clamp(rows["service_app_ns"], 0, arrival - sent)
    sound = (
        matched
        & (read_wall > 0)
        & (rows["sent_ns"] == sent)
        & (rows["first_read_ns"] == first_read)
        & (rows["last_read_ns"] == last_read)
        # A stamp from before the request, or an app time longer than the exchange, leaves nothing.
        & (spread > 0)
    )
    return {
        "host": rows["service_host"].astype(np.int64),
        "sent_at": clamp(rows["started_ns"], 0, INSTANT_MAX) + sent,
        "gap": clamp(gap, -_GAP_MAX, _GAP_MAX),
        "spread": spread,
        "sound": sound,
    }


def last_marks(rows: Rows) -> Int64s:
    """The last monotonic instant that each row's own marks speak of, in ns.

    Not the end of the request by its response time: a test may report whatever it likes there.
    """
    marks = np.maximum(rows["sent_ns"], rows["last_read_ns"])
    return clamp(rows["started_ns"], 0, INSTANT_MAX) + clamp(marks, 0, MAX_NS)
