"""The service's marks on the wire: one entry of a standard ``Server-Timing`` header.

An answer to a marked request carries, after what a browser shows (``app;dur=20.513``), the entry ::

    trilat;desc="1.<64 characters>"

where ``1`` is the version of the format and the 64 characters are the base64 form (RFC 4648, no
padding is needed) of 48 bytes, little-endian:

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

Both directions sit in hot paths: encoding costs about half a microsecond, and the generator keeps
the 48 bytes as they are for its journal.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from struct import Struct

from .records import ServiceMarks

__all__ = ["EMPTY", "STAMP", "STAMP_FIELDS", "decode", "encode", "find"]

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

_PREFIX = 'trilat;desc="1.'
_TEXT_LENGTH = STAMP.size // 3 * 4


def encode(marks: ServiceMarks) -> bytes:
    """The ``trilat`` entry of a ``Server-Timing`` header for these marks.

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
    return b'trilat;desc="1.' + b2a_base64(packed, newline=False) + b'"'


def find(header: str, span: int) -> bytes:
    """The 48 bytes of the stamp in a ``Server-Timing`` value that belong to ``span``.

    A header may hold several stamps (a gateway's and the service's): the last one wins, as it is
    the outermost. Whatever cannot be read, or echoes another span, is no stamp.

    Args:
        header: the header's value, several lines joined by a comma.
        span: the span id that the request carried.

    Returns:
        48 bytes, or `EMPTY`.
    """
    end = len(header)
    while (start := header.rfind(_PREFIX, 0, end)) >= 0:
        begin = start + len(_PREFIX)
        text = header[begin : begin + _TEXT_LENGTH]
        try:
            packed = a2b_base64(text, strict_mode=True)
        except (Base64Error, ValueError):
            packed = b""
        if len(packed) == STAMP.size and int.from_bytes(packed[:8], "little") == span:
            return packed
        end = start
    return EMPTY


def decode(packed: bytes) -> ServiceMarks:
    """The marks in 48 packed bytes.

    Raises:
        struct.error: not 48 bytes.
    """
    span, called, app, blocked, queue_ms, tick_10us, flags, host, instance = STAMP.unpack(packed)
    return ServiceMarks(
        span, called, app, blocked, queue_ms, tick_10us * 10, host, instance, flags
    )
