"""Samples: a process' figures over time, one JSON object a line, in a bounded pair of files.

The first line of a file says whose samples these are (`SampleWriter`), each later one is a sample::

    {"schema": "trilat.samples/1", "side": "service", "host": 2774, "host_name": "web-1", ...}
    {"kind": "vitals", "wall_s": 1790000001.2, "monotonic_s": 52.25, "cpu_percent": 31.5, ...}

A line is handed to the kernel whole, so what a killed process leaves ends in a torn line at worst;
a line that the disk takes in part is cut off again.
"""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .clock import SYSTEM_CLOCK, Clock
from .errors import InputError
from .files import open_regular, read_up_to, try_lock
from .host import host_identity, process_identity
from .native import lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_LINES",
    "MAX_LINE_BYTES",
    "SAMPLES_SCHEMA",
    "SampleFile",
    "SampleWriter",
    "read_samples",
    "sample_files",
]

SAMPLES_SCHEMA = "trilat.samples/1"
"""What the first line of a file gives as its ``schema``."""
MAX_LINE_BYTES = 64 * 2**10
"""Longer lines are neither written nor read. A host of 500 cores takes 4 KB."""
MAX_FILE_BYTES = 64 * 2**20
"""Larger files are not read."""
MAX_LINES = 200_000
"""Files of more lines are not read: two days at one line a second."""
SUFFIX = ".jsonl"
_SCHEMA = {"schema": SAMPLES_SCHEMA}
_SIDES = ("service", "generator")

logger = logging.getLogger("trilat.samples")


class SampleWriter:
    """Writes the samples of one process; never raises, whatever the disk does.

    A file that is half of ``max_bytes`` long is renamed from ``NAME.jsonl`` to ``NAME.1.jsonl``, in
    the place of the one before it, and a new one begins. So is a file of the same name that is
    there already: process numbers come again. Any thread may write.

    Attributes:
        lost: samples that no file took: the directory cannot be written, the disk is full, or the
            sample cannot be expressed. The first one is logged.

    Args:
        path: ``NAME.jsonl`` in a directory that exists; None writes nowhere and counts nothing.
        facts: what the first line says; ``side`` (``service`` or ``generator``) at least. Facts
            that every file has are filled in: ``host``, ``host_name``, ``pid``, ``instance``,
            ``python``, ``started_wall_ns``.
        max_bytes: bound of both files together.
        clock: gives the samples their times.
    """

    def __init__(
        self,
        path: Path | None,
        facts: Mapping[str, Any],
        *,
        max_bytes: int = 16 * 2**20,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.lost = 0
        self._path = path
        self._clock = clock
        self._most = max_bytes // 2
        self._lock = lock()
        self._closed = self._warned = False
        self._descriptor = -1
        self._size = 0
        self._header = b""
        if path is None:
            return
        try:
            self._header = _encode({**_own_facts(clock), **facts, **_SCHEMA})
            self._open()
        except Exception as error:  # noqa: BLE001 - fails open
            self._closed = not self._header
            self._warn(error)

    @property
    def path(self) -> Path | None:
        """The newer file, or None where nothing is written."""
        return self._path

    def write(self, kind: str, values: Mapping[str, Any]) -> None:
        """Write one sample with the time of now.

        Args:
            kind: what the values are: ``vitals``, ``blocked``.
            values: JSON values; ``wall_s`` and ``monotonic_s`` among them override the clock.
        """
        if self._path is None:
            return
        now = {
            "kind": kind,
            "wall_s": round(self._clock.wall_ns() / 1e9, 6),
            "monotonic_s": round(self._clock.monotonic_ns() / 1e9, 6),
        }
        try:
            line = _encode({**now, **values})
            with self._lock:
                self._append(line)
        except Exception as error:  # noqa: BLE001 - fails open
            self._lose(error)

    def close(self) -> None:
        """Close the file; what is written later is lost and counted."""
        with self._lock, suppress(OSError):
            self._closed = True
            self._shut()

    def _append(self, line: bytes) -> None:
        if self._closed:
            raise ValueError(f"{self._path} is closed")
        if self._descriptor >= 0 and (
            self._size + len(line) > self._most
            or os.fstat(self._descriptor).st_nlink == 0  # somebody removed the file
        ):
            self._shut()
        if self._descriptor < 0:  # also where the disk was full a second ago
            self._open()
        self._put(line)

    def _open(self) -> None:
        assert self._path is not None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        try:
            self._descriptor = os.open(self._path, flags, 0o600)
        except FileExistsError:
            self._path.replace(self._path.with_name(f"{self._path.stem}.1{SUFFIX}"))
            self._descriptor = os.open(self._path, flags, 0o600)
        self._size = 0
        with suppress(OSError):  # tells those who clear up that this process lives
            try_lock(self._descriptor)
        try:
            self._put(self._header)
        except OSError:  # a file without its first line would be worth nothing
            self._shut()
            self._path.unlink()
            raise

    def _put(self, line: bytes) -> None:
        written = 0
        try:
            written = os.write(self._descriptor, line)
        finally:
            if written != len(line):
                with suppress(OSError):
                    os.ftruncate(self._descriptor, self._size)
        if written != len(line):
            raise OSError(f"{self._path}: no space for a whole line")
        self._size += written

    def _shut(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _lose(self, error: Exception) -> None:
        self.lost += 1
        self._warn(error)

    def _warn(self, error: Exception) -> None:
        if self._warned:
            return
        self._warned = True
        with suppress(Exception):  # a logging handler may be what is broken
            logger.warning("samples are lost, and only counted from now on: %s", error)


def _own_facts(clock: Clock) -> dict[str, Any]:
    return {
        **_SCHEMA,
        "host": host_identity(),
        "host_name": socket.gethostname(),
        "pid": os.getpid(),
        "instance": process_identity(),
        "python": platform.python_version(),
        "started_wall_ns": clock.wall_ns(),
    }


def _encode(line: Mapping[str, Any]) -> bytes:
    raw = json.dumps(line, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    if len(raw) > MAX_LINE_BYTES:
        raise ValueError(f"a sample of {len(raw)} bytes; at most {MAX_LINE_BYTES}")
    return raw


@dataclass(frozen=True, slots=True)
class SampleFile:
    """One file of samples as it was when it was read.

    Attributes:
        path: the file.
        facts: its first line. ``side`` is one of two words, ``host`` and ``pid`` are integers,
            ``host_name`` is text; anything may stand in what else there is.
        lines: the samples in the order in which they were written. ``kind`` is text, ``wall_s``
            and ``monotonic_s`` are finite numbers; anything may stand in what else there is,
            except that all numbers are finite and integers fit 64 bits.
    """

    path: Path
    facts: Mapping[str, Any]
    lines: tuple[Mapping[str, Any], ...]

    def of(self, kind: str) -> Iterator[Mapping[str, Any]]:
        """The samples of one kind."""
        return (line for line in self.lines if line["kind"] == kind)


def sample_files(directory: Path) -> list[Path]:
    """The sample files of a directory; of one writer's, the older comes first."""
    return sorted(directory.glob(f"*{SUFFIX}"))


def read_samples(path: Path) -> SampleFile:
    """Read one file, also while it is being written or after its writer was killed.

    Raises:
        InputError: not a file of samples, larger than `MAX_FILE_BYTES` or `MAX_LINES`, or damaged;
            the text names the line.
    """
    try:
        raw = _read_bounded(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    end = raw.rfind(b"\n")  # what comes after the last line's end is being written, or was cut
    if raw.count(b"\n") > MAX_LINES:
        raise InputError(f"{path}: more than {MAX_LINES} lines")
    pieces = raw[:end].split(b"\n") if end >= 0 else []
    if not pieces:
        raise InputError(f"{path}: no samples: the first line is missing")
    facts = _decode(path, 1, pieces[0])
    if facts.get("schema") != SAMPLES_SCHEMA:
        raise InputError(f"{path}:1: not samples of trilat ({SAMPLES_SCHEMA})")
    if not _facts_hold(facts):
        raise InputError(f"{path}:1: side, host, pid or host_name is missing or damaged")
    lines = [_decode(path, number, piece) for number, piece in enumerate(pieces[1:], 2)]
    for number, line in enumerate(lines, 2):
        if not (
            isinstance(line.get("kind"), str)
            and _is_number(line.get("wall_s"))
            and _is_number(line.get("monotonic_s"))
        ):
            raise InputError(f"{path}:{number}: kind, wall_s or monotonic_s is missing or damaged")
    return SampleFile(path, facts, tuple(lines))


def _read_bounded(path: Path) -> bytes:
    with open_regular(path, follow=True) as file:
        raw = read_up_to(file, MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise InputError(f"{path}: more than {MAX_FILE_BYTES // 2**20} MB")
    return raw


def _decode(path: Path, number: int, raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_LINE_BYTES:
        raise InputError(f"{path}:{number}: a line of {len(raw)} bytes")
    try:
        line = json.loads(raw, parse_constant=_refuse, parse_float=_finite, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}:{number}: not a line of samples") from error
    if not isinstance(line, dict):
        raise InputError(f"{path}:{number}: not an object")
    return line


def _refuse(text: str) -> float:
    raise ValueError(text)


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _integer(text: str) -> int:
    value = int(text)
    if value.bit_length() > 63:
        raise ValueError(text)
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _facts_hold(facts: Mapping[str, Any]) -> bool:
    return (
        facts.get("side") in _SIDES
        and all(type(facts.get(name)) is int for name in ("host", "pid"))
        and isinstance(facts.get("host_name"), str)
    )
