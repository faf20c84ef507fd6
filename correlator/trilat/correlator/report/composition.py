"""The section of the page that shows what the response time is made of: chart and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilat.correlator.reading import items
from trilat.correlator.report import figures, service_rows
from trilat.correlator.report.markup import Html, element, joined
from trilat.correlator.report.pieces import GRADES, grade, section, swatch, table
from trilat.correlator.report.rows import SIDES, Makeup
from trilat.correlator.text import MISSING, milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["composition"]

_NOTE = (
    "Each bar is the mean of the requests around one percentile, so its parts add up to their "
    "response time."
)
_CHART_LABEL = (
    "Stacked bars: the parts of the response time at each percentile. "
    "A table below holds the same figures."
)


def composition(result: Mapping[str, Any]) -> Html:
    """Chart, its controls, and a table of components for each endpoint that has a chart.

    Without the script the chart and its controls stay hidden and all tables are shown.
    """
    charted = figures.charted(result)
    chart = element("canvas", id="chart", role="img", aria_label=_CHART_LABEL)
    legend = [element("span", swatch(side), side) for side in SIDES]
    note = _NOTE
    if len(items(result, "endpoints")) > len(charted):
        note += f" Endpoints: the {len(charted) - 1} on which most time was spent."
    grades = [
        joined((element("dt", grade(name)), element("dd", words))) for name, words in GRADES.items()
    ]
    return section(
        "What the response time is made of",
        element("p", note, class_="note"),
        element("noscript", element("p", "The chart needs JavaScript; the tables do not.")),
        _controls([title for title, _ in charted]),
        element("div", element("div", chart), class_="chart needs-script"),
        element("p", *legend, class_="legend needs-script"),
        *(_component_tables(index, title, entry) for index, (title, entry) in enumerate(charted)),
        element("dl", *grades, class_="grades"),
    )


def _controls(titles: list[str]) -> Html:
    options = [element("option", title, value=str(index)) for index, title in enumerate(titles)]
    choice = element("label", "Endpoint", element("select", *options, id="endpoint"))
    buttons = [
        element("button", words, type="button", data_view=view, aria_pressed=pressed)
        for view, words, pressed in (("ms", "milliseconds", "true"), ("share", "shares", "false"))
    ]
    return element(
        "div",
        choice if len(titles) > 1 else None,
        element("span", *buttons, class_="views", role="group", aria_label="Unit of the chart"),
        class_="controls needs-script",
    )


def _component_tables(index: int, title: str, entry: Mapping[str, Any]) -> Html:
    lines = [
        (
            joined((swatch(row.label.replace(".", "-")), row.label)),
            row.meaning,
            grade(row.grade) if row.grade else MISSING,
            milliseconds(row.mean_ms),
            percent(row.share),
            milliseconds(row.p50_ms),
            milliseconds(row.p95_ms),
        )
        for row in figures.components(entry)
    ]
    headings = ("Component", "From and to", "Evidence", "Mean", "Share", "p50", "p95")
    return element(
        "article",
        element("h3", title),
        table(
            f"Components of {title}", headings, lines, text_columns=(0, 1, 2), class_="components"
        ),
        *(
            element("p", note, class_="note")
            for note in (service_rows.blocked_in_app(entry), figures.coverage_note(entry))
            if note
        ),
        _makeup_table(title, figures.makeup(entry)),
        data_endpoint=str(index),
    )


def _makeup_table(title: str, makeup: Makeup) -> Html:
    lines = [
        (
            percentile,
            milliseconds(makeup.response_ms[index]),
            *(milliseconds(series.values_ms[index]) for series in makeup.series),
        )
        for index, percentile in enumerate(makeup.percentiles)
    ]
    headings = ("Percentile", "Response time", *(series.label for series in makeup.series))
    return element(
        "details",
        element("summary", "The chart's figures as a table"),
        table(f"Parts of the response time of {title}", headings, lines, text_columns=(0,)),
    )
