"""The report as a terminal shows it."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from trilat.correlator.report.bars import bar
from trilat.correlator.report.columns import cut_middle
from trilat.correlator.report.console import widened
from trilat.correlator.report.rows import Shares
from trilat.correlator.report.terminal import render

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def printed(
    result: dict[str, Any], width: int, encoding: str = "utf-8", *, terminal: bool = False
) -> str:
    """What `render` writes to a stream of this width and encoding."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    colours: Literal["standard"] | None = "standard" if terminal else None
    console = Console(file=stream, width=width, force_terminal=terminal, color_system=colours)
    render(result, console)
    stream.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [80, 110, 120, 200])
def test_nothing_is_wider_than_the_terminal(result: dict[str, Any], width: int) -> None:
    """Tables fit the width, and a row of a table is one line."""
    result["endpoints"][0]["name"] = "/a/very/long/name" * 20
    lines = COLOUR.sub("", printed(result, width, terminal=True)).splitlines()
    assert max(cell_len(line) for line in lines) <= width
    assert len([line for line in lines if line.startswith(("GET ", "POST ", "All "))]) == 4


def test_the_verdict_comes_first(result: dict[str, Any]) -> None:
    """The first line is the verdict; what to do stands right after the reasons."""
    lines = printed(result, 120).splitlines()
    assert lines[0].startswith("INVALID (generator): p95 was ")
    assert lines[0].endswith("the objective would hold with a faster generator.")
    assert lines[3].strip() == (
        "> To do: Use FastHttpUser, or spread the users over processes with --processes -1."
    )


def test_the_bar_reads_without_colour(result: dict[str, Any]) -> None:
    """Without a terminal there is no colour, and the sides differ by shape."""
    text = printed(result, 80)
    assert "\x1b" not in text
    total = next(line for line in text.splitlines() if line.startswith("All endpoints"))
    assert re.search(r" 55\.7 +\d.* █{8}▒{8}$", total.rstrip())


def test_a_terminal_gets_colour(result: dict[str, Any]) -> None:
    """On a terminal the outcome is coloured and the text is the same."""
    coloured = printed(result, 80, terminal=True)
    assert coloured.startswith("\x1b[1;33mINVALID (generator)\x1b[0m: ")
    plain = [line.rstrip() for line in COLOUR.sub("", coloured).splitlines()]
    # Without a terminal the verdict is one line; here it takes two.
    assert [" ".join(plain[:2]), *plain[2:]] == printed(result, 80).splitlines()


@pytest.mark.parametrize("width", [40, 50, 60, 69])
def test_a_narrow_terminal_has_fewer_columns(result: dict[str, Any], width: int) -> None:
    """Figures are never cut: a column that does not fit goes as a whole."""
    result["endpoints"][0]["name"] = "/a/very/long/name" * 20
    wide = printed(result, 200)
    lines = COLOUR.sub("", printed(result, width, terminal=True)).splitlines()
    assert max(cell_len(line) for line in lines) <= width
    rows = [line for line in lines if line.startswith(("GET ", "POST ", "All "))]
    assert len(rows) == 4
    for row in [*rows, *(line for line in lines if re.match(r"[a-z]+\.[a-z]+ ", line))]:
        figures = re.findall(r"(?<= )[\d,.]+(?= |$)", row)
        assert figures
        assert all(f" {figure}" in wide for figure in figures)


def test_a_file_gets_wide_lines_without_blanks(
    result: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Into a pipe the first line is the whole verdict, and no line ends with blanks."""
    monkeypatch.delenv("COLUMNS", raising=False)
    render(result, widened(Console()))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("the objective would hold with a faster generator.")
    assert max(len(line) for line in lines[1:]) > 80
    assert [line for line in lines if line != line.rstrip()] == []
    monkeypatch.setenv("COLUMNS", "90")
    assert widened(Console()).width == 90


def test_notes_are_printed(result: dict[str, Any]) -> None:
    """How the load was made and what became of the run stand below the verdict."""
    result["verdict"]["notes"] = ["100 users, no rate."]
    result["run"]["notes"] = ["rebuilt from its journals"]
    text = printed(result, 120)
    assert "* Note: 100 users, no rate.\n" in text
    assert "* Note: rebuilt from its journals\n" in text


def test_skipped_checks_are_not_counted_as_failed(result: dict[str, Any]) -> None:
    """What had nothing to look at stands apart from what passed."""
    assert "2 of 6 checks passed, 1 skipped\n" in printed(result, 120)


def test_the_table_of_components_adds_up(result: dict[str, Any]) -> None:
    """Where evidence is missing, its share is a row, and a line says what the means are of."""
    total = result["total"]
    total["matched"] = total["requests"] // 2
    total["unattributed_share"] = 0.4
    lines = printed(result, 120).splitlines()
    row = next(line for line in lines if line.startswith("unattributed"))
    assert "40 %" in row
    assert any("of the 45,595 of 91,190 requests with evidence" in line for line in lines)
    total |= {"matched": total["requests"], "unattributed_share": 0.0}
    text = printed(result, 120)
    assert not re.search("^unattributed", text, re.MULTILINE)
    assert "with evidence" not in text


def test_no_color_is_honoured(result: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR set a terminal gets no colour."""
    monkeypatch.setenv("NO_COLOR", "1")
    codes = set(COLOUR.findall(printed(result, 80, terminal=True)))
    assert not any(re.search(r"\[(?:\d;)*(?:3\d|9\d|4\d)", code) for code in codes)


def test_ascii_terminals_are_served(result: dict[str, Any]) -> None:
    """Where the encoding has no block glyphs, letters take their place and names are escaped."""
    result["endpoints"][0]["name"] = "/größe/…"
    text = printed(result, 80, encoding="ascii")
    assert "GET /gr\\xf6\\xdfe/..." in text
    assert "SSSSSSSSgggggggg" in text


def test_hostile_names_are_only_text(result: dict[str, Any]) -> None:
    """Escapes, markup and line breaks in a name reach the terminal as visible text."""
    result["endpoints"][0]["name"] = "/\x1b[31m\n[red]x[/red]\x9b2J:smile:"
    result["verdict"]["reasons"] = ["[bold]no markup[/bold] \x1b]0;title\x07"]
    text = printed(result, 160)
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "GET /\\x1b[31m\\x0a[red]x[/red]\\x9b2J:smile:" in text
    assert "[bold]no markup[/bold] \\x1b]0;title\\x07" in text


def test_paths_stay_in_one_piece(result: dict[str, Any]) -> None:
    """A path longer than the line is not broken, so that it can be copied."""
    stream = io.StringIO()
    path = Path("runs") / ("x" * 100) / "report.html"
    render(result, Console(file=stream, width=80), report_path=path)
    assert f"{path}\n" in stream.getvalue()


def test_an_empty_result_is_shown_as_unknown() -> None:
    """A result without figures prints dashes and no claim."""
    text = printed({}, 80)
    assert text.startswith("UNKNOWN: The result holds no verdict.")
    assert re.search(r"^All endpoints +0 +0 +- ", text, re.MULTILINE)


@given(
    st.lists(st.floats(min_value=0, max_value=1), min_size=4, max_size=4).filter(any),
    st.integers(min_value=1, max_value=60),
)
def test_bars_are_full_and_true(values: list[float], width: int) -> None:
    """The cells of a bar add up to its width, and each side is within one cell of its share."""
    shares = Shares(*(value / sum(values) for value in values))
    cells = bar(shares, width)
    assert sum(count for _, count in cells) == width
    for (_, count), (_, share) in zip(cells, shares.parts(), strict=True):
        assert abs(count - share * width) <= 1


@given(st.text(max_size=60), st.integers(min_value=3, max_value=40))
def test_cut_names_fit(text: str, width: int) -> None:
    """A cut name takes at most its width in cells and keeps what fits of both ends."""
    cut = cut_middle(text, width)
    assert cell_len(cut) <= width
    if cell_len(text) <= width:
        assert cut == text
    else:
        head, _, tail = cut.partition("…")
        assert text.startswith(head)
        assert text.endswith(tail) or "…" in text
