"""Why trilat is off where it is: what is known, and has not been mended.

A scenario names one of these; the summary puts it beside what it finds there. Where a cause has
been mended, its text goes.
"""

from __future__ import annotations

__all__ = [
    "BACKLOG",
    "CLOSING",
    "JITTER",
    "LOPSIDED",
    "OVERTAKEN",
    "PACKETS",
    "PAUSED",
    "SHORT",
    "STALE",
]

SHORT = (
    "marks are taken up to 0.1 ms from where a packet is seen: sending a request, and a server's"
    " work between an answer's start and its first packet, count as the network's; where all else"
    " is as short, that shows"
)
OVERTAKEN = (
    "where packets came out of order, how long the answer lay is known from where the event loop"
    " saw it; what it lay before that, while the loop was busy, counts as the network's"
)
LOPSIDED = "an exchange between two clocks cannot see that its two ways differ: it halves them"
JITTER = (
    "a single request's queue cannot be told from jitter of the same size on its way out, nor its"
    " tail; the totals are those that the kernel tells"
)
PACKETS = (
    "of a request in many packets the kernel tells when the last one came, in its ticks: up to one"
    " tick of the way counts as queue"
)
BACKLOG = (
    "the kernel of the service drops what it has no room for in the backlog, and it is sent again:"
    " trilat takes the last arrival, which the kernel tells of, the truth the first"
)
STALE = (
    "the kernel's word on the queue counts in its ticks, and after a pause of a virtual machine it"
    " may be wrong by the pause; where every request queues, it is also what the clocks' alignment"
    " rests on"
)
PAUSED = (
    "a process that is held back pauses anywhere, also between a stamp and the system call that it"
    " is of: that pause counts for what comes after"
)
CLOSING = (
    "the client waits for the connection's end, which carries no stamp: the event loop tells when"
    " it saw it, and what it lay before that counts as network.back"
)
