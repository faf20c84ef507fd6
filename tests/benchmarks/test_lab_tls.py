"""Exchanges under TLS, where a capture shows records and no text."""

from __future__ import annotations

from benchmarks.lab.capture import ACK, SYN, Segment
from benchmarks.lab.exchanges import Exchange, arrivals, tls_exchanges
from benchmarks.lab.streams import connections_in

CLIENT, SERVICE = 40_000, 443
HANDSHAKE, CIPHER, DATA, ALERT = 22, 20, 23, 21
CALLS = {CLIENT: [(1, 11), (2, 22)]}


def record(kind: int, size: int) -> bytes:
    """A TLS record with so many bytes in it."""
    return bytes([kind, 3, 3]) + size.to_bytes(2, "big") + bytes(size)


class Wire:
    """A connection as it is captured, record by record."""

    def __init__(self) -> None:
        self.segments = [
            Segment(100, CLIENT, SERVICE, 9, 0, SYN, 0, b""),
            Segment(140, SERVICE, CLIENT, 99, 10, SYN | ACK, 0, b""),
        ]
        self._out, self._back = 10, 100

    def out(self, at_ns: int, *records: bytes) -> None:
        """The client sends."""
        data = b"".join(records)
        numbers = self._out, self._back
        self.segments.append(Segment(at_ns, CLIENT, SERVICE, *numbers, ACK, len(data), data))
        self._out += len(data)

    def back(self, at_ns: int, *records: bytes) -> None:
        """The service sends, or acknowledges."""
        data = b"".join(records)
        numbers = self._back, self._out
        self.segments.append(Segment(at_ns, SERVICE, CLIENT, *numbers, ACK, len(data), data))
        self._back += len(data)


def handshake_1_3() -> Wire:
    """A connection with TLS 1.3, up to the end of its handshake."""
    wire = Wire()
    wire.out(150, record(HANDSHAKE, 200))
    wire.back(220, record(HANDSHAKE, 100), record(CIPHER, 1), record(DATA, 900))
    wire.out(250, record(CIPHER, 1), record(DATA, 53))
    return wire


def test_tls_1_3_ends_its_handshake_under_the_guise_of_data() -> None:
    """The client's first record of data is no request, and the tickets are no answer."""
    wire = handshake_1_3()
    wire.out(260, record(DATA, 300))
    wire.back(300, record(DATA, 255), record(DATA, 255))  # tickets
    wire.back(400, record(DATA, 500))
    wire.out(500, record(DATA, 300))
    wire.back(600, record(DATA, 500))
    wire.back(900, record(ALERT, 19))
    found = connections_in(wire.segments, (SERVICE,))
    assert list(tls_exchanges(found, CALLS)) == [
        Exchange(1, 11, asked_ns=100, connect_ns=40 + 70, sent_ns=260, arrived_ns=400),
        Exchange(2, 22, asked_ns=-1, connect_ns=0, sent_ns=500, arrived_ns=600),
    ]
    assert arrivals(found, CALLS) == {(1, 11): 260, (2, 22): 500}


def test_a_request_that_the_kernel_held_back_was_handed_over_before() -> None:
    """It left when the handshake's end was acknowledged: Nagle's algorithm."""
    wire = handshake_1_3()
    wire.back(50_000_000)
    wire.out(50_000_010, record(DATA, 300))
    wire.back(90_000_000, record(DATA, 500))
    (only,) = tls_exchanges(connections_in(wire.segments, (SERVICE,)), CALLS)
    assert only.sent_ns == 250


def test_tls_1_2_has_two_round_trips_before_its_first_request() -> None:
    """Both are the connection's."""
    wire = Wire()
    wire.out(150, record(HANDSHAKE, 200))
    wire.back(220, record(HANDSHAKE, 900))
    wire.out(250, record(HANDSHAKE, 40), record(CIPHER, 1), record(HANDSHAKE, 40))
    wire.back(300, record(CIPHER, 1), record(HANDSHAKE, 40))
    wire.out(1_000_000, record(DATA, 300))
    wire.back(2_000_000, record(DATA, 500))
    (only,) = tls_exchanges(connections_in(wire.segments, (SERVICE,)), CALLS)
    assert only.connect_ns == 40 + 70 + 50
    assert only.sent_ns == 1_000_000
