"""``trilat journal``: records of journals, for people and for other tools."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from trilat.agent.journal import JournalWriter
from trilat.agent.layout import SERVED, Kind, ServedFlag
from trilat.agent.segment import journal_files
from trilat.agent.stamp import EMPTY
from trilat.correlator import cli

EPOCH_NS = 1_700_000_000_000_000_000
RUN = "0123456789ab"


@pytest.fixture
def journals(tmp_path: Path) -> Path:
    """Journals of a service: 300 requests in three files, each tenth of a run, one failed."""
    folder = tmp_path / "journals"
    folder.mkdir()
    writer = JournalWriter(
        folder, "service-a", {"pid": 7}, layout=SERVED, segment_bytes=4096 + 110 * SERVED.size
    )
    names = [writer.name_id(f"GET\t/items/{{id}}/{part}") for part in ("a", "[bold]\x1b[31m")]
    for number in range(300):
        run = int(RUN, 16) if number % 10 == 0 else 0
        failed = number == 150
        writer.append(
            *(Kind.SERVED, ServedFlag.RAISED if failed else 0, names[number % 2]),
            *(0, number, number, run, EPOCH_NS + number * 10**6, number),
            *(-1 if failed else 1_500_000, 2_000_000, 0, 0, 0, 0, 10, -1, 1),
            *(500 if failed else 200, 0),
        )
    writer.close()
    return folder


@pytest.fixture
def both(journals: Path) -> Path:
    """The same folder with one request of a generator."""
    writer = JournalWriter(journals, "generator-1", {"run": RUN})
    values = (*[0] * 3, EPOCH_NS, *[5_000_000] * 12, 0)
    writer.append(Kind.EXCHANGE, 1, writer.name_id("POST\t/orders"), *values, EMPTY, 503, 1)
    writer.close()
    return journals


def _run(*arguments: str | Path) -> int:
    return cli.run(["journal", *map(str, arguments)])


def test_show_prints_the_newest(journals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty lines unless told otherwise, the newest last, over all files."""
    assert _run("show", journals) == 0
    first, headings, *rows = capsys.readouterr().out.splitlines()
    assert first == "service: 300 records in 3 files; the newest 20"
    assert headings.split()[:2] == ["called", "(UTC)"]
    assert len(rows) == 20
    assert rows[-1].startswith("2023-11-14 22:13:20.299  GET")
    assert rows[-2].split()[3:] == ["/items/{id}/a", "200", "1.50", "2.00", "0", "-", f"{298:032x}"]


def test_names_from_outside_stay_text(journals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a terminal's escapes nor rich's markup does anything."""
    assert _run("show", journals) == 0
    out = capsys.readouterr().out
    assert "[bold]\\x1b[31m" in out
    assert "\x1b" not in out


def test_show_chooses(journals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By run, by failure; from the other end; fewer of them."""
    assert _run("show", journals, "--failed") == 0
    first, _, row = capsys.readouterr().out.splitlines()
    assert first == "service: 300 records in 3 files, 1 of them chosen; the newest 1"
    assert row.split()[4:] == ["500", "-", "2.00", "0", "-", f"{150:032x}", "raised"]
    assert _run("show", journals, "--run", RUN, "--limit", "2", "--oldest") == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split()[1] for row in rows] == ["22:13:20.000", "22:13:20.010"]
    assert _run("show", journals, "--run", RUN, "--failed", "--run", "0" * 12) == 0
    assert (
        capsys.readouterr().out
        == "service: 300 records in 3 files, 0 of them chosen; none to show\n"
    )


def test_show_as_json_gives_all_that_is_known(
    both: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both sides at once, each with its own fields."""
    assert _run("show", both, "--format", "json", "--limit", "1") == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert shown["schema"] == "trilat.records/1"
    assert (shown["service"]["records"], shown["service"]["files"]) == (300, 3)
    (row,) = shown["service"]["rows"]
    assert (row["name"], row["app_ns"], row["pid"]) == ("/items/{id}/[bold]\x1b[31m", 1_500_000, 7)
    (row,) = shown["generator"]["rows"]
    assert (row["method"], row["failed"], row["run"], row["service_app_ns"]) == (
        *("POST", True, RUN),
        None,
    )


def test_both_sides_have_a_table_each(both: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Or one of them, with --side."""
    assert _run("show", both) == 0
    out = capsys.readouterr().out
    assert "generator: 1 record in 1 file; the newest 1\n" in out
    assert "service: 300 records" in out
    assert _run("show", both, "--side", "generator") == 0
    assert "service:" not in capsys.readouterr().out


def test_a_run_s_directory_can_be_shown(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every request of a real run is there, with the service's part of it."""
    assert _run("show", finished_run, "--format", "json", "--side", "generator") == 0
    shown = json.loads(capsys.readouterr().out)["generator"]
    result = json.loads((finished_run / "result.json").read_text())
    assert shown["records"] == result["total"]["requests"]
    assert all(row["run"] == result["run"]["run_id"] for row in shown["rows"])
    assert any(row["service_app_ns"] is not None for row in shown["rows"])


@pytest.mark.parametrize("name", ["out.csv", "out.JSONL", "out.ndjson", "out.parquet"])
def test_export_goes_by_the_name_s_ending(
    name: str, journals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And says how many records it wrote."""
    out = tmp_path / name
    assert _run("export", journals, "-o", out) == 0
    done = capsys.readouterr()
    assert (done.out, done.err) == (f"{out}: 300 records\n", "")
    starts = {"csv": b"called_wall_ns,", "parquet": b"PAR1"}
    assert out.read_bytes().startswith(starts.get(out.suffix[1:].lower(), b'{"called_wall_ns":'))


def test_export_chooses_and_replaces_only_when_told(
    both: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A format by name, one side, one run; a file that is there stays until --force."""
    out = tmp_path / "out"
    command: list[str | Path] = [
        "export",
        both,
        "-o",
        out,
        "--format",
        "csv",
        "--side",
        "service",
        "--run",
        RUN,
    ]
    assert _run(*command) == 0
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    assert {row["run"] for row in rows} == {RUN}
    out.write_text("mine")
    assert _run(*command) == cli.EXIT_USAGE
    assert out.read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert _run(*command, "--force") == 0
    assert out.read_text() != "mine"


def _fails(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line that wrong usage or input ends with."""
    assert _run(*arguments) == cli.EXIT_USAGE
    done = capsys.readouterr()
    assert done.out == ""
    assert done.err.startswith("trilat: error: ")
    assert done.err.count("\n") == 1
    return done.err


def test_wrong_usage_is_one_line(
    both: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What, where, and what to do."""
    out = tmp_path / "out.csv"
    assert "--side" in _fails(capsys, "export", both, "-o", out)
    assert "--format" in _fails(capsys, "export", both, "-o", tmp_path / "out")
    assert "12 hexadecimal" in _fails(capsys, "show", both, "--run", "last")
    assert "no such file" in _fails(capsys, "show", tmp_path / "absent")
    assert "no journal in it" in _fails(
        capsys, "show", tmp_path / "journals" / "..", tmp_path.parent
    )
    assert "not a file" in _fails(capsys, "export", both, "-o", "/dev/null", "--format", "csv")
    journal = journal_files(both)[0]
    command = ("export", journal, "-o", journal, "--format", "csv", "--force")
    assert "one of the journals" in _fails(capsys, *command)
    assert not out.exists()


@pytest.mark.parametrize("damage", ["empty", "text", "header", "fifo"])
def test_damaged_journal_is_one_line(
    damage: str, journals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is named; nothing is written."""
    path = journals / "service-b-000001.trilat"
    if damage == "fifo":
        os.mkfifo(path)
    else:
        path.write_bytes({"empty": b"", "text": b"hello", "header": b"TRILAT-JOURNAL 1\n{"}[damage])
    target = path if damage == "empty" else journals  # in a folder, an empty one is passed over
    out = tmp_path / "out.csv"
    for command in (("show", target), ("export", target, "-o", out)):
        assert str(path) in _fails(capsys, *command)
    assert not out.exists()


def test_journal_alone_shows_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """As a bare ``trilat`` does."""
    assert _run() == cli.EXIT_USAGE
    out = capsys.readouterr().out
    assert "export" in out
    assert "show" in out
