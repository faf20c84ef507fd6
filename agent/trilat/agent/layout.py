"""The layout of journal records: what a file's header says of its own bytes.

A journal file holds records of one size: those of one side (`EXCHANGE` of a generator, with the
`EARLIER` ones that belong to them, or `SERVED` of a service), and the texts that they point to.
Each kind is a list of fields; the list gives the `struct` to write with, the description in the
file's header and, in the correlator, the numpy type to read with. All numbers are little-endian and
nothing is padded. ``docs/journal.md`` describes the format for other languages.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from struct import Struct

from .stamp import STAMP, STAMP_FIELDS

__all__ = [
    "EARLIER",
    "EXCHANGE",
    "LAYOUTS",
    "NAME",
    "NAME_OVERHEAD",
    "SERVED",
    "Field",
    "Kind",
    "MarkFlag",
    "RecordLayout",
    "ServedFlag",
    "describe_kinds",
    "name_layout",
]

_TAIL = "HHI"  # status, exchanges, commit


class Kind(IntEnum):
    """What a record tells of; the first two bytes of each record."""

    EXCHANGE = 1
    NAME = 2
    SERVED = 3
    EARLIER = 4


class MarkFlag(IntFlag):
    """What kind of evidence an exchange record holds."""

    FAILED = 1
    """Locust counted the request as a failure."""
    SENT = 2
    """The request's first byte was handed to the kernel; else ``sent_ns`` is where trying ended."""
    ANSWERED = 4
    """At least one byte of the answer was read."""
    CONNECTED = 8
    """The request made its own connection."""
    TLS = 16
    """The bytes were read inside OpenSSL: stamps are of the last segment seen to be waiting."""
    UNMARKED = 32
    """A custom client fired the event by itself: only the response time is known."""
    BROKEN = 64
    """More bytes were awaited after the last one read, and did not come."""
    TUNNEL = 128
    """The exchange is one with a proxy that was asked for a tunnel (``CONNECT``)."""
    FIRST = 256
    """The user had waited since its request before, as it does between tasks."""
    REORDERED = 512
    """The kernel's stamps are not of the last arrival (packets came out of order, or it was a
    connection's end): how long the answer lay is since the event loop saw it."""


class ServedFlag(IntFlag):
    """What a service saw of a request."""

    MARKED = 1
    """The request carried the marks of a run, and the token where one is asked for."""
    STREAMED = 2
    """The body came in more than one message."""
    DISCONNECTED = 4
    """The client went away before the end of the answer."""
    RAISED = 8
    """The application raised an exception."""
    UNFINISHED = 16
    """The application ended, or the process did, before it had handed over the whole answer."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name, `struct` format and unit (empty where it has none)."""

    name: str
    format: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The fields of one kind of record, in order."""

    kind: Kind
    fields: tuple[Field, ...]

    @property
    def struct(self) -> Struct:
        """Packs and unpacks one record."""
        return Struct("<" + "".join(field.format for field in self.fields))

    @property
    def size(self) -> int:
        """Bytes of one record."""
        return self.struct.size

    @property
    def packer(self) -> Struct:
        """Like `struct`, but takes a service's stamp as the 48 bytes that came over the wire."""
        formats = "".join(f.format for f in self.fields if not f.name.startswith("service_"))
        head, tail = formats[: -len(_TAIL)], formats[-len(_TAIL) :]
        stamped = len(formats) < sum(len(f.format) for f in self.fields)
        return Struct(f"<{head}{STAMP.size}s{tail}") if stamped else self.struct

    def describe(self) -> list[list[str]]:
        """Names, formats and units for the header of a file."""
        return [[field.name, field.format, field.unit] for field in self.fields]


EXCHANGE = RecordLayout(
    Kind.EXCHANGE,
    (
        Field("kind", "H"),
        Field("flags", "H"),
        Field("name_id", "I"),
        Field("trace_high", "Q"),
        Field("trace_low", "Q"),
        Field("span", "Q"),
        # When Locust started its timer, on both clocks.
        Field("started_wall_ns", "q", "ns since the epoch"),
        Field("started_ns", "q", "ns, monotonic"),
        Field("response_ns", "q", "ns"),
        # Round trips of making the connection; 0 on a reused one.
        Field("connect_ns", "q", "ns"),
        # From here to last_read_ns: offsets from the start of the timer.
        Field("sent_ns", "q", "ns after started_ns"),
        Field("first_read_ns", "q", "ns after started_ns"),
        Field("first_lay_ns", "q", "ns in the kernel before it was read, -1 unknown"),
        Field("last_read_ns", "q", "ns after started_ns"),
        Field("last_lay_ns", "q", "ns in the kernel before it was read, -1 unknown"),
        Field("read_wall_ns", "q", "ns since the epoch, at last_read_ns"),
        # Redirects and silent retries: time outside the generator before this exchange.
        Field("prior_ns", "q", "ns"),
        Field("hub_lag_ns", "q", "ns, -1 unknown"),
        Field("lateness_ns", "q", "ns after the intended start, -1 unknown"),
        # What the user's schedule wanted after that intended start and before this start.
        Field("missed", "q", "tasks that were never started"),
        *(Field(f"service_{name}", format_) for name, format_ in STAMP_FIELDS),
        Field("status", "H"),
        Field("exchanges", "H"),
        Field("commit", "I"),
    ),
)
"""What the generator's side tells of one request; all zero ``service_`` fields: no evidence.

Where the request took several exchanges, this is the last one, which counts.
"""

EARLIER = RecordLayout(Kind.EARLIER, EXCHANGE.fields)
"""An exchange before the one that counts: a redirect, or a try on a connection that was dead.

They follow the record of their request, in order, with its ``name_id``, ``started_wall_ns`` and
``started_ns``. ``response_ns`` is where the exchange ended, ``exchanges`` which one it was.
"""

SERVED = RecordLayout(
    Kind.SERVED,
    (
        Field("kind", "H"),
        Field("flags", "H"),
        Field("name_id", "I"),
        Field("trace_high", "Q"),
        Field("trace_low", "Q"),
        Field("span", "Q"),
        # The 12 hexadecimal digits of a run's id as a number; 0 where the request named none.
        Field("run", "Q"),
        # When the application was called, on both clocks.
        Field("called_wall_ns", "q", "ns since the epoch"),
        Field("called_ns", "q", "ns, monotonic"),
        # To the start of the answer, and to its last body message handed over.
        Field("app_ns", "q", "ns after called_ns, -1 never"),
        Field("end_ns", "q", "ns after called_ns, -1 never"),
        Field("blocked_ns", "q", "ns of app_ns in which the loop was blocked, -1 unknown"),
        Field("thread_wait_ns", "q", "ns of waiting for a thread of the pool"),
        Field("body_wait_ns", "q", "ns of waiting for the request's body, -1 unknown"),
        Field("gap_ns", "q", "ns, the longest between two messages of a streamed answer"),
        Field("body_bytes", "Q", "bytes"),
        Field("queue_ms", "i", "ms in the kernel before the call, -1 unknown"),
        Field("messages", "I"),
        Field("status", "H"),
        Field("pad", "H"),
        Field("commit", "I"),
    ),
)
"""What a service tells of one request; all zero trace and span: the request named none."""

NAME_OVERHEAD = 12
"""Bytes of a name record that are not text."""


def name_layout(size: int) -> RecordLayout:
    """The record that gives a name_id its text, in a file whose records have ``size`` bytes.

    Longer texts go on in the records that follow (part 1, 2, …).
    """
    return RecordLayout(
        Kind.NAME,
        (
            Field("kind", "H"),
            Field("part", "H"),
            Field("name_id", "I"),
            Field("text", f"{size - NAME_OVERHEAD}s", "UTF-8: method, tab, name"),
            Field("commit", "I"),
        ),
    )


NAME = name_layout(EXCHANGE.size)
"""Texts in files of `EXCHANGE` records."""

LAYOUTS = (EXCHANGE, SERVED)
"""What a journal file can be full of; each file has one of them, and texts."""


def describe_kinds(layout: RecordLayout) -> dict[str, list[list[str]]]:
    """The kinds of record in a file of this layout, as its header describes them."""
    kinds = [layout, name_layout(layout.size)]
    if layout is EXCHANGE:
        kinds.append(EARLIER)
    return {str(int(kind.kind)): kind.describe() for kind in kinds}
