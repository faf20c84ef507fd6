"""The service's stamp, taken out of the first bytes of an answer.

The header line that the middleware added goes with it: the client library never sees it, just as
it never saw the request's marks. Parsing one more header would cost it several microseconds.
"""

from __future__ import annotations

from trilat.agent.stamp import EMPTY, ENTRY_LENGTH, locate

from .timeline import Timeline

__all__ = ["take_stamp"]

_LINE = b"\r\nserver-timing: app;dur="


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
    head = data[: length + 2]
    stamp, at = locate(head, timeline.span)
    if stamp is EMPTY:
        return 0, 0
    timeline.stamp = stamp
    begin, end = head.rfind(b"\r\n", 0, at), at + ENTRY_LENGTH
    ours = begin >= 0 and head[begin : begin + len(_LINE)].lower() == _LINE
    return (begin, end) if ours and head.startswith(b"\r\n", end) else (0, 0)
