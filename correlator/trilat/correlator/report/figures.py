"""What a report shows, as plain rows and series: pure functions of a result.

Both renderers draw from here, so the terminal and the page cannot disagree. A result may come from
a file that anybody wrote; what is missing or of the wrong type becomes `None` or an empty list,
and every text is cleaned (see `trilat.correlator.reading`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from trilat.agent.errors import UsageError
from trilat.agent.records import COMPONENTS, Side
from trilat.correlator.judge.objective import parse
from trilat.correlator.reading import items, mapping, number, text, texts, whole
from trilat.correlator.report.rows import (
    MEANINGS,
    SIDES,
    STACK,
    CheckRow,
    ComponentRow,
    EndpointRow,
    Headline,
    Makeup,
    ObjectiveRow,
    Series,
    Shares,
)
from trilat.correlator.text import count

__all__ = [
    "charted",
    "checks",
    "checks_passed",
    "components",
    "coverage_note",
    "endpoints",
    "entries",
    "headline",
    "makeup",
    "objectives",
    "shares_of",
    "total",
]

_TOTAL = "All endpoints"
_CHARTED_MAX = 10
_ROUNDING = 1e-9
_OUTCOMES = ("pass", "fail", "invalid")
_GRADES = ("measured", "bounded", "estimated")
_CHECKS_OF = {"service": "S", "errors": "S", "generator": "G", "evidence": "E"}
_CHECK_OUTCOMES = ("fail", "warn", "skipped", "ok")


def headline(result: Mapping[str, Any]) -> Headline:
    """The verdict of a result as a person reads it."""
    verdict = mapping(result, "verdict")
    outcome = text(verdict, "outcome")
    if outcome not in _OUTCOMES:
        outcome = "unknown"
    reasons = texts(verdict, "reasons")
    in_words = {
        "pass": "All objectives hold.",
        "fail": "An objective is missed.",
        "invalid": "The run says nothing about the service.",
        "unknown": "The result holds no verdict.",
    }
    cause = text(verdict, "cause")
    first = _CHECKS_OF.get(cause, "")
    rows = [row for row in checks(result) if row.outcome == "fail"]
    rows.sort(key=lambda row: not row.id.startswith(first))  # what decided comes first
    failed = (step for row in rows for step in row.steps)
    return Headline(
        outcome=outcome,
        cause=cause,
        sentence=reasons[0] if reasons else in_words[outcome],
        reasons=reasons[1:],
        warnings=texts(verdict, "warnings"),
        notes=(*texts(verdict, "notes"), *texts(mapping(result, "run"), "notes")),
        remedies=tuple(dict.fromkeys(failed)),
    )


def checks(result: Mapping[str, Any]) -> list[CheckRow]:
    """The checks of the run, the worst first."""
    rows = [
        CheckRow(
            id=text(item, "id"),
            title=text(item, "title"),
            outcome=text(item, "outcome"),
            evidence=text(item, "evidence"),
            remedy=text(item, "remedy"),
        )
        for item in items(result, "checks")
        if isinstance(item, Mapping) and item.get("outcome") in _CHECK_OUTCOMES
    ]
    return sorted(rows, key=lambda row: _CHECK_OUTCOMES.index(row.outcome))


def checks_passed(rows: Sequence[CheckRow]) -> str:
    """How many checks passed of those that had something to look at."""
    passed = sum(row.outcome == "ok" for row in rows)
    skipped = sum(row.outcome == "skipped" for row in rows)
    told = f"{passed} of {len(rows) - skipped} checks passed"
    return f"{told}, {skipped} skipped" if skipped else told


def entries(result: Mapping[str, Any], limit: int) -> list[Mapping[str, Any]]:
    """The endpoints' entries in the result's order, at most `limit` of them.

    Where there are more, those stay on which most time was spent (requests by mean response time).
    """
    found = [item for item in items(result, "endpoints") if isinstance(item, Mapping)]
    if len(found) <= limit:
        return found

    def spent_ms(index: int) -> float:
        mean_ms = number(mapping(found[index], "response_time_ms").get("mean"))
        return whole(found[index].get("requests")) * (mean_ms or 0.0)

    heaviest = sorted(range(len(found)), key=spent_ms, reverse=True)[:limit]
    return [found[index] for index in sorted(heaviest)]


def endpoints(result: Mapping[str, Any], limit: int) -> list[EndpointRow]:
    """A row for each of `entries`."""
    return [_endpoint(entry, _title(entry)) for entry in entries(result, limit)]


def charted(result: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Titles and entries that get a chart: all together first, then each of the heaviest.

    Where there is one endpoint, it stands alone.
    """
    found = [(_title(entry), entry) for entry in entries(result, _CHARTED_MAX)]
    if len(found) == 1:
        return found
    return [(_TOTAL, mapping(result, "total")), *found]


def total(result: Mapping[str, Any]) -> EndpointRow:
    """The row of all endpoints together."""
    return _endpoint(mapping(result, "total"), _TOTAL)


def _title(entry: Mapping[str, Any]) -> str:
    method, name = text(entry, "method"), text(entry, "name")
    return f"{method} {name}".strip() or "(no name)"


def _endpoint(entry: Mapping[str, Any], title: str) -> EndpointRow:
    response = mapping(entry, "response_time_ms")
    return EndpointRow(
        title=title,
        requests=whole(entry.get("requests")),
        failures=whole(entry.get("failures")),
        matched=whole(entry.get("matched")),
        rate_per_s=number(entry.get("rate_per_s")),
        mean_ms=number(response.get("mean")),
        p50_ms=number(response.get("p50")),
        p95_ms=number(response.get("p95")),
        p99_ms=number(response.get("p99")),
        service_p95_ms=number(mapping(entry, "service_ms").get("p95")),
        without_generator_p95_ms=number(mapping(entry, "without_generator_ms").get("p95")),
        corrected_p95_ms=number(mapping(entry, "corrected_ms").get("p95")),
        corrected_p99_ms=number(mapping(entry, "corrected_ms").get("p99")),
        shares_p95=shares_of(mapping(mapping(entry, "shares"), "p95")),
    )


def shares_of(shares: Mapping[str, Any]) -> Shares | None:
    """Shares as they stand in a result, scaled to 1; `None` where nothing was measured."""
    values = [max(number(shares.get(side.value)) or 0.0, 0.0) for side in SIDES]
    largest = max(values)
    if largest <= 0:
        return None
    values = [value / largest for value in values]  # a sum of the largest floats is infinite
    whole = math.fsum(values)
    return Shares(*(value / whole for value in values))


def components(entry: Mapping[str, Any]) -> list[ComponentRow]:
    """The nine components of an entry in the order in which a request lives through them.

    Where something is left that nobody can be named for, it is a tenth row.
    """
    found = mapping(entry, "components_ms")
    rows = []
    for component in COMPONENTS:
        figures = mapping(found, component.label)
        rows.append(
            ComponentRow(
                label=component.label,
                side=component.side,
                meaning=MEANINGS[component],
                mean_ms=number(figures.get("mean")),
                p50_ms=number(figures.get("p50")),
                p95_ms=number(figures.get("p95")),
                share=number(figures.get("share")),
                grade=_grade(figures),
            )
        )
    left = number(entry.get("unattributed_share"))
    if left is not None and left > 0:
        whole_ms = number(mapping(entry, "response_time_ms").get("mean"))
        rows.append(
            ComponentRow(
                label=Side.UNATTRIBUTED.value,
                side=Side.UNATTRIBUTED,
                meaning="no evidence of whose it was",
                mean_ms=None if whole_ms is None else left * whole_ms,
                p50_ms=None,
                p95_ms=None,
                share=left,
                grade=None,
            )
        )
    return rows


def coverage_note(entry: Mapping[str, Any]) -> str:
    """Which requests the figures of the components are about, where it is not all; else empty."""
    requests, matched = whole(entry.get("requests")), whole(entry.get("matched"))
    if not 0 < matched < requests:
        return ""
    return (
        f"Means and percentiles of service and network parts are of the {count(matched)} of "
        f"{count(requests)} requests with evidence; shares are of all."
    )


def _grade(figures: Mapping[str, Any]) -> str | None:
    grade = figures.get("grade")
    return grade if grade in _GRADES else None


def makeup(entry: Mapping[str, Any]) -> Makeup:
    """The stacked chart of an entry: percentiles ascending, layers in the order of `STACK`.

    A point without a percentile or a response time is left out, and so is one that no request
    lies above: it would show the largest value under another name. A layer without a value is 0.
    """
    requests = whole(entry.get("requests"))
    highest = 100.0 * (1 - 1 / requests) if requests else 100.0
    points: list[tuple[float, float, Mapping[str, Any]]] = []
    for item in items(entry, "makeup"):
        if not isinstance(item, Mapping):
            continue
        percentile, response_ms = number(item.get("q")), number(item.get("response_ms"))
        if percentile is not None and response_ms is not None and percentile >= 0:
            if percentile > highest + _ROUNDING:
                continue
            points.append((percentile, response_ms, item))
    points.sort(key=lambda point: point[0])

    figures = mapping(entry, "components_ms")
    series = [
        Series(
            label=component.label,
            side=component.side,
            grade=_grade(mapping(figures, component.label)),
            values_ms=tuple(
                _not_negative(mapping(item, "components_ms").get(component.label))
                for _, _, item in points
            ),
        )
        for component in STACK
    ]
    unattributed_ms = tuple(_not_negative(item.get("unattributed_ms")) for _, _, item in points)
    series.append(Series("unattributed", Side.UNATTRIBUTED, None, unattributed_ms))
    return Makeup(
        percentiles=tuple(_percentile_label(percentile) for percentile, _, _ in points),
        response_ms=tuple(response_ms for _, response_ms, _ in points),
        series=tuple(series),
    )


def _not_negative(value: object) -> float:
    return max(number(value) or 0.0, 0.0)


def _percentile_label(percentile: float) -> str:
    return f"p{percentile:g}"


def objectives(result: Mapping[str, Any]) -> list[ObjectiveRow]:
    """The objectives of the run in the order in which they were given."""
    rows = []
    for item in items(result, "objectives"):
        if not isinstance(item, Mapping):
            continue
        written = text(item, "text")
        holds = item.get("holds")
        percentile, limit_ms, name = _drawn(written)
        rows.append(
            ObjectiveRow(
                text=written,
                value=number(item.get("value")),
                value_without_generator=number(item.get("value_without_generator")),
                unit=text(item, "unit"),
                holds=holds if isinstance(holds, bool) else None,
                percentile=percentile,
                limit_ms=limit_ms,
                name=name,
            )
        )
    return rows


def _drawn(written: str) -> tuple[str | None, float | None, str]:
    """Percentile and limit in ms of an objective that the chart can show, and its endpoint."""
    try:
        objective = parse(written)
    except UsageError:
        return None, None, ""
    name = objective.endpoint or ""
    upper_limit = objective.operator in ("<=", "<")
    if objective.variable != "response" or objective.quantile is None or not upper_limit:
        return None, None, name
    percentile = _percentile_label(round(objective.quantile * 100, 6))
    return percentile, objective.in_unit(objective.bound), name
