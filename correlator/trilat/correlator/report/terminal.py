"""The report in a terminal: the verdict first, then what the response time is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from trilat.agent.records import Side
from trilat.correlator.reading import items, mapping, number
from trilat.correlator.report import figures, service_facts, service_rows
from trilat.correlator.report.bars import SIDE_STYLES, share_bar
from trilat.correlator.report.columns import kept_columns, width_of
from trilat.correlator.report.console import without_blanks
from trilat.correlator.report.page import Page, Point
from trilat.correlator.report.rows import SIDES, ComponentRow, EndpointRow, Shares
from trilat.correlator.report.schedule import rate_label, schedule_note, stage_rows
from trilat.correlator.samples.hub_blocking import BLOCKED_MAX
from trilat.correlator.text import MISSING, clean, count, milliseconds, percent, rate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rich.console import Console

__all__ = ["render", "render_verdict"]

_OUTCOME_STYLES = {"pass": "bold green", "fail": "bold red", "invalid": "bold yellow"}
_CHECK_STYLES = {"fail": "red", "warn": "yellow", "skipped": "dim"}
_GRADES = "measured: off clocks; bounded: in an interval that holds; estimated: inferred"

_BAR = 16
_NAME_MIN = 12
_ENDPOINTS_MAX = 50
_BLOCKED_MAX = 10
_MADE_OF = "made of at p95"
# Columns in the order in which they go where the console is narrow.
_DROPPED_ENDPOINT_COLUMNS = (
    *("service", "network", "generator", "rate/s", "p99", _MADE_OF, "failed", "p50", "requests"),
)


def render(
    result: Mapping[str, Any],
    console: Console,
    *,
    result_path: Path | None = None,
    report_path: Path | None = None,
) -> None:
    """Print a result.

    Args:
        result: the content of ``result.json``; figures it does not hold are shown as unknown.
        console: where to; its width, encoding and colours are honoured.
        result_path: where the result lies, to be named at the end.
        report_path: where the page with the chart lies, to be named at the end.
    """
    with without_blanks(console):
        page = _Report(console)
        page.verdict(result)
        page.objectives(result)
        page.endpoints(result)
        page.stages(result)
        page.components(result)
        page.sampled(result)
        page.checks(result)
        page.files(result_path, report_path)


def render_verdict(result: Mapping[str, Any], console: Console) -> None:
    """Print a result's verdict and objectives only; see `render`."""
    with without_blanks(console):
        page = _Report(console)
        page.verdict(result)
        page.objectives(result)


class _Report(Page):
    """One printing of a result."""

    def verdict(self, result: Mapping[str, Any]) -> None:
        headline = figures.headline(result)
        style = _OUTCOME_STYLES.get(headline.outcome, "bold")
        self.console.print(
            Text.assemble((headline.label, style), ": ", self.fit(headline.sentence)),
            soft_wrap=not self.console.is_terminal,  # in a file the whole verdict is one line
        )
        points = [Point("-", reason) for reason in headline.reasons]
        points += [Point("!", f"Warning: {warning}", "yellow") for warning in headline.warnings]
        points += [Point(">", f"To do: {remedy}", "bold") for remedy in headline.remedies]
        points += [Point("*", f"Note: {note}", "dim") for note in headline.notes]
        self.points(points)
        self.console.print()

    def objectives(self, result: Mapping[str, Any]) -> None:
        rows = figures.objectives(result)
        if not rows:
            return
        holds = {True: Text("yes", "green"), False: Text("no", "bold red"), None: Text(MISSING)}
        width = max(self.console.width - 40, _NAME_MIN)
        cells = [
            [
                self.name(row.text, width, ""),
                Text(row.reached),
                Text(row.reached_without_generator),
                holds[row.holds],
            ]
            for row in rows
        ]
        headings = ["objective", "reached", "without generator", "holds"]
        self.fitting_table(headings, cells, (1, 2), ("without generator",))
        self.console.print()

    def endpoints(self, result: Mapping[str, Any]) -> None:
        rows = figures.endpoints(result, _ENDPOINTS_MAX)
        total = figures.total(result)
        left_out = len(items(result, "endpoints")) - len(rows)
        headings = ["requests", "failed", "rate/s", "p50", "p95", "p99"]
        cells = [_endpoint_cells(row) for row in (*rows, total)]
        if self.wide:
            headings += ["service", "network", "generator"]
            for line, row in zip(cells, (*rows, total), strict=True):
                line.extend(_share_cells(row.shares_p95))
        widths = [
            width_of(heading, (line[index] for line in cells), self.gap)
            for index, heading in enumerate(headings)
        ]
        room = self.console.width - _NAME_MIN - self.gap
        kept = kept_columns([*headings, _MADE_OF], [*widths, _BAR], _DROPPED_ENDPOINT_COLUMNS, room)
        has_bar = len(headings) in kept
        taken = sum([*widths, _BAR][index] for index in kept)
        name_width = max(self.console.width - self.gap - taken, _NAME_MIN)
        shown = [index for index in kept if index < len(headings)]
        table = self.table(
            ["endpoint", *(headings[index] for index in shown)], right=range(1, len(shown) + 1)
        )
        if has_bar:
            table.add_column(_MADE_OF, no_wrap=True, width=_BAR)
        for row, line in zip((*rows, total), cells, strict=True):
            if row is total:
                table.add_section()
            name = self.name(row.title, name_width, "bold" if row is total else "")
            drawn = [self._bar(row.shares_p95)] if has_bar else []
            table.add_row(name, *(line[index] for index in shown), *drawn)
        self.console.print(table)
        if left_out > 0:
            self.console.print(
                f"{count(left_out)} endpoints with less load are in the result only."
            )
        self.console.print(self._legend())
        self.console.print(
            f"{rate(total.rate_per_s)} requests/s {rate_label(result)}", highlight=False
        )
        if note := schedule_note(result):
            self.console.print(note, highlight=False)
        self.console.print()

    def stages(self, result: Mapping[str, Any]) -> None:
        rows = stage_rows(result)
        if not rows:
            return
        headings = ["stage", "users", "wanted", "reached", "requests", "p50", "p95", "p99"]
        headings += ["from intended", "never started", ""]
        cells = [
            [
                *(Text(text) for text in (row.span, row.users, row.wanted)),
                *(Text(text) for text in (row.reached or MISSING, row.rate)),
                *(Text(milliseconds(ms)) for ms in (row.p50_ms, row.p95_ms, row.p99_ms)),
                Text(milliseconds(row.corrected_p99_ms)),
                Text(count(row.missed)),
                Text("saturated" if row.saturated else "", style="yellow"),
            ]
            for row in rows
        ]
        dropped = ("never started", "p50", "reached", "p95", "from intended", "wanted")
        self.fitting_table(headings, cells, range(1, 10), dropped)
        self.console.print()

    def components(self, result: Mapping[str, Any]) -> None:
        total = mapping(result, "total")
        rows = figures.components(total)
        headings = ["component", "mean", "share", "p50", "p95", "evidence"]
        cells = [[Text(row.label, SIDE_STYLES[row.side]), *_component_cells(row)] for row in rows]
        if self.wide:
            headings.append("from and to")
            for line, row in zip(cells, rows, strict=True):
                line.append(Text(row.meaning, style="dim"))
        self.fitting_table(headings, cells, range(1, 5), ("p50", "evidence", "p95"))
        if note := service_rows.blocked_in_app(total):
            self.console.print(Text(note))
        if note := figures.coverage_note(total):
            self.console.print(Text(note, style="dim"))
        self.console.print(Text(_GRADES, style="dim"))
        self.console.print()

    def sampled(self, result: Mapping[str, Any]) -> None:
        """What both sides told of themselves; of the generator, where it was in the way."""
        self._blocked(result, Side.SERVICE)
        lines = [f"{label}: {value}" for label, value in service_facts.facts(result)]
        lines += service_facts.remarks(result)
        if lines:
            self.console.print(Text("the service over time", style="dim"))
            self.points([Point("-", line) for line in lines])
            self.console.print()
        if (number(mapping(result, "generator").get("blocked_share")) or 0.0) >= BLOCKED_MAX:
            self._blocked(result, Side.GENERATOR)

    def _blocked(self, result: Mapping[str, Any], side: Side) -> None:
        rows = service_rows.blocked(result, side)[:_BLOCKED_MAX]
        if not rows:
            return
        width = max(self.console.width - 40, _NAME_MIN)
        cells = [
            [
                self.name(f"{row.place} {row.function}".rstrip(), width, ""),
                Text(count(row.times)),
                Text(milliseconds(row.total_ms)),
                Text(milliseconds(row.max_ms)),
                Text(percent(row.share)),
            ]
            for row in rows
        ]
        headings = [f"blocked the {side}'s loop", "times", "total", "longest", "share"]
        self.fitting_table(headings, cells, range(1, 5), ("share", "longest"))
        told = "times in ms; report.html has the stacks"
        for note in (told, *service_rows.blocks_notes(result, rows, side)):
            self.console.print(Text(note, style="dim"))
        self.console.print()

    def checks(self, result: Mapping[str, Any]) -> None:
        rows = figures.checks(result)
        if not rows:
            return
        points = []
        told = set(figures.headline(result).remedies)  # they stand beside the verdict already
        for row in rows:
            if row.outcome == "ok":
                continue
            said = " ".join(part for part in (row.id, row.title) if part)
            said += f": {row.evidence}" if row.evidence else ""
            if new := [step for step in row.steps if step not in told]:
                told.update(new)
                said += f". To do: {'; '.join(new)}"
            points.append(Point(row.outcome.upper(), said, _CHECK_STYLES[row.outcome]))
        self.console.print(figures.checks_passed(rows), highlight=False)
        self.points(points)
        self.console.print()

    def files(self, result_path: Path | None, report_path: Path | None) -> None:
        for label, path in (("Figures", result_path), ("Report ", report_path)):
            if path is not None:
                line = Text.assemble((f"{label}: ", "dim"), self.fit(clean(path, limit=4096)))
                self.console.print(line, soft_wrap=True)  # a path in one piece can be copied

    def _bar(self, shares: Shares | None) -> Text:
        if shares is None:
            return Text(MISSING, style="dim")
        return share_bar(shares, _BAR, self.encoding)

    def _legend(self) -> Text:
        legend = Text("times in ms; ", style="dim")
        for side in SIDES:
            legend.append(self.glyphs[side], style=SIDE_STYLES[side])
            legend.append(f" {side}  ")
        legend.rstrip()
        return legend


def _endpoint_cells(row: EndpointRow) -> list[str]:
    return [
        count(row.requests),
        count(row.failures),
        rate(row.rate_per_s),
        milliseconds(row.p50_ms),
        milliseconds(row.p95_ms),
        milliseconds(row.p99_ms),
    ]


def _share_cells(shares: Shares | None) -> list[str]:
    if shares is None:
        return [MISSING] * 3
    return [percent(share) for share in (shares.service, shares.network, shares.generator)]


def _component_cells(row: ComponentRow) -> list[Text]:
    grade_style = {"measured": "", "bounded": "cyan", "estimated": "magenta"}
    return [
        Text(milliseconds(row.mean_ms)),
        Text(percent(row.share)),
        Text(milliseconds(row.p50_ms)),
        Text(milliseconds(row.p95_ms)),
        Text(row.grade or MISSING, style=grade_style.get(row.grade or "", "dim")),
    ]
