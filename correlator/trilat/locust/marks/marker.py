"""The marks that a request carries: two header lines, put into its head on the way to the socket.

There they cost a fifth of what they cost as headers of a client library, they need no knowledge of
one, and each exchange of a request (a redirect, a retry) gets a span of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from trilat.agent.marking import RUN_HEADER, TRACEPARENT_HEADER, trace_context

from .timeline import Timeline

__all__ = ["Marker", "marker"]

# Knuth's multiplier (TAOCP 6.4): odd, so ids never repeat within 2^64, and evenly spread, as
# samplers that look at the low half of a trace id expect.
_GOLDEN = 0x9E3779B97F4A7C15
_AHEAD = 256  # marks made at once: a tenth of a millisecond's work, and 25 KB
_MAX_HEAD = 16384
_THEIRS = b"\r\n" + TRACEPARENT_HEADER.lower().encode() + b":"
_C = ord("C")


class Marker:
    """Marks the requests of one process; inactive until a run begins."""

    def __init__(self) -> None:
        self.active = False
        self._run = b""
        self._trace_high = 0
        self._ahead: Iterator[tuple[int, int, bytes]] = iter(())

    def start(self, run_header: str) -> None:
        """Begin to mark requests as belonging to a run (the value of ``Trilat-Run``).

        Ids start from a random base, so that those of other workers are others.
        """
        self._run = f"{RUN_HEADER}: {run_header}\r\n".encode("latin-1")
        self._trace_high = secrets.randbits(64) | 1
        self._ahead = _made_ahead(self._run, self._trace_high, secrets.randbits(64))
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
        at = head.find(b"\r\n") + 2
        if not 2 <= at <= _MAX_HEAD or head[at - 11 : at - 4] != b" HTTP/1":
            return 0, b""
        if head[0] == _C and head.startswith(b"CONNECT "):
            return 0, b""
        # A body may follow, of any size, and may hold such a line, too: it is told apart only where
        # there is one, as that is rare.
        searched = head if len(head) <= _MAX_HEAD else head[:_MAX_HEAD]
        theirs = searched.lower().find(_THEIRS, at - 2)
        if theirs >= 0 and head.find(b"\r\n\r\n", at - 2, theirs + 2) < 0:
            self._take_theirs(timeline, head, theirs)
            return at, self._run
        timeline.trace_high = self._trace_high
        timeline.trace_low, timeline.span, marks = next(self._ahead)
        return at, marks

    def _take_theirs(self, timeline: Timeline, head: bytes, theirs: int) -> None:
        """Note the ids of a ``traceparent`` that the request has already; 0 where it is none."""
        end = head.find(b"\r\n", theirs + 2)
        context = trace_context(head[theirs + len(_THEIRS) : end].strip()) or (0, 0, 0)
        timeline.trace_high, timeline.trace_low, timeline.span = context


def _made_ahead(run: bytes, trace_high: int, base: int) -> Iterator[tuple[int, int, bytes]]:
    """Marks without end; many at once, by arrays, cost a quarter of what one by one would.

    Yields:
        Low half of a trace id, span id, and the header lines that carry them.
    """
    before = run + f"{TRACEPARENT_HEADER}: 00-{trace_high:016x}".encode()
    pattern = before + b"%016x-%016x-01\r\n" % (0, 0)
    low_at, span_at, width = len(before), len(before) + 17, len(pattern)
    lines = np.tile(np.frombuffer(pattern, np.uint8), (_AHEAD, 1))
    numbers = np.arange(1, _AHEAD + 1, dtype=np.uint64)
    while True:
        low = numbers * np.uint64(_GOLDEN) + np.uint64(base)  # modulo 2^64
        span = low ^ np.uint64(trace_high)
        for ids, begin in ((low, low_at), (span, span_at)):
            ids[ids == 0] = 1  # neither may be all zero
            lines[:, begin : begin + 16] = _digits(ids)
        whole = lines.tobytes()
        each = [whole[begin : begin + width] for begin in range(0, len(whole), width)]
        yield from zip(low.tolist(), span.tolist(), each, strict=True)
        numbers += np.uint64(_AHEAD)


def _digits(ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """The 16 hexadecimal digits of each id, as ASCII; shape (n, 16)."""
    return np.frombuffer(ids.astype(">u8").tobytes().hex().encode(), np.uint8).reshape(-1, 16)


marker = Marker()
"""The marker of this process."""
