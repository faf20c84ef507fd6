"""Sampled figures over time, as columns that a chart can draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilat.correlator.reading import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "POINTS_MAX",
    "Column",
    "busiest",
    "columns",
    "figure",
    "figures",
    "largest_share",
    "sampled_s",
]

POINTS_MAX = 600
"""Most points of a series in a result: ten minutes at one a second."""

_LARGEST = 1e15  # of any figure: beyond that no unit makes sense
_MB = 1e-6
_SLIVER_S = 0.2  # rates and shares over less than that mean nothing

Column = list[float | None]

_GAUGES: dict[str, tuple[str, float]] = {
    "rss_mb": ("rss_bytes", _MB),
    "loop_lag_max_ms": ("loop_lag_max_ms", 1.0),
    "loop_blocked_ms": ("loop_blocked_ms", 1.0),
    "hub_lag_ms": ("hub_lag_ms", 1.0),
    "hub_lag_max_ms": ("hub_lag_max_ms", 1.0),
    "hub_blocked_ms": ("hub_blocked_ms", 1.0),
    "cpu_wait_ms": ("cpu_wait_ms", 1.0),
    "pool_wait_ms": ("pool_wait_ms", 1.0),
    "cpu_percent": ("cpu_percent", 1.0),
    "in_flight": ("in_flight", 1.0),
    "throttled_ms": ("throttled_ms", 1.0),
    "steal_percent": ("steal_percent", 1.0),
    "gc_pause_ms": ("gc_pause_ms", 1.0),
    "users": ("users", 1.0),
    "p50_ms": ("p50_ms", 1.0),
    "p95_ms": ("p95_ms", 1.0),
}
"""Columns, the samples' keys that they come from, and factors."""

_RATES = {"rate_per_s": "requests"}
"""Columns that tell how fast a sample's key grew."""


def figure(line: Mapping[str, Any], key: str, factor: float = 1.0) -> float | None:
    """A figure of a sample; None where it is missing, no number, below 0 or beyond belief."""
    value = number(line.get(key))
    return value * factor if value is not None and 0 <= value <= _LARGEST else None


def figures(lines: Iterable[Mapping[str, Any]], key: str, factor: float = 1.0) -> list[float]:
    """The known figures of samples, in order."""
    known = (figure(line, key, factor) for line in lines)
    return [value for value in known if value is not None]


def sampled_s(lines: Sequence[Mapping[str, Any]]) -> float:
    """How long a process was sampled, in seconds: each sample tells of the time before it."""
    if not lines:
        return 0.0
    return float(lines[-1]["wall_s"] - lines[0]["wall_s"]) + 1.0


def largest_share(series: Iterable[Sequence[Mapping[str, Any]]], key: str) -> float | None:
    """The part of a process' time that its samples' milliseconds come to; of the worst process."""
    shares = (
        sum(values) / 1000 / sampled_s(lines) for lines in series if (values := figures(lines, key))
    )
    return max(shares, default=None)


def busiest(series: Iterable[list[float]]) -> tuple[float, float] | None:
    """Mean and highest value of the series whose mean is the highest."""
    return max(((sum(each) / len(each), max(each)) for each in series if each), default=None)


def columns(
    lines: Sequence[Mapping[str, Any]],
    begin_s: float,
    names: Iterable[str],
    most: int = POINTS_MAX,
) -> dict[str, Column]:
    """Samples as columns over time.

    Where there are more than ``most``, those of equal stretches of time are taken together: the
    largest of each figure stands for them, since a mean would hide what a chart is looked at for.
    Rates are means: what was counted over the time in which it was.

    Args:
        lines: samples with a ``wall_s`` each, ascending.
        begin_s: where time begins.
        names: which columns.
        most: points of a column.

    Returns:
        ``elapsed_s``, ascending, and each column for which there is a figure, all of one length.
    """
    stretches = _stretches(_whole(lines), most)
    result: dict[str, Column] = {
        "elapsed_s": [round(max(s[-1]["wall_s"] - begin_s, 0.0), 3) for s in stretches]
    }
    for name in names:
        if name in _RATES:
            column = _rates(stretches, _RATES[name])
        else:
            key, factor = _GAUGES[name]
            column = [max(figures(each, key, factor), default=None) for each in stretches]
        if any(value is not None for value in column):
            result[name] = [None if value is None else round(value, 3) for value in column]
    return result


def _whole(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Samples without those that come just after another, as the last of a process may do."""
    kept: list[Mapping[str, Any]] = []
    for line in lines:
        if not kept or line["wall_s"] - kept[-1]["wall_s"] >= _SLIVER_S:
            kept.append(line)
    return kept


def _stretches(lines: Sequence[Mapping[str, Any]], most: int) -> list[Sequence[Mapping[str, Any]]]:
    """Samples in order, together where there are more than so many; none is empty."""
    if len(lines) <= most:
        return [lines[index : index + 1] for index in range(len(lines))]
    first = lines[0]["wall_s"]
    length = (lines[-1]["wall_s"] - first) / most or 1.0
    stretches: dict[int, list[Mapping[str, Any]]] = {}
    for line in lines:
        place = min(int((line["wall_s"] - first) / length), most - 1)
        stretches.setdefault(place, []).append(line)
    return list(stretches.values())


def _rates(stretches: Sequence[Sequence[Mapping[str, Any]]], key: str) -> Column:
    """How fast a cumulated figure grew up to the end of each stretch, per second."""
    rates: Column = []
    before: tuple[float, float] | None = None
    for stretch in stretches:
        value, wall_s = figure(stretch[-1], key), float(stretch[-1]["wall_s"])
        if value is None:
            rates.append(None)
            continue
        known = before is not None and wall_s > before[0] and value >= before[1]
        rates.append((value - before[1]) / (wall_s - before[0]) if known and before else None)
        before = wall_s, value
    return rates
