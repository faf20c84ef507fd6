"""Why trilat is off where it is: what is known, and has not been mended.

A scenario names one of these; the summary puts it beside what it finds there. Where a cause has
been mended, its text goes.
"""

from __future__ import annotations

__all__ = [
    "BACKLOG",
    "BODY",
    "CLOSING",
    "FLOOR",
    "JITTER",
    "LOPSIDED",
    "OVERTAKEN",
    "PAUSED",
    "TLS",
    "UPLOAD",
]

BODY = (
    "all between the arrivals of an answer's first and last bytes counts as service.body: in band,"
    " making a body and carrying it cannot be told apart (graded bounded)"
)
OVERTAKEN = (
    "the kernel's stamp is that of the last byte's packet; where an earlier one was lost or late,"
    " the answer could not be read before that came, and the wait for it counts as generator.read;"
    " where the body's packet is the late one, as service.body"
)
FLOOR = (
    "the shortest way to the application that was seen counts as network.out; on one host, or where"
    " the network is short, most of it is the event loop's shortest turn"
)
LOPSIDED = "an exchange between two clocks cannot see that its two ways differ: it halves them"
JITTER = (
    "a single request's queue cannot be told from jitter of the same size on its way out: the mean"
    " jitter of the way back is taken off"
)
UPLOAD = (
    "the application is called with a request's head; its wait for the rest of the body counts as"
    " service.app"
)
BACKLOG = (
    "the kernel of the service drops what it has no room for in the backlog, and it is sent again:"
    " trilat takes the last arrival, which the kernel tells of, the truth the first"
)
STALE = (
    "the kernel's word on the queue counts in its ticks, and after a pause of a virtual machine it"
    " may be wrong by the pause; such a reading also moves the clocks' alignment"
)
PAUSED = (
    "a process that is held back pauses anywhere, also between a stamp and the system call that it"
    " is of: that pause counts for what comes after"
)
CLOSING = (
    "the client waits for the connection's end, which carries no stamp: the wait of a busy"
    " generator for it counts as network.back"
)
TLS = (
    "what the client computes in a handshake counts as network.connect, and its first request may"
    " wait for the handshake's acknowledgement (Nagle's algorithm), which looks like a longer way"
)
