"""What trilat says of each request: its own attribution, from the generator's journals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trilat.agent.host import host_identity
from trilat.agent.records import COMPONENTS, Component
from trilat.agent.segment import journal_files, read_segment
from trilat.correlator.attribution.attribute import Attributed
from trilat.correlator.records.frames import Names
from trilat.correlator.requests.pipeline import Attributor

from .logs import Rows
from .processes import LabError
from .table import COLUMNS, Floats, Table

__all__ = ["Measured", "measure"]

_BEFORE = (
    Component.GENERATOR_SEND,
    Component.NETWORK_CONNECT,
    Component.NETWORK_OUT,
    Component.SERVICE_QUEUE,
)
_AFTER = (Component.NETWORK_BACK, Component.GENERATOR_READ, Component.GENERATOR_FINISH)
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Measured:
    """n requests as trilat attributes them.

    Attributes:
        table: their parts.
        matched: the service's evidence is there.
        queue_low_ns: the service's queue is said to be at least this.
        queue_high_ns: and at most this.
    """

    table: Table
    matched: _Bools
    queue_low_ns: Floats
    queue_high_ns: Floats


def measure(run: Path) -> Measured:
    """Read a run's journals.

    Args:
        run: its directory.

    Raises:
        LabError: it has none.
        JournalError: one cannot be read.
    """
    spans: list[npt.NDArray[np.uint64]] = []
    found: list[Attributed] = []

    def take(rows: Rows, requests: Attributed, _: Names) -> None:
        spans.append(rows["span"].astype(np.uint64))
        found.append(requests)

    series: dict[str, list[Path]] = {}
    for path in journal_files(run / "journals"):
        series.setdefault(path.stem.rpartition("-")[0], []).append(path)
    for paths in series.values():  # a process lines clocks up for itself
        attributor = Attributor(host_identity(), take)
        for path in paths:
            attributor.feed(read_segment(path).records)
        attributor.flush()
    if not found:
        raise LabError("trilat recorded no request")
    return _joined(np.concatenate(spans), found)


def _joined(spans: npt.NDArray[np.uint64], found: list[Attributed]) -> Measured:
    parts = np.concatenate([each.components_ns for each in found]).astype(np.float64)
    columns = {each.label: parts[:, each] for each in COMPONENTS}
    columns["generator.end"] = columns["generator.read"] + columns["generator.finish"]
    columns["unattributed"] = _column([each.unattributed_ns for each in found])
    for side in ("generator", "network", "service"):
        own = [each for each in COMPONENTS if each.side == side]
        columns[side] = parts[:, own].sum(axis=1)
    columns["before"] = parts[:, _BEFORE].sum(axis=1)
    columns["after"] = parts[:, _AFTER].sum(axis=1)
    table = Table(
        spans,
        np.concatenate([each.started_wall_ns for each in found]),
        _column([each.response_ns for each in found]),
        {name: columns[name] for name in COLUMNS},
    )
    return Measured(
        table,
        np.concatenate([each.matched for each in found]),
        _column([each.queue_low_ns for each in found]),
        _column([each.queue_high_ns for each in found]),
    )


def _column(arrays: list[npt.NDArray[np.int64]]) -> Floats:
    return np.concatenate(arrays).astype(np.float64)
