"""One direction of a TCP connection at one place: which byte was seen there when.

Two questions are asked of it. When did a byte *leave*: when it was first seen, however often it
was sent again. When had a byte *arrived*: when it and all bytes before it were there, as a program
cannot read it earlier.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from .capture import ACK, SYN, Segment

__all__ = ["Connection", "Stream", "connections_in"]

_MODULUS = 2**32
_NEVER = -1


class Stream:
    """The bytes of one direction."""

    def __init__(self) -> None:
        self._base = -1  # TCP's number of the first byte
        self._left: tuple[list[int], list[int]] = ([], [])  # ends of ranges, and when first seen
        self._arrived: tuple[list[int], list[int]] = ([], [])
        self._ahead: list[tuple[int, int]] = []  # ranges behind a gap
        self._acknowledged: tuple[list[int], list[int]] = ([], [])
        self.data = bytearray()

    @property
    def size(self) -> int:
        """Bytes that were seen to leave."""
        return self._left[0][-1] if self._left[0] else 0

    def begin(self, sequence: int) -> None:
        """The number of the first byte is known."""
        if self._base < 0:
            self._base = sequence % _MODULUS

    def add(self, segment: Segment) -> None:
        """A segment was seen."""
        self.begin(segment.sequence)
        begin = (segment.sequence - self._base) % _MODULUS
        if not segment.size or begin > _MODULUS // 2:  # nothing, or from before
            return
        end = begin + segment.size
        ends, times = self._left
        if end > self.size:
            ends.append(end)
            times.append(segment.at_ns)
        if len(self.data) < end:
            self.data.extend(bytes(end - len(self.data)))
        self.data[begin : begin + len(segment.data)] = segment.data
        self._arrive(begin, end, segment.at_ns)

    def _arrive(self, begin: int, end: int, at_ns: int) -> None:
        ends, times = self._arrived
        front = ends[-1] if ends else 0
        if begin > front:
            self._ahead.append((begin, end))
            self._ahead.sort()
            return
        reached = max(front, end)
        while self._ahead and self._ahead[0][0] <= reached:
            reached = max(reached, self._ahead.pop(0)[1])
        if reached > front:
            ends.append(reached)
            times.append(at_ns)

    def acknowledge(self, segment: Segment) -> None:
        """A segment of the other direction was seen."""
        if self._base < 0 or not segment.flags & ACK:
            return
        end = (segment.acknowledged - self._base) % _MODULUS
        ends, times = self._acknowledged
        if end < _MODULUS // 2 and end > (ends[-1] if ends else 0):
            ends.append(end)
            times.append(segment.at_ns)

    def acknowledged_ns(self, end: int) -> int:
        """When the other side said that it has all bytes up to an offset; -1 never."""
        ends, times = self._acknowledged
        place = bisect_left(ends, end)
        return times[place] if place < len(ends) else _NEVER

    def left_ns(self, offset: int) -> int:
        """When the byte at an offset was first seen; -1 never."""
        ends, times = self._left
        place = bisect_right(ends, offset)
        return times[place] if place < len(ends) else _NEVER

    def arrived_ns(self, offset: int) -> int:
        """When all bytes up to the one at an offset were there; -1 never."""
        ends, times = self._arrived
        place = bisect_right(ends, offset)
        return times[place] if place < len(ends) else _NEVER

    def arrived_by(self, at_ns: int) -> int:
        """How many bytes were there before an instant."""
        ends, times = self._arrived
        place = bisect_left(times, at_ns)
        return ends[place - 1] if place else 0


@dataclass(slots=True)
class Connection:
    """A connection to a service, as it was seen at one place.

    Attributes:
        client: the client's port.
        server: the service's.
        asked_ns: when the client's first packet was seen; -1: before the capture.
        granted_ns: when the service's answer to it was; -1 never.
        out: bytes to the service.
        back: bytes from it.
    """

    client: int
    server: int
    asked_ns: int
    granted_ns: int = _NEVER
    out: Stream = field(default_factory=Stream)
    back: Stream = field(default_factory=Stream)


Key = tuple[int, int, int]
"""Port of the client, port of the service, TCP's number of the client's first byte: the same at
both places, and another one where a port is used again."""


def connections_in(segments: Iterable[Segment], ports: tuple[int, ...]) -> dict[Key, Connection]:
    """The connections to services on these ports.

    One that was made before the capture began counts from its first request in it.
    """
    found: dict[Key, Connection] = {}
    current: dict[tuple[int, int], Connection] = {}
    for segment in segments:
        to_service = segment.target in ports
        pair = (segment.source, segment.target)
        if not to_service:
            pair = pair[::-1]
        opening = segment.flags & (SYN | ACK)
        if to_service and opening == SYN:
            key = (*pair, (segment.sequence + 1) % _MODULUS)
            if key not in found:
                found[key] = current[pair] = Connection(*pair, segment.at_ns)
                found[key].out.begin(segment.sequence + 1)
            continue
        connection = current.get(pair)
        if connection is None:
            if not to_service or not segment.size:
                continue
            connection = current[pair] = Connection(*pair, _NEVER)
            found[(*pair, segment.sequence)] = connection
        if opening == SYN | ACK:
            connection.back.begin(segment.sequence + 1)
            if connection.granted_ns < 0:
                connection.granted_ns = segment.at_ns
            continue
        if to_service:
            connection.out.add(segment)
        else:
            connection.back.add(segment)
            connection.out.acknowledge(segment)
    return found
