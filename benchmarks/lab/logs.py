"""The lab's own records of requests, kept by its service and its locustfile beside trilat's.

Rows of a fixed width in a file of each process: a few hundred nanoseconds a request, and numpy
reads them whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["CALLS", "REQUESTS", "LogWriter", "Rows", "read_log"]

Rows: TypeAlias = npt.NDArray[np.void]

CALLS: Sequence[tuple[str, str]] = (
    ("number", "<u8"),
    ("span", "<u8"),
    ("port", "<u8"),
    ("called_wall_ns", "<i8"),
    ("app_ns", "<i8"),
    ("end_ns", "<i8"),
    ("status", "<i8"),
)
"""What the service keeps of a call: the request's number and span id, the client's port, when the
application was called, and how long after that its answer began and its last message was handed
over (-1: never)."""

REQUESTS: Sequence[tuple[str, str]] = (
    ("number", "<u8"),
    ("started_wall_ns", "<i8"),
    ("response_ns", "<i8"),
    ("told_wall_ns", "<i8"),
    ("failed", "<i8"),
)
"""What Locust's ``request`` event said of a request, and when."""


class LogWriter:
    """Appends rows to this process' file.

    Args:
        folder: for the files of all processes.
        stem: of their names.
        fields: of a row.
    """

    def __init__(self, folder: Path, stem: str, fields: Sequence[tuple[str, str]]) -> None:
        self._folder, self._stem = folder, stem
        formats = {"<u8": "Q", "<i8": "q"}
        self._pack = Struct("<" + "".join(formats[each] for _, each in fields)).pack
        self._pid = 0
        self._file: Any = None

    def append(self, *values: int) -> None:
        """One row; a process that was forked begins a file of its own."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            path = self._folder / f"{self._stem}-{self._pid}.rows"
            self._file = path.open("ab", buffering=1 << 16)
        self._file.write(self._pack(*values))

    def flush(self) -> None:
        """Hand all rows to the kernel."""
        if self._file is not None and self._pid == os.getpid():
            self._file.flush()


def read_log(folder: Path, stem: str, fields: Sequence[tuple[str, str]]) -> Rows:
    """The rows of all processes."""
    dtype = np.dtype(list(fields))
    found = [path.read_bytes() for path in sorted(folder.glob(f"{stem}-*.rows"))]
    whole = [np.frombuffer(raw, dtype, len(raw) // dtype.itemsize) for raw in found]
    return np.concatenate(whole) if whole else np.zeros(0, dtype)
