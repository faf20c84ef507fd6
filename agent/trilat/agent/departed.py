"""What workers of a service left behind when they ended: one file, however many they were.

A new file replaces the old one as a whole, and names the workers' files that it holds since the
last time. So a process killed between that and the removal of those files loses nothing and counts
nothing twice: who comes next finds them named and only removes them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .counters import MAX_BLOCKS, OTHER, Counters
from .errors import InputError
from .series import HEADER_SIZE, KINDS, Series, entry_size, read_counters
from .sums import add_up, what_stays

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["DEPARTED", "fold", "folded_names"]

DEPARTED = "departed.counters"
_NEW = "departed.new"
_BATCH = 64  # the names must fit the header
_LIMITS = {kind: 8 * limit for kind, limit in MAX_BLOCKS.items()}
"""More than one worker may have: a service's workers do not all see the same labels."""
_INT64_MAX = 2**63 - 1

logger = logging.getLogger("trilat.counters")


def fold(directory: Path, dead: Sequence[Path]) -> None:
    """Add the files of workers that have ended to the departed ones', and remove them.

    The caller holds the lock of the directory.

    Raises:
        OSError: the new file cannot be written; nothing is lost.
    """
    for start in range(0, len(dead), _BATCH):
        _fold_batch(directory, dead[start : start + _BATCH])


def folded_names(facts: object) -> set[str]:
    """Names of the files that a file of departed workers says it holds."""
    names = facts.get("folded") if isinstance(facts, dict) else None
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def _fold_batch(directory: Path, dead: Sequence[Path]) -> None:
    series, folded = _departed(directory / DEPARTED)
    added = []
    for path in dead:
        if path.name in folded:
            continue
        try:
            series += what_stays(read_counters(path).series)
            added.append(path.name)
        except InputError as error:
            # Killed before its header was written, mostly: there is nothing in it.
            logger.info("counters of an ended worker cannot be read: %s", error)
    if added:
        still_there = [name for name in folded if (directory / name).exists()]
        _write(directory, add_up(series), [*still_there, *added])
    for path in dead:
        path.unlink(missing_ok=True)


def _departed(path: Path) -> tuple[list[Series], set[str]]:
    if not path.exists():
        return [], set()
    try:
        known = read_counters(path)
    except InputError as error:
        logger.warning("counts of ended workers are lost: %s", error)
        return [], set()
    return known.series, folded_names(known.facts)


def _write(directory: Path, series: list[Series], folded: list[str]) -> None:
    new = directory / _NEW
    new.unlink(missing_ok=True)  # of one that was killed here
    sizes = (entry_size(one.block, one.labels) for one in series)
    reserved = (entry_size(block, (OTHER,) * len(block.labels)) for block in KINDS)
    size = HEADER_SIZE + sum(sizes) + sum(reserved)
    counters = Counters(new, {"folded": folded}, size=size, limits=_LIMITS)
    if not counters.shared:
        raise OSError(f"{new} cannot be written")
    placed: dict[int, list[Series]] = {}
    for one in series:
        at = counters.block(one.block, one.labels)
        placed.setdefault(at, []).append(one._replace(labels=()))
    for at, together in placed.items():
        _put(counters, at, *add_up(together))
    new.replace(directory / DEPARTED)


def _put(counters: Counters, at: int, one: Series) -> None:
    for place, number in enumerate(one.numbers):
        counters.view[at + place] = min(max(number, -_INT64_MAX), _INT64_MAX)
    for place, (value, wall_ns, trace) in one.exemplars.items():
        counters.exemplify(at, place, 0, value, wall_ns, trace.encode())
