"""A limit on the processor time of a process: a control group of its own, version 1 or 2."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .processes import LabError

__all__ = ["can_limit", "limited"]

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "trilat-lab"
_PERIOD_US = 100_000  # the kernel's default, and Kubernetes'
_TRIES = 50


@contextmanager
def limited(processors: float, whose: str) -> Iterator[Path | None]:
    """A control group that may use so much of a processor; gone with the block.

    Args:
        processors: 0.5 is half of one; 0 makes no group.
        whose: tells the groups of one lab apart.

    Yields:
        The file that takes the numbers of processes, or None.

    Raises:
        LabError: none can be made here.
    """
    if not processors:
        yield None
        return
    quota = round(processors * _PERIOD_US)
    if (_ROOT / "cpu/cpu.shares").exists():
        parent = _ROOT / "cpu"
        texts = {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": str(quota)}
    else:
        parent, texts = _ROOT, {"cpu.max": f"{quota} {_PERIOD_US}"}
    _remove_stale(parent)
    group = parent / f"{_PREFIX}-{os.getpid()}-{whose}"
    try:
        group.mkdir()
        for file, text in texts.items():
            (group / file).write_text(text)
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        raise LabError(f"no control group with a processor limit here: {error}") from error
    try:
        yield group / "cgroup.procs"
    finally:
        _remove(group)


def can_limit() -> bool:
    """Whether `limited` works here."""
    try:
        with limited(1.0, "try"):
            return True
    except LabError:
        return False


def _remove(group: Path) -> None:
    """Remove a group; its processes have been ended, and the kernel may take a moment."""
    for _ in range(_TRIES):
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)
    raise LabError(f"{group}: could not be removed")


def _remove_stale(parent: Path) -> None:
    """Remove what a lab that was killed has left."""
    for group in parent.glob(f"{_PREFIX}-*"):
        if not Path("/proc", group.name.split("-")[2]).exists():
            with suppress(OSError):
                group.rmdir()
