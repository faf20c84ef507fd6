"""The parts of the page about what both sides sampled: what blocked their loops, and over time."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from trilat.agent.records import Side
from trilat.correlator.report import generator_facts, service_facts, service_rows
from trilat.correlator.report.markup import Html, element, joined
from trilat.correlator.report.pieces import breakable, section, swatch, table
from trilat.correlator.text import MISSING, count, milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilat.correlator.report.service_rows import BlockedRow, TimeChart

__all__ = ["blocking", "over_time"]

_TITLES = {
    Side.SERVICE: "What blocked the service's event loop",
    Side.GENERATOR: "What blocked the generator",
}
_NOTES = {
    Side.SERVICE: (
        "Lines of code that kept the service's event loop from all other requests for long, by the "
        "sum of their time. A line opens to the stack of its longest block."
    ),
    Side.GENERATOR: (
        "Lines of code that kept the load generator's thread from all other users for long, by the "
        "sum of their time: their answers lay unread. A line opens to the stack of a long block."
    ),
}


def blocking(result: Mapping[str, Any], side: Side) -> Html | None:
    """The table of what blocked a side's event loop; None where nothing did for long."""
    rows = service_rows.blocked(result, side)
    if not rows:
        return None
    lines = [
        (
            _place(row),
            count(row.times),
            milliseconds(row.total_ms),
            milliseconds(row.max_ms),
            percent(row.share),
        )
        for row in rows
    ]
    title = _TITLES[side]
    notes = service_rows.blocks_notes(result, rows, side)
    return section(
        title,
        element("p", _NOTES[side], class_="note"),
        table(
            title,
            ("Line", "Times", "Total, ms", "Longest, ms", "Share"),
            lines,
            text_columns=(0,),
            class_="blocked",
        ),
        *(element("p", note, class_="note") for note in notes),
    )


def _place(row: BlockedRow) -> Html:
    function = f"{row.function}, in {row.called}" if row.called else row.function
    place = joined((element("code", breakable(row.place)), " ", element("span", function)))
    if not row.stack:
        return place
    return element("details", element("summary", place), element("pre", "\n".join(row.stack)))


def over_time(result: Mapping[str, Any]) -> Html | None:
    """Charts and figures of both sides over time; None where nothing was sampled."""
    charts = service_rows.over_time(result)
    both = [
        ("Service", service_facts.facts(result)),
        ("Generator", generator_facts.facts(result)),
    ]
    remarks = service_facts.remarks(result)
    lists = [_facts(title, facts) for title, facts in both if facts]
    if not charts and not lists and not remarks:
        return None
    note = (
        "Each point is the second before it; where several are drawn as one, the largest. Each "
        "side is drawn by its own clock."
    )
    return section(
        "Over time",
        *(element("p", remark, class_="note") for remark in remarks),
        element("div", *lists, class_="conditions") if lists else None,
        element("p", note, class_="note") if charts else None,
        element(
            "div",
            *(_canvas(index, chart) for index, chart in enumerate(charts)),
            class_="times needs-script",
        )
        if charts
        else None,
        element(
            "details",
            element("summary", "The charts' figures as tables"),
            *(_figures(chart) for chart in charts),
        )
        if charts
        else None,
    )


def _facts(title: str, facts: list[tuple[str, str]]) -> Html:
    figures = [element("div", element("dt", label), element("dd", value)) for label, value in facts]
    return element("div", element("h3", title), element("dl", *figures))


def _canvas(index: int, chart: TimeChart) -> Html:
    title = f"{chart.title}, {chart.unit}" if chart.unit else chart.title
    names = [
        joined((element("span", swatch(curve.shade), curve.label), " ")) for curve in chart.curves
    ]
    canvas = element(
        "canvas",
        data_time=str(index),
        role="img",
        aria_label=f"{title}, over the seconds of the run. A table below holds the figures.",
    )
    return element(
        "figure",
        element("figcaption", element("b", title), *names),
        element("div", canvas),
        class_="chart",
    )


def _figures(chart: TimeChart) -> Html:
    """A chart as a table: curves whose points are of other moments stand beside each other."""
    headings, columns = [], []
    for curve in chart.curves:
        headings += ["Seconds", curve.label]
        columns += [
            [f"{value:.1f}" for value in curve.elapsed_s],
            [milliseconds(value) for value in curve.values],
        ]
    lines = zip_longest(*columns, fillvalue=MISSING)
    title = f"{chart.title}, {chart.unit}" if chart.unit else chart.title
    return joined((element("h3", title), table(title, headings, list(lines), text_columns=())))
