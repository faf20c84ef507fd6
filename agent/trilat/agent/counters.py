"""The numbers of one process in one memory-mapped file that any other process can read.

A block of numbers (see `trilat.agent.families`) is made at its first use and found again by its
labels; whoever counts holds the block's place and adds to ``view`` without a lock: one thread adds
to a block, and a 64-bit integer is written as a whole. The pages belong to the kernel, so what was
counted survives the process, however it ends.

`trilat.agent.series` describes and reads the file. How much of it is in use is written after an
entry is whole, so a reader never sees a part of one.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import sys
import threading
from binascii import unhexlify
from typing import TYPE_CHECKING, Any
from zlib import crc32

from .families import BLOCKS, Block
from .series import (
    ENTRY,
    EXEMPLAR,
    HEADER_SIZE,
    KINDS,
    WORD,
    CountersSnapshot,
    counters_header,
    entry_size,
    exemplar_check,
    exemplar_places,
    label_bytes,
    numbers_size,
    parse_series,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["MAX_BLOCKS", "OTHER", "Counters", "clean_label"]

OTHER = "(other)"
"""The value of all labels of a kind's overflow block."""
MAX_BLOCKS: Mapping[str, int] = {
    "http": 600,
    "websocket": 100,
    "blocked": 100,
    "core": 256,
    "listener": 32,
}
"""How many blocks of a kind a process may have beside the overflow block.

All of them together, with labels of usual length, fit the default size of a file.
"""

_LABEL_CHARS = 200
_USED_AT = HEADER_SIZE // WORD - 1
_EXEMPLAR_WORDS = EXEMPLAR.size // WORD
_KIND_OF = {block.name: number for number, block in enumerate(KINDS)}

logger = logging.getLogger("trilat.counters")


class Counters:
    """The numbers of this process.

    Blocks can be made on any thread; the numbers of one block are for one thread to write. A
    process that forks makes its counters after the fork.

    Args:
        path: the file to make; None: memory that no other process sees. Where the file cannot be
            made, it is memory as well, with one warning.
        facts: what the header says of the process; JSON values.
        size: of the file in bytes.
        limits: how many blocks of each kind there may be beside the overflow block.

    Attributes:
        view: all of the file as 64-bit integers; ``view[counters.block(...) + place] += 1``. A
            `ctypes` array takes two thirds of the time that a `memoryview` would.
        shared: whether others can read it.

    Raises:
        ValueError: the facts do not fit the header, or the overflow blocks do not fit the size.
    """

    def __init__(
        self,
        path: Path | None,
        facts: Mapping[str, Any] | None = None,
        *,
        size: int = 2**20,
        limits: Mapping[str, int] = MAX_BLOCKS,
    ) -> None:
        self._facts = dict(facts or {})
        header = counters_header(self._facts)
        self._map, self.shared = _map_or_memory(path, size - size % WORD)
        self.path = path if self.shared else None
        self.view = (ctypes.c_int64 * (len(self._map) // WORD)).from_buffer(self._map)
        self._limits = limits
        self._lock = threading.Lock()
        self._places: dict[tuple[str, tuple[str, ...]], int] = {}
        self._made: dict[str, int] = dict.fromkeys(BLOCKS, 0)
        self._kind_at: dict[int, Block] = {}
        self._map[: len(header)] = header
        self.view[_USED_AT] = HEADER_SIZE
        for block in KINDS:
            if self._make(block, _others(block)) is None:
                raise ValueError(f"{size} bytes do not hold the counters of a process")

    def block(self, kind: Block, labels: tuple[str, ...]) -> int:
        """The place in `view` of the first number of a block; made at the first call.

        Label values are cut and made printable (`clean_label`). Where the file is full, or there
        are as many blocks of the kind as there may be, it is the kind's overflow block.

        Raises:
            ValueError: not as many values as the kind has labels.
        """
        known = self._places.get((kind.name, labels))
        if known is not None:
            return known
        if len(labels) != len(kind.labels):
            raise ValueError(f"{kind.name} has the labels {kind.labels}; {len(labels)} values")
        cleaned = tuple(map(clean_label, labels))
        with self._lock:
            known = self._places.get((kind.name, cleaned))
            if known is None and self._made[kind.name] <= self._limits.get(kind.name, 0):
                known = self._make(kind, cleaned)
        return self._places[kind.name, _others(kind)] if known is None else known

    def exemplify(  # noqa: PLR0913, PLR0917 - the fields of an exemplar, and its place
        self, block_at: int, place: int, bucket: int, value: int, wall_ns: int, trace: bytes
    ) -> None:
        """Let a bucket point to a request.

        Args:
            block_at: what `block` returned.
            place: of the histogram in its block.
            bucket: of the histogram.
            value: what was observed, in the slots' unit.
            wall_ns: when.
            trace: the trace id as 32 hexadecimal digits.

        Raises:
            ValueError: not a trace id.
            KeyError: not a block, or its metric at this place has no exemplars.
        """
        block = self._kind_at[block_at]
        raw = unhexlify(trace)
        if len(raw) != 16:
            raise ValueError("a trace id is 32 hexadecimal digits")
        at = block_at + block.slots + _EXEMPLAR_WORDS * exemplar_places(block)[place + bucket]
        packed = EXEMPLAR.pack(value, wall_ns, raw, exemplar_check(value, wall_ns, raw))
        self._map[at * WORD : at * WORD + EXEMPLAR.size] = packed

    def snapshot(self) -> CountersSnapshot:
        """The numbers as they are now."""
        return CountersSnapshot(
            self._facts, parse_series(self._map[: self.view[_USED_AT]], "counters")
        )

    def close(self, *, remove: bool = False) -> None:
        """The process counts no more; the memory goes when nobody holds `view`.

        Args:
            remove: delete the file too.
        """
        if remove and self.path is not None:
            self.path.unlink(missing_ok=True)

    def _make(self, block: Block, labels: tuple[str, ...]) -> int | None:
        """Write an entry, then commit it; None where it does not fit."""
        text = label_bytes(labels)
        size = entry_size(block, labels)
        at = self.view[_USED_AT]
        if at + size > len(self._map):
            return None
        rest = ENTRY.pack(0, _KIND_OF[block.name], len(text), size // WORD, 0)[4:]
        entry = crc32(rest + text).to_bytes(4, sys.byteorder) + rest + text
        self._map[at : at + len(entry)] = entry
        self.view[_USED_AT] = at + size
        place = (at + size - numbers_size(block)) // WORD
        self._places[block.name, labels] = place
        self._kind_at[place] = block
        self._made[block.name] += 1
        return place


def clean_label(text: str) -> str:
    """A label's value as it is kept: of 200 characters at most, control characters replaced."""
    text = text[:_LABEL_CHARS]
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _others(block: Block) -> tuple[str, ...]:
    return (OTHER,) * len(block.labels)


def _map_or_memory(path: Path | None, size: int) -> tuple[mmap.mmap, bool]:
    if path is not None:
        try:
            return _map_file(path, size), True
        except OSError as error:
            logger.warning("this process counts for itself: no counters on disk: %s", error)
    return mmap.mmap(-1, size), False


def _map_file(path: Path, size: int) -> mmap.mmap:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)  # a full disk is an error now, not a signal
        else:
            os.ftruncate(descriptor, size)
        return mmap.mmap(descriptor, size)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
