"""The report in a terminal: the verdict first, then what the response time is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilat.agent.records import Side
from trilat.correlator.report import figures
from trilat.correlator.report.reading import items, mapping
from trilat.correlator.report.rows import SIDES, ComponentRow, EndpointRow, Shares
from trilat.correlator.report.text import MISSING, clean, count, milliseconds, percent, rate

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

__all__ = ["bar", "cut_middle", "render", "render_verdict", "share_bar"]

_OUTCOME_STYLES = {"pass": "bold green", "fail": "bold red", "invalid": "bold yellow"}
_CHECK_STYLES = {"fail": "red", "warn": "yellow", "skipped": "dim"}
_SIDE_STYLES = {
    Side.SERVICE: "bright_blue",
    Side.NETWORK: "green",
    Side.GENERATOR: "yellow",
    Side.UNATTRIBUTED: "dim",
}
# Told apart by shape, so that the bar reads without colour.
_GLYPHS = {Side.SERVICE: "█", Side.NETWORK: "━", Side.GENERATOR: "▒", Side.UNATTRIBUTED: "?"}
_GLYPHS_ASCII = {Side.SERVICE: "S", Side.NETWORK: "-", Side.GENERATOR: "g", Side.UNATTRIBUTED: "?"}

_GRADES = "measured: off clocks; bounded: in an interval that holds; estimated: inferred"

_WIDE = 110  # columns from which on shares are written out and components explained
_BAR = 16
_NAME_MIN = 12
_ENDPOINTS_MAX = 50


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
    page = _Page(console)
    page.verdict(result)
    page.objectives(result)
    page.endpoints(result)
    page.components(result)
    page.checks(result)
    page.files(result_path, report_path)


class _Point(NamedTuple):
    """A sentence under a mark."""

    mark: str
    sentence: str
    style: str = ""


def render_verdict(result: Mapping[str, Any], console: Console) -> None:
    """Print a result's verdict and objectives only; see `render`."""
    page = _Page(console)
    page.verdict(result)
    page.objectives(result)


class _Page:
    """One printing: a console, and text that fits its encoding."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._encoding = console.encoding
        self._utf8 = _is_utf8(self._encoding)
        self._glyphs = _glyphs(self._encoding)
        self._wide = console.width >= _WIDE
        self._gap = 2 if self._wide else 1

    def verdict(self, result: Mapping[str, Any]) -> None:
        headline = figures.headline(result)
        style = _OUTCOME_STYLES.get(headline.outcome, "bold")
        self._console.print(
            Text.assemble((headline.label, style), ": ", self._fit(headline.sentence))
        )
        points = [_Point("-", reason) for reason in headline.reasons]
        points += [_Point("!", f"Warning: {warning}", "yellow") for warning in headline.warnings]
        points += [_Point(">", f"To do: {remedy}", "bold") for remedy in headline.remedies]
        self._points(points)
        self._console.print()

    def objectives(self, result: Mapping[str, Any]) -> None:
        rows = figures.objectives(result)
        if not rows:
            return
        table = self._table(["objective", "reached", "without generator", "holds"], right=(1, 2))
        for row in rows:
            holds = {True: ("yes", "green"), False: ("no", "bold red"), None: (MISSING, "")}
            table.add_row(
                self._name(row.text, max(self._console.width - 40, _NAME_MIN), ""),
                row.reached,
                row.reached_without_generator,
                Text(*holds[row.holds]),
            )
        self._console.print(table)
        self._console.print()

    def endpoints(self, result: Mapping[str, Any]) -> None:
        rows = figures.endpoints(result, _ENDPOINTS_MAX)
        total = figures.total(result)
        left_out = len(items(result, "endpoints")) - len(rows)
        headings = ["requests", "failed", "rate/s", "p50", "p95", "p99"]
        cells = [_endpoint_cells(row) for row in (*rows, total)]
        side_cells: list[list[str]] = [[] for _ in cells]
        if self._wide:
            headings += ["service", "network", "generator"]
            side_cells = [_share_cells(row.shares_p95) for row in (*rows, total)]
        table = self._table(["endpoint", *headings], right=range(1, len(headings) + 1))
        table.add_column("made of at p95", no_wrap=True, width=_BAR)

        columns = [[*row, *sides] for row, sides in zip(cells, side_cells, strict=True)]
        taken = sum(
            max(len(heading), *(len(row[index]) for row in columns)) + self._gap
            for index, heading in enumerate(headings)
        )
        name_width = max(self._console.width - taken - _BAR - self._gap, _NAME_MIN)
        for index, (row, texts) in enumerate(zip((*rows, total), columns, strict=True)):
            if index == len(rows):
                table.add_section()
            name = self._name(row.title, name_width, "bold" if index == len(rows) else "")
            table.add_row(name, *texts, self._bar(row.shares_p95))
        self._console.print(table)
        if left_out > 0:
            self._console.print(
                f"{count(left_out)} endpoints with less load are in the result only."
            )
        self._console.print(self._legend())
        if total.corrected_p95_ms is not None:
            corrected = milliseconds(total.corrected_p95_ms)
            self._console.print(f"p95 from intended starts: {corrected}", highlight=False)
        self._console.print()

    def components(self, result: Mapping[str, Any]) -> None:
        rows = figures.components(mapping(result, "total"))
        headings = ["component", "mean", "share", "p50", "p95", "evidence"]
        table = self._table([*headings, "from and to"] if self._wide else headings, range(1, 5))
        for row in rows:
            cells = [Text(row.label, style=_SIDE_STYLES[row.side]), *_component_cells(row)]
            if self._wide:
                cells.append(Text(row.meaning, style="dim"))
            table.add_row(*cells)
        self._console.print(table)
        self._console.print(Text(_GRADES, style="dim"))
        self._console.print()

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
            points.append(_Point(row.outcome.upper(), said, _CHECK_STYLES[row.outcome]))
        passed = sum(row.outcome == "ok" for row in rows)
        self._console.print(f"{passed} of {len(rows)} checks passed", highlight=False)
        self._points(points)
        self._console.print()

    def files(self, result_path: Path | None, report_path: Path | None) -> None:
        for label, path in (("Figures", result_path), ("Report ", report_path)):
            if path is not None:
                line = Text.assemble((f"{label}: ", "dim"), self._fit(clean(path, limit=4096)))
                self._console.print(line, soft_wrap=True)  # a path in one piece can be copied

    def _fit(self, text: str) -> str:
        """`text` in the console's encoding; what it lacks is written as an escape."""
        if self._utf8:
            return text
        plain = text.replace("…", "...")
        return plain.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def _name(self, title: str, width: int, style: str) -> Text:
        return Text(cut_middle(self._fit(title), width, "…" if self._utf8 else "..."), style=style)

    def _points(self, points: Sequence[_Point]) -> None:
        """A list of sentences; where one wraps, the rest hangs under its start."""
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column()
        for point in points:
            grid.add_row(Text(point.mark, style=point.style), Text(self._fit(point.sentence)))
        if points:
            self._console.print(Padding(grid, (0, 0, 0, 2), expand=False))

    def _table(self, headings: Sequence[str], right: Container[int]) -> Table:
        padding = (0, self._gap, 0, 0)
        table = Table(box=None, padding=padding, pad_edge=False, header_style="dim")
        for index, heading in enumerate(headings):
            table.add_column(heading, justify="right" if index in right else "left", no_wrap=True)
        return table

    def _bar(self, shares: Shares | None) -> Text:
        if shares is None:
            return Text(MISSING, style="dim")
        return share_bar(shares, _BAR, self._encoding)

    def _legend(self) -> Text:
        legend = Text("times in ms; ", style="dim")
        for side in SIDES:
            legend.append(self._glyphs[side], style=_SIDE_STYLES[side])
            legend.append(f" {side}  ")
        legend.rstrip()
        return legend


def share_bar(shares: Shares, width: int, encoding: str) -> Text:
    """`shares` drawn as a bar of `width` cells, in characters that `encoding` has."""
    glyphs = _glyphs(encoding)
    drawn = Text()
    for side, cells in bar(shares, width):
        drawn.append(glyphs[side] * cells, style=_SIDE_STYLES[side])
    return drawn


def _is_utf8(encoding: str) -> bool:
    return encoding.lower().replace("-", "").startswith("utf8")


def _glyphs(encoding: str) -> dict[Side, str]:
    return _GLYPHS if _is_utf8(encoding) else _GLYPHS_ASCII


def bar(shares: Shares, width: int) -> list[tuple[Side, int]]:
    """How many of `width` cells each side gets: largest remainders, so they add up to `width`."""
    exact = [(side, share * width) for side, share in shares.parts()]
    cells = {side: int(value) for side, value in exact}
    by_remainder = sorted(exact, key=lambda item: item[1] - int(item[1]), reverse=True)
    for side, _ in by_remainder[: width - sum(cells.values())]:
        cells[side] += 1
    return [(side, cells[side]) for side, _ in exact]


def cut_middle(text: str, width: int, mark: str = "…") -> str:
    """`text` in at most `width` terminal cells: where it is longer, its middle becomes `mark`.

    Both ends stay, since names of endpoints differ at their end and are told apart by their start.
    """
    if cell_len(text) <= width:
        return text
    room = width - cell_len(mark)
    head = _fitting(text, (room + 1) // 2)
    tail = _fitting(text[::-1], room // 2)[::-1]
    return f"{head}{mark}{tail}"


def _fitting(text: str, width: int) -> str:
    """The longest start of `text` that takes at most `width` cells."""
    used = 0
    for index, char in enumerate(text):
        used += cell_len(char)
        if used > width:
            return text[:index]
    return text


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


def _component_cells(row: ComponentRow) -> list[str | Text]:
    grade_style = {"measured": "", "bounded": "cyan", "estimated": "magenta"}
    return [
        milliseconds(row.mean_ms),
        percent(row.share),
        milliseconds(row.p50_ms),
        milliseconds(row.p95_ms),
        Text(row.grade or MISSING, style=grade_style.get(row.grade or "", "dim")),
    ]
