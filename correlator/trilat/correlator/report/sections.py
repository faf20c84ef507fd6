"""The parts of the page: markup from the rows of `figures` and `conditions`.

Everything a reader needs stands in the markup; the script adds the chart and hides the tables of
the endpoints that are not chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilat.agent.records import Side
from trilat.correlator.reading import items, mapping, number, text
from trilat.correlator.report import figures
from trilat.correlator.report.composition import composition
from trilat.correlator.report.conditions import conditions
from trilat.correlator.report.markup import Html, element, joined
from trilat.correlator.report.pieces import badge, breakable, section, sentence, share_bar, table
from trilat.correlator.report.schedule import rate_label, stage_rows
from trilat.correlator.report.service_sections import blocking, over_time
from trilat.correlator.text import MISSING, count, instant, milliseconds, percent, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trilat.correlator.report.rows import CheckRow, EndpointRow
    from trilat.correlator.report.schedule import StageRow

__all__ = ["body"]

_ENDPOINTS_MAX = 50

_MARKS = {"pass": "✓", "fail": "✕", "invalid": "!", "unknown": "?"}
_CHECK_WORDS = {"ok": "passed", "warn": "warning", "fail": "failed", "skipped": "skipped"}


def body(result: Mapping[str, Any]) -> Html:
    """The page of a result between its head and its scripts."""
    parts = (
        _masthead(result),
        _banner(result),
        _key_figures(result),
        _objectives(result),
        composition(result),
        blocking(result, Side.SERVICE),
        blocking(result, Side.GENERATOR),
        _endpoints(result),
        _stages(result),
        over_time(result),
        _checks(figures.checks(result)),
        _conditions(result),
        element("footer", "Times in milliseconds. result.json holds every figure of this page."),
    )
    return element("main", *parts)


def _masthead(result: Mapping[str, Any]) -> Html:
    run = mapping(result, "run")
    facts = [fact for fact in (text(run, "target_host"), text(run, "run_id")) if fact]
    started = number(run.get("started_wall_ns"))
    if started is not None:
        facts.insert(0, instant(started))
    return element("header", element("b", "trilat"), element("span", " · ".join(facts)))


def _banner(result: Mapping[str, Any]) -> Html:
    headline = figures.headline(result)
    exit_code = number(mapping(result, "verdict").get("exit_code"))
    label = element(
        "p",
        element("b", _MARKS[headline.outcome], class_="mark", aria_hidden="true"),
        element("b", headline.label),
        element("span", f"exit code {exit_code:.0f}") if exit_code is not None else None,
        class_="label",
    )
    return element(
        "section",
        label,
        element("h1", sentence(headline.sentence)),
        _list(headline.reasons),
        _titled_list("What to do", headline.remedies),
        _titled_list("Warnings", headline.warnings),
        _titled_list("Notes", headline.notes),
        class_=f"banner {headline.outcome}",
        aria_label="Verdict",
    )


def _list(sentences: Iterable[str]) -> Html | None:
    lines = [element("li", sentence(each)) for each in sentences]
    return element("ul", *lines) if lines else None


def _titled_list(title: str, sentences: Iterable[str]) -> Html | None:
    lines = _list(sentences)
    return joined((element("h2", title), lines)) if lines else None


def _key_figures(result: Mapping[str, Any]) -> Html:
    total = figures.total(result)
    shares = total.shares_p95
    tiles = (
        (
            "Response time, p95",
            f"{milliseconds(total.p95_ms)} ms",
            f"{milliseconds(total.corrected_p95_ms)} ms from intended starts"
            if total.corrected_p95_ms is not None
            else "as the generator reports it",
        ),
        (
            "Without generator, p95",
            f"{milliseconds(total.without_generator_p95_ms)} ms",
            "with a perfect generator",
        ),
        ("Service alone, p95", f"{milliseconds(total.service_p95_ms)} ms", "queue, app and body"),
        (
            "Generator's share at p95",
            percent(shares.generator if shares else None),
            "of the response time",
        ),
        (
            "Requests",
            count(total.requests),
            f"{count(total.failures)} failed, {rate(total.rate_per_s)}/s {rate_label(result)}",
        ),
    )
    return element(
        "dl",
        *(
            element("div", element("dt", name), element("dd", value), element("dd", note))
            for name, value, note in tiles
        ),
        class_="tiles",
    )


def _objectives(result: Mapping[str, Any]) -> Html | None:
    rows = figures.objectives(result)
    if not rows:
        return None
    words = {True: ("holds", "ok"), False: ("missed", "fail"), None: ("not known", "skipped")}
    lines = [
        (
            element("code", row.text),
            row.reached,
            row.reached_without_generator,
            badge(*words[row.holds]),
        )
        for row in rows
    ]
    headings = ("Objective", "Reached", "Without the generator", "Outcome")
    return section("Objectives", table("Objectives", headings, lines, text_columns=(0, 3)))


def _endpoints(result: Mapping[str, Any]) -> Html:
    rows = [*figures.endpoints(result, _ENDPOINTS_MAX), figures.total(result)]
    left_out = len(items(result, "endpoints")) - len(rows) + 1
    note = "Percentiles of parts do not add up to a percentile of the whole; means and the bars do."
    columns: list[tuple[str, Callable[[EndpointRow], str]]] = [
        ("Endpoint", lambda row: breakable(row.title)),
        ("Made of at p95", lambda row: share_bar(row.shares_p95)),
        ("p50", lambda row: milliseconds(row.p50_ms)),
        ("p95", lambda row: milliseconds(row.p95_ms)),
        ("p99", lambda row: milliseconds(row.p99_ms)),
        ("p95 without generator", lambda row: milliseconds(row.without_generator_p95_ms)),
        ("Requests", lambda row: count(row.requests)),
        ("Failed", lambda row: count(row.failures)),
        ("Rate", lambda row: f"{rate(row.rate_per_s)}/s"),
    ]
    if any(row.corrected_p95_ms is not None for row in rows):
        columns[6:6] = [
            ("p95 from intended start", lambda row: milliseconds(row.corrected_p95_ms)),
            ("p99 from intended start", lambda row: milliseconds(row.corrected_p99_ms)),
        ]
        note += (
            " The intended start is when the schedule wanted a task to start; tasks that were due "
            "and never started are in these two columns."
        )
    if left_out > 0:
        note += f" {count(left_out)} endpoints with less load are in result.json only."
    headings = [heading for heading, _ in columns]
    lines = [[cell(row) for _, cell in columns] for row in rows]
    return section(
        "Endpoints",
        table("Endpoints", headings, lines, text_columns=(0, 1), class_="endpoints"),
        element("p", note, class_="note"),
    )


def _stages(result: Mapping[str, Any]) -> Html | None:
    rows = stage_rows(result)
    if not rows:
        return None
    columns: list[tuple[str, Callable[[StageRow], str]]] = [
        ("Stage", lambda row: row.span),
        ("Made of", lambda row: share_bar(row.shares)),
        ("Users", lambda row: row.users),
        ("Wanted", lambda row: row.wanted),
        ("Requests", lambda row: row.rate),
        ("p50", lambda row: milliseconds(row.p50_ms)),
        ("p95", lambda row: milliseconds(row.p95_ms)),
        ("p99", lambda row: milliseconds(row.p99_ms)),
    ]
    if any(row.reached for row in rows):
        columns.insert(4, ("Reached", lambda row: row.reached or MISSING))
    if any(row.corrected_p99_ms is not None for row in rows):
        columns.append(("p99 from intended start", lambda row: milliseconds(row.corrected_p99_ms)))
        columns.append(("Never started", lambda row: count(row.missed)))
    if any(row.saturated for row in rows):
        columns.append(("", lambda row: badge("saturated", "warn") if row.saturated else ""))
    lines = [[cell(row) for _, cell in columns] for row in rows]
    headings = [heading for heading, _ in columns]
    return section("Stages", table("Stages", headings, lines, text_columns=(0, 1)))


def _checks(rows: Sequence[CheckRow]) -> Html | None:
    if not rows:
        return None
    notable = [row for row in rows if row.outcome != "ok"]
    passed = [row for row in rows if row.outcome == "ok"]
    summary = element("summary", figures.checks_passed(rows))
    return section(
        "Checks",
        *(_check(row) for row in notable),
        element("details", summary, *(_check(row) for row in passed)) if passed else None,
    )


def _check(row: CheckRow) -> Html:
    heading = " ".join(part for part in (row.id, row.title) if part)
    return element(
        "div",
        badge(_CHECK_WORDS[row.outcome], row.outcome),
        element(
            "div",
            element("p", element("b", heading), f": {row.evidence}" if row.evidence else None),
            element("p", sentence(row.remedy), class_="remedy") if row.remedy else None,
        ),
        class_="check",
    )


def _conditions(result: Mapping[str, Any]) -> Html | None:
    groups = [
        element(
            "div",
            element("h3", title),
            element(
                "dl",
                *(
                    element("div", element("dt", label), element("dd", value))
                    for label, value in pairs
                ),
            ),
        )
        for title, pairs in conditions(result)
    ]
    if not groups:
        return None
    return section("Conditions of the run", element("div", *groups, class_="conditions"))
