"""What a report shows of what both sides sampled: what blocked them, and curves over time.

Like `trilat.correlator.report.figures`, pure functions of a result that anybody may have written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trilat.agent.blocks import COLLECTING, IN_TURN, STARVED, UNSEEN
from trilat.agent.records import Side
from trilat.agent.stacks import NO_CALLBACK
from trilat.correlator.reading import items, mapping, number, text, texts, whole
from trilat.correlator.text import count, milliseconds, percent

__all__ = [
    "BlockedRow",
    "Curve",
    "TimeChart",
    "blocked",
    "blocked_in_app",
    "blocks_notes",
    "over_time",
]

_STACK_MAX = 30
_PLACES_MAX = 20
_PROCESSES_MAX = 8
_POINTS_ALL = 300
_POINTS_MIN = 40
_NO_LINES = {
    NO_CALLBACK.file: (
        "no line blocked the loop. It was ready and did not get to run, for want of a processor, or"
        " because another thread of the process held the interpreter."
    ),
    UNSEEN.file: (
        "the line is not known, as nobody could take the stack in time. Mostly that is code in C"
        " that holds the interpreter."
    ),
    IN_TURN.file: (
        "no single line blocked the loop. Many users were ready at once, and the last one waited"
        " for all others."
    ),
    COLLECTING.file: "Python looked for memory to free, in whatever line set that off.",
    STARVED.file: "the loop was ready to run, and other programs had the processors.",
}
"""What the places that are no lines of code stand for."""


@dataclass(frozen=True, slots=True)
class BlockedRow:
    """A line of code that blocked an event loop; times in milliseconds.

    Attributes:
        place: ``file:line``, or what stands for it.
        function: the function it is in; empty where that is not known.
        called: what it had called; empty where that is not known.
        times: how often.
        total_ms: how long in sum.
        max_ms: the longest.
        share: of all long blocks' time.
        stack: of the longest, the innermost frame last.
    """

    place: str
    function: str
    called: str
    times: int
    total_ms: float | None
    max_ms: float | None
    share: float | None
    stack: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """One process' figure over time.

    Attributes:
        label: what and whose it is.
        side: whose it is.
        elapsed_s: seconds since the start of the run, ascending, shape (n,).
        values: shape (n,); None where nothing is known.
        shade: the name of its colour, one of its side's components.
        dash: the number of its dash; 0 is a whole line.
    """

    label: str
    side: Side
    elapsed_s: tuple[float, ...]
    values: tuple[float | None, ...]
    shade: str = ""
    dash: int = 0


@dataclass(frozen=True, slots=True)
class TimeChart:
    """Curves that share their axes."""

    title: str
    unit: str
    curves: tuple[Curve, ...]


_SHADES = {
    Side.SERVICE: ("service-app", "service-queue", "service-body"),
    Side.GENERATOR: ("generator-send", "generator-finish", "generator-read"),
}

_CHARTS: tuple[tuple[str, str, tuple[tuple[Side, str, str], ...], bool], ...] = (
    ("Requests per second", "/s", ((Side.GENERATOR, "rate_per_s", "generator"),), False),
    (
        "Response time",
        "ms",
        ((Side.GENERATOR, "p50_ms", "p50"), (Side.GENERATOR, "p95_ms", "p95")),
        False,
    ),
    (
        "Longest lag of the event loop",
        "ms",
        (
            (Side.SERVICE, "loop_lag_max_ms", "service"),
            (Side.GENERATOR, "hub_lag_max_ms", "generator"),
        ),
        False,
    ),
    ("Memory of the service", "MB", ((Side.SERVICE, "rss_mb", "service"),), False),
    (
        "Processor time",
        "% of one",
        ((Side.SERVICE, "cpu_percent", "service"), (Side.GENERATOR, "cpu_percent", "generator")),
        False,
    ),
    ("Requests in the service", "", ((Side.SERVICE, "in_flight", "service"),), False),
    (
        "Held back by a CPU limit",
        "ms in a second",
        (
            (Side.SERVICE, "throttled_ms", "service"),
            (Side.GENERATOR, "throttled_ms", "generator"),
        ),
        True,
    ),
    (
        "Garbage collections",
        "ms in a second",
        ((Side.SERVICE, "gc_pause_ms", "service"), (Side.GENERATOR, "gc_pause_ms", "generator")),
        True,
    ),
    (
        "Waits for a connection",
        "ms in a second",
        ((Side.GENERATOR, "pool_wait_ms", "generator"),),
        True,
    ),
)
"""Title, unit, curves (side, column, label), and whether all zeros are not worth a chart."""


def blocked(result: Mapping[str, Any], side: Side = Side.SERVICE) -> list[BlockedRow]:
    """What blocked a side's event loop, the longest in sum first."""
    told = mapping(result, side.value)
    whole_ms = number(mapping(told, "blocks").get("total_ms"))
    rows = []
    for item in items(told, "blocked")[:_PLACES_MAX]:
        if not isinstance(item, Mapping):
            continue
        line, total_ms = whole(item.get("line")), number(item.get("total_ms"))
        file = text(item, "file")
        rows.append(
            BlockedRow(
                place=f"{file}:{line}" if line else file,
                function=text(item, "function"),
                called=text(item, "called"),
                times=whole(item.get("count")),
                total_ms=total_ms,
                max_ms=number(item.get("max_ms")),
                share=total_ms / whole_ms if total_ms is not None and whole_ms else None,
                stack=texts(item, "stack")[-_STACK_MAX:],
            )
        )
    return rows


def blocks_notes(
    result: Mapping[str, Any], rows: Sequence[BlockedRow], side: Side = Side.SERVICE
) -> list[str]:
    """How many lines are not among those that are shown, and what those that are none stand for."""
    left_out = whole(mapping(mapping(result, side.value), "blocks").get("places")) - len(rows)
    notes = [f"{count(left_out)} more lines are not shown."] if left_out > 0 else []
    shown = {row.place for row in rows}
    return notes + [f"{place}: {told}" for place, told in _NO_LINES.items() if place in shown]


def blocked_in_app(entry: Mapping[str, Any]) -> str:
    """How much of an entry's ``service.app`` was a blocked loop; empty where none was."""
    told = mapping(entry, "loop_blocked_ms")
    mean, most = number(told.get("mean")), number(told.get("max"))
    app = number(mapping(mapping(entry, "components_ms"), "service.app").get("mean"))
    if not mean or app is None:
        return ""
    return (
        f"Of service.app's {milliseconds(app)} ms the event loop was blocked for "
        f"{milliseconds(mean)} ms on average, for {milliseconds(number(told.get('around_p95')))} ms"
        f" around p95 and {milliseconds(most)} ms at most; in "
        f"{percent(number(told.get('touched_share')))} of the requests."
    )


def over_time(result: Mapping[str, Any]) -> list[TimeChart]:
    """The charts over time for which there is something to draw."""
    series = {
        side: [
            item
            for item in items(mapping(result, side.value), "series")[:_PROCESSES_MAX]
            if isinstance(item, Mapping)
        ]
        for side in (Side.SERVICE, Side.GENERATOR)
    }
    most = max(_POINTS_ALL // max(sum(map(len, series.values())), 1), _POINTS_MIN)
    charts = []
    for title, unit, drawn, dull in _CHARTS:
        curves = [
            curve
            for side, column, label in drawn
            for item in series[side]
            if (curve := _curve(item, column, side, _label(label, item, series[side]), most))
        ]
        flat = not any(value for curve in curves for value in curve.values)
        if curves and not (dull and flat):
            charts.append(TimeChart(title, unit, tuple(_told_apart(curves))))
    return charts


def _told_apart(curves: Iterable[Curve]) -> Iterator[Curve]:
    """Curves with colours of their side, and where these are used up a dash."""
    used = {Side.SERVICE: 0, Side.GENERATOR: 0}
    for curve in curves:
        shades = _SHADES[curve.side]
        dash, place = divmod(used[curve.side], len(shades))
        used[curve.side] += 1
        yield replace(curve, shade=shades[place], dash=dash)


def _label(label: str, item: Mapping[str, Any], among: Sequence[Mapping[str, Any]]) -> str:
    """The label, with the process where there are several."""
    if len(among) < 2:
        return label
    return f"{label} {text(item, 'host_name')}:{whole(item.get('pid'))}"


def _curve(item: Mapping[str, Any], column: str, side: Side, label: str, most: int) -> Curve | None:
    """A column of a process; None where it has fewer than two points."""
    points = [
        (elapsed_s, number(value))
        for moment, value in zip(items(item, "elapsed_s"), items(item, column), strict=False)
        if (elapsed_s := number(moment)) is not None
    ]
    if sum(value is not None for _, value in points) < 2:
        return None
    points.sort(key=lambda point: point[0])
    step = -(-len(points) // most)
    groups = [points[index : index + step] for index in range(0, len(points), step)]
    return Curve(
        label,
        side,
        tuple(group[-1][0] for group in groups),
        tuple(_of_group([value for _, value in group], column) for group in groups),
    )


def _of_group(values: Sequence[float | None], column: str) -> float | None:
    """What stands for several points: the largest; of a rate the mean, which is what it is."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return sum(known) / len(known) if column == "rate_per_s" else max(known)
