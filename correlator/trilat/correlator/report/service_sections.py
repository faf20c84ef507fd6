"""The parts of the page about the service's own evidence: what blocked its loop, and over time."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from trilat.correlator.report import service_facts, service_rows
from trilat.correlator.report.markup import Html, element, joined
from trilat.correlator.report.pieces import breakable, section, swatch, table
from trilat.correlator.report.text import MISSING, count, milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilat.correlator.report.service_rows import BlockedRow, TimeChart

__all__ = ["blocking", "over_time"]

_NOTE = (
    "Lines of code that kept the service's event loop from all other requests for long, by the sum "
    "of their time. A line opens to the stack of its longest block."
)


def blocking(result: Mapping[str, Any]) -> Html | None:
    """The table of what blocked the event loop; None where nothing did for long."""
    rows = service_rows.blocked(result)
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
    title = "What blocked the service's event loop"
    note = service_rows.blocks_note(result)
    return section(
        title,
        element("p", _NOTE, class_="note"),
        table(
            title,
            ("Line", "Times", "Total, ms", "Longest, ms", "Share"),
            lines,
            text_columns=(0,),
            class_="blocked",
        ),
        element("p", note, class_="note") if note else None,
    )


def _place(row: BlockedRow) -> Html:
    place = joined((element("code", breakable(row.place)), " ", element("span", row.function)))
    if not row.stack:
        return place
    return element("details", element("summary", place), element("pre", "\n".join(row.stack)))


def over_time(result: Mapping[str, Any]) -> Html | None:
    """Charts and figures of both sides over time; None where nothing was sampled."""
    charts = service_rows.over_time(result)
    facts = service_facts.facts(result)
    remarks = service_facts.remarks(result)
    if not charts and not facts and not remarks:
        return None
    figures = [element("div", element("dt", label), element("dd", value)) for label, value in facts]
    note = (
        "Each point is the second before it; where several are drawn as one, the largest. Each "
        "side is drawn by its own clock."
    )
    return section(
        "Over time",
        *(element("p", remark, class_="note") for remark in remarks),
        element("div", _service(figures), class_="conditions") if figures else None,
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


def _service(figures: list[Html]) -> Html:
    return element("div", element("h3", "Service"), element("dl", *figures))


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
