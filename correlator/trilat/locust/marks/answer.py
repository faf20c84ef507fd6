"""The service's stamp, taken out of the first bytes of an answer.

The header line that the middleware added goes with it: the client library never sees it, just as
it never saw the request's marks. Parsing one more header would cost it several microseconds.
"""

from __future__ import annotations

from trilat.agent.stamp import EMPTY, ENTRY_LENGTH, locate

from .timeline import Timeline

__all__ = ["take_stamp"]

_LINE = b"\r\nserver-timing: app;dur="
_LINE_LENGTH = len(_LINE)


def take_stamp(timeline: Timeline, data: bytes) -> tuple[int, int]:
    """Keep the stamp of an answer's head.

    Nothing behind the head is looked at: a body may hold whatever it likes, a stamp included.

    Args:
        timeline: of the request.
        data: the first bytes of its answer.

    Returns:
        Begin and end of the bytes to cut out; equal where there is nothing to cut: the head has
        not come in whole, or a proxy put other entries into the line.
    """
    length = data.find(b"\r\n\r\n")
    if length < 0:
        return 0, 0
    stamp, at = locate(data, timeline.span, length)
    if stamp is EMPTY:
        return _behind_interim(timeline, data, length + 4) if data[9:10] == b"1" else (0, 0)
    timeline.stamp = stamp
    begin, end = data.rfind(b"\r\n", 0, at), at + ENTRY_LENGTH
    if end != length and not data.startswith(b"\r\n", end):
        return 0, 0
    line = data[begin : begin + _LINE_LENGTH]
    return (begin, end) if line == _LINE or line.lower() == _LINE else (0, 0)


def _behind_interim(timeline: Timeline, data: bytes, end: int) -> tuple[int, int]:
    """Look behind an interim answer (1xx) for the one that counts; it may still be to come."""
    rest = data[end:]
    if not rest:
        timeline.interim()
        return 0, 0
    begin_cut, end_cut = take_stamp(timeline, rest)
    return (end + begin_cut, end + end_cut) if end_cut else (0, 0)
