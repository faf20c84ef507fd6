"""A counters file as it lies on disk, and the reader of one.

A file is a header (magic, one line of JSON, and in its last 8 bytes how many bytes of the file are
in use) and then one entry a block of `trilat.agent.families`: `ENTRY`, the labels' values with a
zero byte between them, the numbers, the exemplars; each padded to 8 bytes. Numbers have the byte
order of the machine: a file is for processes of the same host.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from .errors import InputError
from .families import BLOCKS, Block, Histogram, Metric
from .files import open_regular

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = [
    "ENTRY",
    "EXEMPLAR",
    "HEADER_SIZE",
    "KINDS",
    "WORD",
    "CountersSnapshot",
    "Exemplar",
    "Series",
    "counters_header",
    "entry_size",
    "exemplar_check",
    "exemplar_places",
    "label_bytes",
    "numbers_size",
    "padded",
    "parse_series",
    "read_counters",
    "read_open",
]

MAGIC = b"TRILAT-COUNTERS 1\n"
HEADER_SIZE = 16_384
WORD = 8
ENTRY = Struct("=IHHII")
"""Checksum of the rest and the labels, kind, bytes of labels, words of the entry, 0."""
EXEMPLAR = Struct("=qq16sq")
"""Value, wall clock, trace id, and a check that they belong together: a reader does not wait."""
KINDS = tuple(BLOCKS.values())
"""The blocks; an entry's kind is a place in this list, and in the list in the header."""
_FILE_MAX = 64 * 2**20


def _described(metric: Metric) -> list[Any]:
    bounds = [metric.bounds] if isinstance(metric, Histogram) else []
    return [type(metric).__name__, metric.name, metric.slots, *map(list, bounds)]


_LAYOUT = [
    {
        "name": block.name,
        "labels": list(block.labels),
        "metrics": [_described(metric) for metric in block.metrics],
    }
    for block in KINDS
]


def _places_of_exemplars(block: Block) -> dict[int, int]:
    places = [
        block.places[metric.name] + bucket
        for metric in block.metrics
        if isinstance(metric, Histogram) and metric.exemplars
        for bucket in range(metric.sum_at)
    ]
    return {place: number for number, place in enumerate(places)}


_EXEMPLAR_PLACES = {block.name: _places_of_exemplars(block) for block in KINDS}


class Exemplar(NamedTuple):
    """A request that fell into a bucket: its value, when, and its trace id in hex."""

    value: int
    wall_ns: int
    trace: str


class Series(NamedTuple):
    """The numbers of one block.

    Attributes:
        block: what they are.
        labels: values of the block's labels.
        numbers: ``block.slots`` numbers.
        exemplars: by place in ``numbers``.
    """

    block: Block
    labels: tuple[str, ...]
    numbers: list[int]
    exemplars: dict[int, Exemplar]


@dataclass(frozen=True, slots=True)
class CountersSnapshot:
    """One process' numbers at the moment they were read.

    Attributes:
        facts: what the header says of the process.
        series: the blocks in the order in which they were made.
    """

    facts: Mapping[str, Any]
    series: list[Series]


def counters_header(facts: Mapping[str, Any]) -> bytes:
    """The start of a file's header: what it says of the process and of its blocks.

    Raises:
        ValueError: the facts do not fit.
    """
    described = {"byteorder": sys.byteorder, "facts": facts, "blocks": _LAYOUT}
    text = MAGIC + json.dumps(described).encode() + b"\n"
    if len(text) > HEADER_SIZE - WORD:
        raise ValueError(f"counters header of {len(text)} bytes; at most {HEADER_SIZE - WORD}")
    return text


def read_counters(path: Path) -> CountersSnapshot:
    """Read a file, also while it is written, after its writer was killed, or cut short.

    Raises:
        InputError: not a counters file of this version and layout, or a damaged one.
    """
    try:
        with open_regular(path) as file:
            return read_open(file.fileno(), str(path))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def read_open(descriptor: int, name: str) -> CountersSnapshot:
    """Read the file behind a descriptor; ``name`` is for messages.

    Raises:
        InputError: see `read_counters`.
        OSError: it cannot be read.
    """
    header = os.pread(descriptor, HEADER_SIZE, 0)
    if not header.startswith(MAGIC):
        raise InputError(f"{name}: not a trilat counters file (version 1)")
    try:
        described = json.loads(header[len(MAGIC) : -WORD].split(b"\n", 1)[0])
        facts = dict(described["facts"])
        known = described["byteorder"] == sys.byteorder and described["blocks"] == _LAYOUT
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{name}: damaged header") from error
    if not known:
        raise InputError(f"{name}: counters of a layout that this release does not know")
    used = int.from_bytes(header[-WORD:], sys.byteorder)
    if len(header) < HEADER_SIZE or not HEADER_SIZE <= used <= _FILE_MAX:
        raise InputError(f"{name}: damaged header")
    raw = header
    while len(raw) < used and (more := os.pread(descriptor, used - len(raw), len(raw))):
        raw += more
    return CountersSnapshot(facts, parse_series(raw, name))


def parse_series(raw: bytes, name: str) -> list[Series]:
    """The entries of a file's bytes, up to the first that was cut off."""
    series = []
    at = HEADER_SIZE
    while at + ENTRY.size <= len(raw):
        checksum, kind, text_bytes, words, _ = ENTRY.unpack_from(raw, at)
        labels_at = at + ENTRY.size
        numbers_at = labels_at + padded(text_bytes)
        if kind >= len(KINDS) or words * WORD != numbers_at - at + numbers_size(KINDS[kind]):
            raise InputError(f"{name}: damaged at byte {at}")
        if at + words * WORD > len(raw):
            break
        if crc32(raw[at + 4 : labels_at + text_bytes]) != checksum:
            raise InputError(f"{name}: damaged at byte {at}")
        text = raw[labels_at : labels_at + text_bytes].decode(errors="replace")
        block = KINDS[kind]
        labels = tuple(text.split("\0")) if block.labels else ()
        if len(labels) != len(block.labels):
            raise InputError(f"{name}: damaged at byte {at}")
        numbers = memoryview(raw)[numbers_at : at + words * WORD].cast("q").tolist()
        written = any(numbers[block.slots :])
        found = _exemplars(block, raw, numbers_at + block.slots * WORD) if written else {}
        series.append(Series(block, labels, numbers[: block.slots], found))
        at += words * WORD
    return series


def _exemplars(block: Block, raw: bytes, start: int) -> dict[int, Exemplar]:
    found = {}
    for place, number in exemplar_places(block).items():
        value, wall_ns, trace, check = EXEMPLAR.unpack_from(raw, start + number * EXEMPLAR.size)
        if wall_ns and check == exemplar_check(value, wall_ns, trace):
            found[place] = Exemplar(value, wall_ns, trace.hex())
    return found


def exemplar_places(block: Block) -> Mapping[int, int]:
    """Which exemplar of a block belongs to the number at a place in it."""
    return _EXEMPLAR_PLACES[block.name]


def entry_size(block: Block, labels: tuple[str, ...]) -> int:
    """Bytes of the entry of a block with these labels."""
    return ENTRY.size + padded(len(label_bytes(labels))) + numbers_size(block)


def label_bytes(labels: tuple[str, ...]) -> bytes:
    """The labels' values as they stand in an entry."""
    return "\0".join(labels).encode(errors="replace")


def padded(size: int) -> int:
    """Bytes up to the next whole number."""
    return -(-size // WORD) * WORD


def numbers_size(block: Block) -> int:
    """Bytes of a block's numbers and exemplars."""
    return block.slots * WORD + len(exemplar_places(block)) * EXEMPLAR.size


def exemplar_check(value: int, wall_ns: int, trace: bytes) -> int:
    """The number that stands with an exemplar that is whole."""
    return value ^ wall_ns ^ crc32(trace)
