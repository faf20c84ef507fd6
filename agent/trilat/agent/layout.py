"""The layout of journal records: what a file's header says of its own bytes.

A journal holds records of one size and several kinds. Each kind is a list of fields; the list
gives the `struct` to write with, the description in the file's header and, in the correlator, the
numpy type to read with. All numbers are little-endian and nothing is padded.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from struct import Struct

from .stamp import STAMP, STAMP_FIELDS

__all__ = ["EXCHANGE", "NAME", "Field", "Kind", "MarkFlag", "RecordLayout"]


_TAIL = "HHI"  # status, exchanges, commit


class Kind(IntEnum):
    """What a record tells of; the first two bytes of each record."""

    EXCHANGE = 1
    NAME = 2


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
        # Redirects and silent retries: time outside the generator before the exchange that counts.
        Field("prior_ns", "q", "ns"),
        Field("hub_lag_ns", "q", "ns, -1 unknown"),
        Field("lateness_ns", "q", "ns after the intended start, -1 unknown"),
        *(Field(f"service_{name}", format_) for name, format_ in STAMP_FIELDS),
        Field("status", "H"),
        Field("exchanges", "H"),
        Field("commit", "I"),
    ),
)
"""What the generator's side tells of one request; all zero ``service_`` fields: no evidence."""

NAME = RecordLayout(
    Kind.NAME,
    (
        Field("kind", "H"),
        Field("part", "H"),
        Field("name_id", "I"),
        Field("text", f"{EXCHANGE.size - 12}s", "UTF-8: method, tab, name"),
        Field("commit", "I"),
    ),
)
"""Text for a name_id; longer texts go on in the records that follow (part 1, 2, …)."""
