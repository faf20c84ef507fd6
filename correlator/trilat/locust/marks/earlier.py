"""Exchanges before the one that counts: redirects, and tries on connections that were dead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from trilat.agent.layout import Kind, MarkFlag
from trilat.agent.records import UNKNOWN
from trilat.agent.stamp import EMPTY, find

from .heads import server_timing

__all__ = ["EARLIER_MAX", "Exchange", "records"]

EARLIER_MAX = 64
"""So many of a request are kept, twice the redirects that Locust's clients follow."""

_KIND = int(Kind.EARLIER)
_ANSWERED = int(MarkFlag.ANSWERED)


@dataclass(frozen=True, slots=True)
class Exchange:
    """Marks of an exchange; as those of `trilat.locust.marks.timeline.Timeline`.

    Attributes:
        ended: when it was over: its last byte was read, or waiting for it was given up.
    """

    flags: int
    trace_high: int
    trace_low: int
    span: int
    ended: int
    connect_ns: int
    sent: int
    first_read: int
    first_lay: int
    last_read: int
    last_lay: int
    read_wall: int
    stamp: bytes


def records(
    exchanges: Iterable[Exchange],
    response: Any,
    name_id: int,
    started_wall: int,
    started: int,
    hub_lag_ns: int,
) -> Iterator[tuple[Any, ...]]:
    """What the journal says of them, in their order: values for its ``append``.

    Args:
        exchanges: of one request.
        response: what the client made of it; the answers before it are in its ``history``.
        name_id: of the request, as the next three.
        started_wall: wall clock at its start.
        started: monotonic clock at its start.
        hub_lag_ns: estimate of the hub's lag.
    """
    heads = [answer.headers for answer in getattr(response, "history", ())]
    for number, exchange in enumerate(exchanges, 1):
        stamp = exchange.stamp
        if stamp is EMPTY and exchange.flags & _ANSWERED:  # its head came in several pieces
            found = (find(server_timing(head), exchange.span) for head in heads)
            stamp = next((each for each in found if each is not EMPTY), EMPTY)
        first, read = exchange.first_read, exchange.last_read
        yield (
            _KIND,
            exchange.flags,
            name_id,
            exchange.trace_high,
            exchange.trace_low,
            exchange.span,
            started_wall,
            started,
            exchange.ended - started,
            exchange.connect_ns,
            exchange.sent - started,
            first - started if first >= 0 else UNKNOWN,
            exchange.first_lay,
            read - started if read >= 0 else UNKNOWN,
            exchange.last_lay,
            exchange.read_wall,
            0,
            hub_lag_ns,
            UNKNOWN,
            0,
            stamp,
            0,
            number,
        )
