"""What the operating system tells of this process."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

from .procfs import read_file, whole

if sys.platform != "win32":
    import resource

__all__ = ["KernelProcess", "PortableProcess", "ProcessState"]

_MAX_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The process at one moment; None where the system does not tell.

    Attributes:
        user_s: CPU time of all its threads in its own code, since its start.
        system_s: the same in the kernel.
        rss_bytes: resident memory.
        rss_peak_bytes: the largest it was.
        threads: of the operating system.
        fds: open file descriptors (handles on Windows).
        fds_limit: how many it may open; None also where there is no limit.
        switches_voluntary: times that a thread gave its core up, since the start.
        switches_involuntary: times that its core was taken.
    """

    user_s: float | None = None
    system_s: float | None = None
    rss_bytes: int | None = None
    rss_peak_bytes: int | None = None
    threads: int | None = None
    fds: int | None = None
    fds_limit: int | None = None
    switches_voluntary: int | None = None
    switches_involuntary: int | None = None


class KernelProcess:
    """Reads Linux' ``/proc/self`` (proc_pid_status(5)) and ``getrusage(2)``.

    CPU times and context switches are getrusage's, which are of all threads; those of
    ``/proc/self/status`` are the main thread's. The peak is the file's: getrusage's begins with
    that of the program which started this one.

    Args:
        proc: where the kernel tells of processes.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._status = f"{proc}/self/status"
        self._rollup = f"{proc}/self/smaps_rollup"
        self._fds = f"{proc}/self/fd"
        self._size_counts = self._size_is_count()

    def read(self) -> ProcessState:
        """The process as it is.

        Raises:
            OSError: there is no ``/proc/self/status``.
            ValueError: it is damaged.
        """
        if sys.platform == "win32":
            raise OSError("not Linux")
        told = _fields(read_file(self._status))
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        threads = told.get(b"Threads")
        return ProcessState(
            user_s=used.ru_utime,
            system_s=used.ru_stime,
            rss_bytes=_size(told.get(b"VmRSS")),
            rss_peak_bytes=_size(told.get(b"VmHWM")),
            threads=None if threads is None else whole(threads),
            fds=self._count_fds(),
            fds_limit=None if limit == resource.RLIM_INFINITY else limit,
            switches_voluntary=used.ru_nvcsw,
            switches_involuntary=used.ru_nivcsw,
        )

    def unique_bytes(self) -> int | None:
        """Memory that no other process shares; the kernel walks all of it to tell.

        Raises:
            OSError: this kernel does not tell (before 4.14, or it is forbidden).
            ValueError: what it tells is damaged.
        """
        told = _fields(read_file(self._rollup))
        parts = [_size(told.get(name)) for name in (b"Private_Clean", b"Private_Dirty")]
        return None if None in parts else sum(part or 0 for part in parts)

    def _count_fds(self) -> int | None:
        try:
            return os.stat(self._fds).st_size if self._size_counts else self._list_fds()  # noqa: PTH116
        except OSError:
            return None

    def _size_is_count(self) -> bool:
        """Whether the folder's size is the number of its files, as it is from Linux 6.2 on."""
        try:
            listed = self._list_fds()
            return listed == os.stat(self._fds).st_size  # noqa: PTH116
        except OSError:
            return False

    def _list_fds(self) -> int:
        with os.scandir(self._fds) as entries:
            return sum(1 for _ in islice(entries, _MAX_COUNTED)) - 1  # one is for listing them


class PortableProcess:
    """Reads what psutil gives on any system."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    def read(self) -> ProcessState:
        """The process as it is.

        Raises:
            psutil.Error: the system refuses to tell.
        """
        with self._process.oneshot():
            times = self._process.cpu_times()
            switches = self._process.num_ctx_switches()
            memory = self._process.memory_info()
            windows: Any = self._process  # has handles
            return ProcessState(
                user_s=times.user,
                system_s=times.system,
                rss_bytes=memory.rss,
                rss_peak_bytes=getattr(memory, "peak_wset", None),  # Windows
                threads=self._process.num_threads(),
                fds=(windows.num_handles if sys.platform == "win32" else self._process.num_fds)(),
                switches_voluntary=switches.voluntary,
                switches_involuntary=switches.involuntary,
            )


def _fields(raw: bytes) -> dict[bytes, bytes]:
    found = {}
    for line in raw.split(b"\n"):
        name, _, value = line.partition(b":")
        found[name] = value.strip()
    return found


def _size(value: bytes | None) -> int | None:
    """Bytes of a size that the kernel gives in its "kB", which are 1,024 bytes."""
    return None if value is None else whole(value.removesuffix(b" kB").strip()) * 1024
