"""The marks that a request carries: two header lines, put into its head on the way to the socket.

There they cost a fifth of what they cost as headers of a client library, they need no knowledge of
one, and each exchange of a request (a redirect, a retry) gets a span of its own.
"""

from __future__ import annotations

import secrets
from itertools import count

from trilat.agent.marking import RUN_HEADER, TRACEPARENT_HEADER, trace_context

from .timeline import Timeline

__all__ = ["Marker", "marker"]

# Knuth's multiplier (TAOCP 6.4): odd, so ids never repeat within 2^64, and evenly spread, as
# samplers that look at the low half of a trace id expect.
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF
_MAX_HEAD = 16384
_THEIRS = b"\r\n" + TRACEPARENT_HEADER.lower().encode() + b":"


class Marker:
    """Marks the requests of one process; inactive until a run begins."""

    def __init__(self) -> None:
        self.active = False
        self._run = b""
        self._prefix = b""
        self._trace_high = 0
        self._base = 0
        self._counter = count(1)

    def start(self, run_header: str) -> None:
        """Begin to mark requests as belonging to a run (the value of ``Trilat-Run``).

        Ids start from a random base, so that those of other workers are others.
        """
        self._trace_high = secrets.randbits(64) | 1
        self._base = secrets.randbits(64)
        self._counter = count(1)
        self._run = f"{RUN_HEADER}: {run_header}\r\n".encode("latin-1")
        trace = f"{TRACEPARENT_HEADER}: 00-{self._trace_high:016x}".encode()
        self._prefix = self._run + trace
        self.active = True

    def stop(self) -> None:
        """Requests go out as without trilat."""
        self.active = False

    def lines(self, timeline: Timeline, head: bytes) -> tuple[int, bytes]:
        """Where in a request's head the marks go, and the marks.

        A ``traceparent`` that the locustfile sets is kept. The flag of ours says "sampled": a
        service that traces every request goes on doing so, and its cost stays in the measurement.

        Returns:
            An offset just behind the request line and the lines to put there; 0 and nothing where
            the bytes are not the head of an HTTP/1 request to a service.
        """
        at = head.find(b"\r\n", 0, _MAX_HEAD) + 2
        if at < 2 or head[at - 11 : at - 4] != b" HTTP/1" or head.startswith(b"CONNECT "):
            return 0, b""
        length = head.find(b"\r\n\r\n", at - 2)
        theirs = head[: length if length >= 0 else _MAX_HEAD].lower().find(_THEIRS, at - 2)
        if theirs >= 0:
            end = head.find(b"\r\n", theirs + 2)
            value = head[theirs + len(_THEIRS) : end].strip()
            context = trace_context(value) or (0, 0, 0)
            timeline.trace_high, timeline.trace_low, timeline.span = context
            return at, self._run
        low = (self._base + next(self._counter) * _GOLDEN) & _MASK or 1
        timeline.trace_high = self._trace_high
        timeline.trace_low = low
        timeline.span = span = low ^ self._trace_high or 1
        return at, b"%b%016x-%016x-01\r\n" % (self._prefix, low, span)


marker = Marker()
"""The marker of this process."""
