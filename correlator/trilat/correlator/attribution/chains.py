"""Requests of several exchanges: redirects, and tries on connections that were dead.

Each exchange is cut by itself, as if it were a request that began where the one before it ended.
Together they fill the response time without gap or overlap, so their parts add up to it. What an
exchange has no evidence of stays unattributed; what came back with it counts, though it was not the
one that the client went on with.

The rows come from files that anyone may have written. Where the earlier exchanges of a request are
not all there, or not in order, they are dropped: their time, ``prior_ns``, is unattributed then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from trilat.agent.layout import Kind, MarkFlag
from trilat.agent.records import Component
from trilat.correlator.arrays import MAX_NS, Bools, Int64s, Rows

from .attribute import Attributed

__all__ = ["Chains", "joined", "unfolded"]

_SENT = int(MarkFlag.SENT)
_NOT_THE_GENERATORS = slice(Component.NETWORK_CONNECT, Component.GENERATOR_READ)

_Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Chains:
    """Which rows belong together.

    Attributes:
        rows: one for each exchange, to be cut by itself; times count from where it began.
        begun_ns: how long after its request's start each row's exchange began; shape of ``rows``.
        starts: where each request begins in ``rows``: with its last exchange, then the earlier
            ones in order.
        requests: one for each request, as they were recorded.
    """

    rows: Rows
    begun_ns: Int64s
    starts: _Places
    requests: Rows

    def ordered(self, order: _Places) -> Chains:
        """The same in another order, which keeps a request's rows together."""
        rows = self.rows.take(order)
        starts = np.flatnonzero(_is_last(rows))
        requests = self.requests.take(np.searchsorted(self.starts, order[starts]))
        return Chains(rows, self.begun_ns[order], starts, requests)


def unfolded(rows: Rows) -> Chains | None:
    """Take requests of several exchanges apart.

    Args:
        rows: of kinds `EXCHANGE` and `EARLIER`, in a journal's order.

    Returns:
        None where each row is a request of its own.
    """
    last = _is_last(rows)
    if last.all():
        return None
    rows = rows.take(np.flatnonzero(_kept(rows, last)))  # a copy
    starts = np.flatnonzero(_is_last(rows))
    if rows.size == starts.size:
        return Chains(rows, np.zeros(rows.size, np.int64), starts, rows)
    requests = rows.take(starts)
    return Chains(rows, _count_from_begin(rows, starts), starts, requests)


def _is_last(rows: Rows) -> Bools:
    last: Bools = rows["kind"] == int(Kind.EXCHANGE)
    return last


def _kept(rows: Rows, last: Bools) -> Bools:
    """All requests, and the earlier exchanges of those that have them all and in order."""
    starts = np.flatnonzero(last)
    if not starts.size:
        return last
    request = np.maximum(np.cumsum(last) - 1, 0)
    start = starts[request]
    number = np.arange(rows.size) - start  # below 0 before the first request
    response = rows["response_ns"][start]
    ended = np.where(last, 0, rows["response_ns"])
    sound = last | (
        (rows["exchanges"] == number)
        & (rows["started_ns"] == rows["started_ns"][start])
        & (rows["name_id"] == rows["name_id"][start])
        & (ended >= np.concatenate(([0], ended[:-1])))
        & (ended <= response)
        & (response <= MAX_NS)
    )
    sizes = np.diff(np.append(starts, rows.size))
    sent = (rows["flags"][starts] & _SENT) != 0
    whole = rows["exchanges"][starts].astype(np.int64) - sent == sizes - 1
    whole &= np.logical_and.reduceat(sound[starts[0] :], starts - starts[0])
    kept: Bools = last | (whole[request] & (number > 0))
    return kept


def _count_from_begin(rows: Rows, starts: _Places) -> Int64s:
    """Let each row's times count from the begin of its exchange, which is returned."""
    ended = np.where(_is_last(rows), 0, rows["response_ns"])
    begun: Int64s = np.concatenate(([0], ended[:-1]))
    ends = np.append(starts[1:], rows.size)
    begun[starts] = ended[ends - 1]
    for name in ("started_ns", "started_wall_ns"):
        rows[name] += begun
    for name in ("response_ns", "sent_ns", "first_read_ns", "last_read_ns"):
        rows[name] -= begun
    # Now that they are told apart, nothing of them is left to be unattributed as a whole.
    rows["prior_ns"][starts[ends - starts > 1]] = 0
    return begun


def joined(cut: Attributed, chains: Chains) -> Attributed:
    """Put the parts of each request's exchanges together.

    Args:
        cut: the exchanges of ``chains.rows``.
        chains: which of them belong together.
    """
    starts = chains.starts

    def summed(values: Int64s) -> Int64s:
        total: Int64s = np.add.reduceat(values, starts, axis=0)
        return total

    response = summed(cut.response_ns)
    began = cut.started_wall_ns[starts] - chains.begun_ns[starts]
    known = np.maximum.reduceat(cut.blocked_ns, starts) >= 0
    # Where an exchange has no evidence of a component, its grade of it means nothing.
    grades = cut.grades.copy()
    grades[~cut.matched, _NOT_THE_GENERATORS] = 0
    return replace(
        cut,
        response_ns=response,
        components_ns=summed(cut.components_ns),
        unattributed_ns=summed(cut.unattributed_ns),
        matched=cut.matched[starts],
        marked=cut.marked[starts],
        failed=cut.failed[starts],
        name_id=cut.name_id[starts],
        started_wall_ns=began,
        finished_wall_ns=np.maximum(began, 0) + response,
        first=cut.first[starts],
        lateness_ns=np.minimum(cut.lateness_ns[starts], MAX_NS - response),
        missed=cut.missed[starts],
        grades=np.maximum.reduceat(grades, starts),
        queue_low_ns=summed(cut.queue_low_ns),
        queue_high_ns=summed(cut.queue_high_ns),
        blocked_ns=np.where(known, summed(np.maximum(cut.blocked_ns, 0)), -1),
    )
