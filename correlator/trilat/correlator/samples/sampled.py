"""The processes that wrote samples during a run: the service's, and the load generator's.

The samples of a run lie in its directory: the generator's own, and the service's where they have
been collected or written there. Files tell by their first line whose they are. Their times are
those of their own host's wall clock; where that differs from the generator's, so do the times
shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from trilat.agent.errors import InputError
from trilat.agent.samples import SampleFile, read_samples, sample_files
from trilat.correlator.text import clean

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Process", "Sampled", "Window", "read_sampled"]

_FILES_MAX = 1000
_MARGIN_S = 1.0  # a sample tells of the second before it
_NAMED_MAX = 3
_LONGEST = 200

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when a run lasted: seconds since the epoch."""

    begin_s: float
    end_s: float

    def holds(self, wall_s: float) -> bool:
        """Whether a moment belongs to the run, within a second."""
        return self.begin_s - _MARGIN_S <= wall_s <= self.end_s + _MARGIN_S


@dataclass(slots=True)
class Process:
    """One process and its samples during the run, in the order of their times.

    Attributes:
        side: whose it is.
        host: identity of its host.
        host_name: the host's name, fit to be shown.
        pid: its number.
        instance: tells processes apart that have had one number; None where it is not known.
        python: version, fit to be shown; empty where it is not known.
        vitals: its figures, about one set a second.
        blocks: what blocked its event loop.
    """

    side: Literal["service", "generator"]
    host: int
    host_name: str
    pid: int
    instance: int | None
    python: str
    vitals: list[Line] = field(default_factory=list)
    blocks: list[Line] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Host and number."""
        return f"{self.host_name}:{self.pid}"


@dataclass(frozen=True, slots=True)
class Sampled:
    """All that was sampled during a run.

    Attributes:
        window: when the run was.
        services: the service's processes.
        generators: the load generator's.
        remarks: sentences on what could not be read, or is of another time.
    """

    window: Window
    services: tuple[Process, ...] = ()
    generators: tuple[Process, ...] = ()
    remarks: tuple[str, ...] = ()


def read_sampled(directory: Path, window: Window) -> Sampled:
    """Read the samples in a directory; a file that cannot be read becomes a remark.

    Args:
        directory: the run's folder of samples; it may be missing.
        window: when the run was; samples of other times are left out.
    """
    processes: dict[tuple[Any, ...], Process] = {}
    unreadable: list[str] = []
    elsewhen: list[str] = []
    paths = sample_files(directory) if directory.is_dir() else []
    for path in paths[:_FILES_MAX]:
        try:
            file = read_samples(path)
        except InputError as error:
            unreadable.append(clean(error))
            continue
        if not _add(processes, file, window) and file.lines and file.facts["side"] == "service":
            elsewhen.append(path.name)
    found = sorted(processes.values(), key=lambda each: (each.host_name, each.pid))
    for process in found:
        process.vitals.sort(key=_wall_s)
    return Sampled(
        window,
        tuple(each for each in found if each.side == "service"),
        tuple(each for each in found if each.side == "generator"),
        tuple(_remarks(unreadable, elsewhen, len(paths))),
    )


def _add(processes: dict[tuple[Any, ...], Process], file: SampleFile, window: Window) -> bool:
    """Take a file's samples of the run's time; whether there is one."""
    vitals = [line for line in file.of("vitals") if window.holds(line["wall_s"])]
    blocks = [line for line in file.of("blocked") if window.holds(line["wall_s"])]
    if not vitals and not blocks:
        return False
    facts = file.facts
    instance = facts.get("instance")
    whole = instance if type(instance) is int else None
    key = (facts["side"], facts["host"], facts["pid"], whole)
    process = processes.get(key)
    if process is None:
        python = facts.get("python")
        process = processes[key] = Process(
            facts["side"],
            facts["host"],
            clean(facts["host_name"], _LONGEST),
            facts["pid"],
            whole,
            clean(python, _LONGEST) if isinstance(python, str) else "",
        )
    process.vitals += vitals
    process.blocks += blocks
    return True


def _wall_s(line: Line) -> float:
    return float(line["wall_s"])


def _remarks(unreadable: list[str], elsewhen: list[str], files: int) -> list[str]:
    remarks = []
    if unreadable:
        named = "; ".join(unreadable[:_NAMED_MAX])
        remarks.append(f"{len(unreadable)} sample files could not be read: {named}")
    if elsewhen:
        named = ", ".join(clean(name, _LONGEST) for name in elsewhen[:_NAMED_MAX])
        remarks.append(
            f"{len(elsewhen)} sample files of the service hold nothing of the run's time "
            f"({named}): they are of another run, or the clocks of the two hosts differ"
        )
    if files > _FILES_MAX:
        remarks.append(
            f"{files - _FILES_MAX} sample files were not read; {_FILES_MAX} are the most"
        )
    return remarks
