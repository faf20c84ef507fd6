"""What the page's chart draws, as JSON can carry it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilat.correlator.reading import text
from trilat.correlator.report import figures, service_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilat.correlator.report.rows import ObjectiveRow
    from trilat.correlator.report.service_rows import TimeChart

__all__ = ["chart_data"]

_DECIMALS = 3  # of a millisecond: a microsecond, as in the result


def chart_data(result: Mapping[str, Any]) -> dict[str, Any]:
    """The charts of a page.

    Returns:
        ``chosen``: the position of the one that is shown first: the first that misses an
        objective, else 0. ``endpoints``: of each of `figures.charted` the title, percentiles,
        response times and layers (see `Makeup`), and the objectives that are drawn as lines.
        ``time``: the charts over time, each with its unit and curves.
    """
    charted = figures.charted(result)
    endpoints = []
    missed = []
    for index, (title, entry) in enumerate(charted):
        about = [row for row in figures.objectives(result) if row.name in _names(index, charted)]
        if any(row.holds is False for row in about):
            missed.append(index)
        endpoints.append(
            _endpoint(title, entry, [row for row in about if row.limit_ms is not None])
        )
    return {
        "chosen": missed[0] if missed else 0,
        "endpoints": endpoints,
        "time": [_time_chart(chart) for chart in service_rows.over_time(result)],
    }


def _time_chart(chart: TimeChart) -> dict[str, Any]:
    return {
        "unit": chart.unit,
        "curves": [
            {
                "label": curve.label,
                "shade": curve.shade,
                "dash": curve.dash,
                "elapsed_s": _rounded(curve.elapsed_s),
                "values": [
                    None if value is None else round(value, _DECIMALS) for value in curve.values
                ],
            }
            for curve in chart.curves
        ],
    }


def _names(index: int, charted: Sequence[tuple[str, Mapping[str, Any]]]) -> set[str]:
    """What an objective may call a chart's endpoint; without a name it is about all requests."""
    title, entry = charted[index]
    own = {title, text(entry, "name")}
    if len(charted) == 1:
        return {"", *own}
    return {""} if index == 0 else own


def _endpoint(
    title: str, entry: Mapping[str, Any], lines: Sequence[ObjectiveRow]
) -> dict[str, Any]:
    makeup = figures.makeup(entry)
    return {
        "title": title,
        "percentiles": makeup.percentiles,
        "response_ms": _rounded(makeup.response_ms),
        "series": [
            {
                "label": series.label,
                "side": series.side.value,
                "grade": series.grade,
                "values_ms": _rounded(series.values_ms),
            }
            for series in makeup.series
        ],
        "lines": [
            {
                "text": row.text.partition("@")[0].strip(),
                "percentile": row.percentile,
                "limit_ms": row.limit_ms,
            }
            for row in lines
        ],
    }


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, _DECIMALS) for value in values]
