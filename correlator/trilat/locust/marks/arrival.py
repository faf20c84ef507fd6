"""When an answer was there to be read, where the kernel's stamp does not tell it.

A stamp is that of the last packet that was read. Where a packet before that one came later (it was
overtaken, or lost and sent again), nothing could be read until then. And a connection's end has no
stamp at all. There the event loop tells: it looked, and saw that there was something to read.
"""

from __future__ import annotations

from time import time_ns
from typing import Any
from weakref import WeakKeyDictionary

from gevent import get_hub

from trilat.agent.tcp import HAS_KERNEL_STAMPS, packets_out_of_order

from . import timeline as marks
from .timeline import Timeline

__all__ = ["LONG_NS", "correct", "seen_ns_ago"]

LONG_NS = 250_000
"""An answer that lay in the kernel for less has nothing to be corrected."""

_known: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # packets of connections that had some


def seen_ns_ago() -> int:
    """How long ago the event loop last looked for what is ready, in nanoseconds.

    libev keeps the wall clock's time of each look (``ev_now``).
    """
    now_ns = time_ns()
    return max(now_ns - round(get_hub().loop.now() * 1e9), 0)


def correct(timeline: Timeline, raw: Any, *, first: bool) -> None:
    """Correct how long what was just read had lain, if packets came out of order.

    Args:
        timeline: of the request; `Timeline.last_lay` is more than `LONG_NS`.
        raw: the connection's raw socket.
        first: whether it was the first of the answer.

    Raises:
        OSError: the connection is gone.
    """
    if not HAS_KERNEL_STAMPS:
        return
    # A large answer is read in several pieces, and all of them may have waited for one packet.
    if not timeline.flags & marks.REORDERED and not _overtaken(raw):
        return
    timeline.flags |= marks.REORDERED
    # A look cannot have been before the stamp: something was missing then.
    timeline.last_lay = min(timeline.last_lay, seen_ns_ago())
    if first:
        timeline.first_lay = timeline.last_lay


def _overtaken(raw: Any) -> bool:
    """Whether packets of a connection came out of order since this was asked for the last time."""
    count = packets_out_of_order(raw)
    if not count or count == _known.get(raw, 0):
        return False
    _known[raw] = count
    return True
