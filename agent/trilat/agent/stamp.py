"""The service's marks on the wire: the value of a standard ``Server-Timing`` header.

An answer to a marked request carries what a browser shows, in milliseconds, and an exact entry::

    app;dur=20.513, queue;dur=4, lag;dur=1.2, trilat;desc="1.<64 characters>"

where ``queue`` is how long the request lay in the kernel (left out where nothing is known), ``lag``
how long the event loop was blocked in ``app`` (left out where it was not), ``1`` is the version of
the format and the 64 characters are the base64 form (RFC 4648, no padding is needed) of 48 bytes,
little-endian:

====== ===== ==========================================================
offset type  field of `ServiceMarks`
====== ===== ==========================================================
0      u64   span
8      i64   called_wall_ns
16     i64   app_ns
24     i64   blocked_ns, -1 unknown
32     i32   queue_ms, -1 unknown
36     u16   tick_us in units of 10 microseconds
38     u16   flags
40     u32   host
44     u32   instance
====== ===== ==========================================================

Both directions sit in hot paths: the service packs its numbers without building a `ServiceMarks`
(`STAMP` and `server_timing`), and the generator keeps the 48 bytes as they are for its
journal.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from struct import Struct

from .records import ServiceMarks

__all__ = [
    "EMPTY",
    "ENTRY_LENGTH",
    "STAMP",
    "STAMP_FIELDS",
    "decode",
    "encode",
    "find",
    "locate",
    "server_timing",
]

STAMP_FIELDS: tuple[tuple[str, str], ...] = (
    ("span", "Q"),
    ("called_wall_ns", "q"),
    ("app_ns", "q"),
    ("blocked_ns", "q"),
    ("queue_ms", "i"),
    ("tick_10us", "H"),
    ("flags", "H"),
    ("host", "I"),
    ("instance", "I"),
)
"""Names and `struct` formats of the 48 bytes, in order."""

STAMP = Struct("<" + "".join(format_ for _, format_ in STAMP_FIELDS))
EMPTY = bytes(STAMP.size)
"""Stands for "no stamp": span, host and times are all zero, which no service sends."""

_PREFIX = b'trilat;desc="1.'
_PREFIX_LENGTH = len(_PREFIX)
_SIZE = STAMP.size
_span_of = Struct("<Q").unpack_from
_TEXT_LENGTH = STAMP.size // 3 * 4
ENTRY_LENGTH = len(_PREFIX) + _TEXT_LENGTH + 1
"""Bytes of the ``trilat`` entry, the closing quote included."""


def encode(marks: ServiceMarks) -> bytes:
    """The value of the ``Server-Timing`` header for these marks.

    Raises:
        struct.error: a mark is out of its field's range.
    """
    packed = STAMP.pack(
        marks.span,
        marks.called_wall_ns,
        marks.app_ns,
        marks.blocked_ns,
        marks.queue_ms,
        marks.tick_us // 10,
        marks.flags,
        marks.host,
        marks.instance,
    )
    return server_timing(marks.app_ns, marks.queue_ms, marks.blocked_ns, packed)


def server_timing(app_ns: int, queue_ms: int, blocked_ns: int, packed: bytes) -> bytes:
    """The header's value for marks that `STAMP` packed; what is unknown is left out for people."""
    text = b2a_base64(packed)[:_TEXT_LENGTH]  # without the line's end
    app_ms = app_ns / 1e6
    if queue_ms >= 0 and blocked_ns <= 0:  # as most are
        return b'app;dur=%.3f, queue;dur=%d, trilat;desc="1.%b"' % (app_ms, queue_ms, text)
    queue = b", queue;dur=%d" % queue_ms if queue_ms >= 0 else b""
    lag = b", lag;dur=%.3f" % (blocked_ns / 1e6) if blocked_ns > 0 else b""
    return b'app;dur=%.3f%b%b, trilat;desc="1.%b"' % (app_ms, queue, lag, text)


def locate(text: bytes, span: int, end: int | None = None) -> tuple[bytes, int]:
    """The stamp in an answer's head that belongs to ``span``.

    A head may hold several stamps (a gateway's and the service's): the last one wins, as it is
    the outermost. Whatever cannot be read, or echoes another span, is no stamp.

    Args:
        text: the first bytes of an answer.
        span: the span id that the request carried.
        end: where its head ends; with all of ``text`` where that is not said.

    Returns:
        Its 48 bytes and where its entry of `ENTRY_LENGTH` bytes begins; `EMPTY` and -1 where
        there is none.
    """
    end = len(text) if end is None else end
    while (start := text.rfind(_PREFIX, 0, end)) >= 0:
        begin = start + _PREFIX_LENGTH
        try:
            packed = a2b_base64(text[begin : begin + _TEXT_LENGTH], strict_mode=True)
        except (Base64Error, ValueError):
            packed = b""
        if len(packed) == _SIZE and _span_of(packed)[0] == span:
            return packed, start
        end = start
    return EMPTY, -1


def find(text: bytes, span: int) -> bytes:
    """Like `locate`, in the value of a ``Server-Timing`` header: the 48 bytes, or `EMPTY`."""
    return locate(text, span)[0]


def decode(packed: bytes) -> ServiceMarks:
    """The marks in 48 packed bytes.

    Raises:
        struct.error: not 48 bytes.
    """
    span, called, app, blocked, queue_ms, tick_10us, flags, host, instance = STAMP.unpack(packed)
    return ServiceMarks(span, called, app, blocked, queue_ms, tick_10us * 10, host, instance, flags)
