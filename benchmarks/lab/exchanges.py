"""HTTP exchanges in captures: which bytes of a connection are a request, and which its answer.

In the clear, a request says its number and its span id in its head. Under TLS nothing can be read;
there the service's own log says whose the n-th request of a connection was, and TLS' records say
where requests begin: each is a run of records of application data.

A client does not send its next request before it has the whole answer to the one before. So the
answer is all that came between the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .streams import Connection, Key, Stream

__all__ = ["Arrival", "Exchange", "arrivals", "clear_exchanges", "tls_exchanges"]

_NUMBER = re.compile(rb"\r\nlab-request: (\d+)", re.IGNORECASE)
_SPAN = re.compile(rb"\r\ntraceparent: 00-[0-9a-f]{32}-([0-9a-f]{16})", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_APPLICATION_DATA, _CHANGE_CIPHER, _HANDSHAKE = 23, 20, 22
_RECORD_HEAD = 5
_AT_ONCE_NS = 500_000


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer, as the generator's host saw them; instants of the kernel's clock.

    Attributes:
        number: the lab's, of the request.
        span: its span id, 0 unknown.
        asked_ns: the connection that it made was asked for; -1 it made none.
        connect_ns: what making it took outside the generator.
        sent_ns: its first byte was handed to the kernel: it left, or the kernel held it back.
        arrived_ns: the last byte of its answer was there; -1 never.
    """

    number: int
    span: int
    asked_ns: int
    connect_ns: int
    sent_ns: int
    arrived_ns: int


Arrival = tuple[int, int]
"""Number and span id of a request that arrived at a service."""


@dataclass(frozen=True, slots=True)
class _Request:
    begin: int
    end: int
    number: int
    span: int


def clear_exchanges(connections: Mapping[Key, Connection]) -> Iterator[Exchange]:
    """The exchanges of connections without TLS, at the generator's host."""
    for connection in connections.values():
        requests = list(_requests(bytes(connection.out.data)))
        yield from _exchanges(connection, requests)


def tls_exchanges(
    connections: Mapping[Key, Connection], calls: Mapping[int, Sequence[Arrival]]
) -> Iterator[Exchange]:
    """The same for connections with TLS.

    Args:
        connections: at the generator's host.
        calls: by the client's port, the requests that the service saw, in order.
    """
    for connection in connections.values():
        yield from _exchanges(connection, _tls_requests(connection, calls), tls=True)


def arrivals(
    connections: Mapping[Key, Connection], calls: Mapping[int, Sequence[Arrival]] | None = None
) -> dict[Arrival, int]:
    """When each request had arrived at the service's host: its last byte, ns since the epoch."""
    found: dict[Arrival, int] = {}
    for connection in connections.values():
        if calls is None:
            requests: Sequence[_Request] = list(_requests(bytes(connection.out.data)))
        else:
            requests = _tls_requests(connection, calls)
        for request in requests:
            at_ns = connection.out.arrived_ns(request.end - 1)
            if at_ns >= 0:
                found[request.number, request.span] = at_ns
    return found


def _requests(data: bytes) -> Iterator[_Request]:
    """The requests in the bytes of a connection; it ends with the first that is none."""
    begin = 0
    while (head_end := data.find(b"\r\n\r\n", begin)) >= 0:
        head = data[begin : head_end + 2]
        number, span, length = (each.search(head) for each in (_NUMBER, _SPAN, _LENGTH))
        end = head_end + 4 + (int(length.group(1)) if length else 0)
        if number:  # else one of somebody else's
            found = int(span.group(1), 16) if span else 0
            yield _Request(begin, min(end, len(data)), int(number.group(1)), found)
        begin = end


def _exchanges(
    connection: Connection, requests: Sequence[_Request], *, tls: bool = False
) -> Iterator[Exchange]:
    """Put the answers to the requests of a connection at the generator's host."""
    out, back = connection.out, connection.back
    sent = [out.left_ns(request.begin) for request in requests]
    if tls and sent and connection.asked_ns >= 0:
        sent[0] = _handed_over_ns(out, requests[0].begin)
    answer_end = _application_end(back) if tls else back.size
    borders = [*(back.arrived_by(at_ns) for at_ns in sent[1:]), answer_end]
    before = back.arrived_by(sent[0]) if sent else 0
    begins = [before, *borders[:-1]]
    for place, request in enumerate(requests):
        first = place == 0 and connection.asked_ns >= 0 and (tls or request.begin == 0)
        arrived_ns = -1
        if borders[place] > begins[place]:
            arrived_ns = back.arrived_ns(borders[place] - 1)
        connect_ns = 0
        if first and connection.granted_ns >= 0:
            connect_ns = connection.granted_ns - connection.asked_ns
            connect_ns += _handshake_ns(connection, request.begin) if tls else 0
        yield Exchange(
            number=request.number,
            span=request.span,
            asked_ns=connection.asked_ns if first else -1,
            connect_ns=connect_ns,
            sent_ns=sent[place],
            arrived_ns=arrived_ns,
        )


def _handed_over_ns(out: Stream, begin: int) -> int:
    """When the first request after a TLS handshake was handed to the kernel.

    Where it left in the moment in which the end of the handshake was acknowledged, the kernel had
    held it back until then (Nagle's algorithm). A client sends it as soon as it is done with the
    handshake, so that is when it was handed over.
    """
    left_ns, acknowledged_ns = out.left_ns(begin), out.acknowledged_ns(begin)
    held = acknowledged_ns >= 0 and 0 <= left_ns - acknowledged_ns < _AT_ONCE_NS
    return out.left_ns(begin - 1) if held else left_ns


def _records(data: bytes) -> list[tuple[int, int, int]]:
    """TLS records: type, begin, end."""
    found, begin = [], 0
    while begin + _RECORD_HEAD <= len(data):
        end = begin + _RECORD_HEAD + int.from_bytes(data[begin + 3 : begin + 5], "big")
        found.append((data[begin], begin, end))
        begin = end
    return found


def _application_end(stream: Stream) -> int:
    """Where the last record of application data ends: what is behind it closes the connection."""
    ends = [end for kind, _, end in _records(bytes(stream.data)) if kind == _APPLICATION_DATA]
    return min(ends[-1], stream.size) if ends else 0


def _tls_requests(connection: Connection, calls: Mapping[int, Sequence[Arrival]]) -> list[_Request]:
    """Runs of application data to the service, with an answer between each two."""
    records = _records(bytes(connection.out.data))
    data = [(begin, end) for kind, begin, end in records if kind == _APPLICATION_DATA]
    data = data[1:] if _is_new(connection) else data
    back = connection.back
    runs: list[tuple[int, int]] = []
    for begin, end in data:
        left_ns = connection.out.left_ns(begin)
        if runs and not _answered(back, connection.out.left_ns(runs[-1][0]), left_ns):
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((begin, end))
    return [
        _Request(begin, end, number, span)
        for (begin, end), (number, span) in zip(
            runs, calls.get(connection.client, ()), strict=False
        )
    ]


def _answered(back: Stream, since_ns: int, until_ns: int) -> bool:
    return back.arrived_by(until_ns) > back.arrived_by(since_ns)


def _handshake_ns(connection: Connection, end: int) -> int:
    """What a TLS handshake took outside the generator: from each flight to the end of its answer.

    In TLS 1.3 the client's second flight ends it: what comes after that is not waited for.

    Args:
        connection: at the generator's host.
        end: where its first request begins.
    """
    out, back = connection.out, connection.back
    records = [(kind, begin) for kind, begin, _ in _records(bytes(out.data[:end]))]
    if _is_new(connection):
        end = next(begin for kind, begin in records if kind == _CHANGE_CIPHER)
    flights = sorted({out.left_ns(begin) for _, begin in records if begin < end})
    flights.append(out.left_ns(end))
    total = 0
    for left_ns, next_ns in pairwise(flights):
        there = back.arrived_by(next_ns)
        if there > back.arrived_by(left_ns):
            total += back.arrived_ns(there - 1) - left_ns
    return total


def _is_new(connection: Connection) -> bool:
    """Whether a connection speaks TLS 1.3, which ends its handshake under the guise of data."""
    kinds = [kind for kind, _, _ in _records(bytes(connection.out.data))]
    return _CHANGE_CIPHER in kinds and _HANDSHAKE not in kinds[kinds.index(_CHANGE_CIPHER) :]
