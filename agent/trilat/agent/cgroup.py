"""What the control group does to this process: CPU throttling and the memory limit (Linux).

Both versions are read, also where version 2 is mounted beside version 1. Limits hold at every
level, so all levels between the process' own group and the highest one that can be seen are asked.
https://docs.kernel.org/admin-guide/cgroup-v2.html,
https://docs.kernel.org/scheduler/sched-bwc.html (version 1's ``cpu.stat``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .procfs import read_file, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["ControlGroup"]

_MAX_LEVELS = 32
_NO_LIMIT = 2**62  # version 1 says "no limit" with the largest number of pages


@dataclass(frozen=True, slots=True)
class _Stat:
    """One level's ``cpu.stat``."""

    path: Path
    key: bytes
    unit_ns: int

    def throttled_ns(self) -> int | None:
        for line in read_file(self.path).split(b"\n"):
            name, _, value = line.partition(b" ")
            if name == self.key:
                return whole(value.strip()) * self.unit_ns
        return None


class ControlGroup:
    """The control groups that this process was in when this was made.

    Args:
        proc: where the kernel tells of processes.
        cgroup: where the control groups are mounted.
    """

    def __init__(self, proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> None:
        self._stats: list[_Stat] = []
        self._limits: list[Path] = []
        try:
            memberships = read_file(proc / "self/cgroup").split(b"\n")
        except OSError:  # not Linux
            memberships = []
        for line in memberships:
            _, _, rest = line.partition(b":")
            controllers, colon, path = rest.partition(b":")
            if colon:
                self._add(cgroup, controllers.decode(errors="replace"), path)
        self._seen: dict[_Stat, int] = {}
        self._throttled_ns: int | None = None

    def throttled_ns(self) -> int | None:
        """How long CPU limits held the group back, in nanoseconds; None where that is not known.

        Where several levels are held back the times may overlap, so each reading adds what the
        level that was held back most has gained: a lower bound. It starts at the highest total.
        """
        gains = []
        for stat in self._stats:
            try:
                now = stat.throttled_ns()
            except (OSError, ValueError):  # the group went away, or its file is damaged
                continue
            if now is None:
                continue
            first = self._throttled_ns is None
            gains.append(now - self._seen.get(stat, 0 if first else now))
            self._seen[stat] = now
        if gains:
            self._throttled_ns = (self._throttled_ns or 0) + max(0, *gains)
        return self._throttled_ns

    def memory_limit_bytes(self) -> int | None:
        """The tightest limit; 0 where none is set, None where that is not known."""
        found = set()
        for path in self._limits:
            try:
                text = read_file(path).strip()
                limit = _NO_LIMIT if text == b"max" else whole(text)
            except (OSError, ValueError):
                continue
            found.add(limit)
        if not found:
            return None
        return 0 if (tightest := min(found)) >= _NO_LIMIT else tightest

    def _add(self, cgroup: Path, controllers: str, path: bytes) -> None:
        if not controllers:
            for mount in (cgroup, cgroup / "unified"):
                for level in _levels(mount, path):
                    self._add_stat(level, b"throttled_usec", 1000)
                    self._add_limit(level / "memory.max")
            return
        names = controllers.split(",")
        if "cpu" in names:
            for level in _first_mounted((cgroup / controllers, cgroup / "cpu"), path):
                self._add_stat(level, b"throttled_time", 1)
        if "memory" in names:
            for level in _first_mounted((cgroup / controllers, cgroup / "memory"), path):
                self._add_limit(level / "memory.limit_in_bytes")

    def _add_stat(self, level: Path, key: bytes, unit_ns: int) -> None:
        stat = _Stat(level / "cpu.stat", key, unit_ns)
        try:
            if stat.throttled_ns() is not None:
                self._stats.append(stat)
        except (OSError, ValueError):
            return

    def _add_limit(self, path: Path) -> None:
        if path.is_file():
            self._limits.append(path)


def _first_mounted(mounts: Iterable[Path], path: bytes) -> Iterator[Path]:
    for mount in mounts:
        if mount.is_dir():
            yield from _levels(mount, path)
            return


def _levels(mount: Path, path: bytes) -> Iterator[Path]:
    """The directories of a group and of those above it, as far as they can be seen.

    In a container the kernel may give the path that the host sees, of which nothing exists here:
    then what is mounted is the process' own group. A path that climbs is out of sight likewise.
    """
    parts = path.decode(errors="surrogateescape").strip("/").split("/")
    if b"\0" in path or ".." in parts:
        parts = []
    for depth in range(len(parts), max(len(parts) - _MAX_LEVELS, 0), -1):
        level = mount.joinpath(*parts[:depth])
        if level != mount and level.is_dir():
            yield level
    yield mount
