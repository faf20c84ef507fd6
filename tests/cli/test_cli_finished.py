"""``trilat report`` and ``trilat check``: a finished run once more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from trilat.correlator import cli

EXIT_FAIL = 1


@pytest.fixture
def copied_run(finished_run: Path, tmp_path: Path) -> Path:
    """A run directory elsewhere, to be changed at will."""
    copy = tmp_path / "copied run"
    shutil.copytree(finished_run, copy)
    return copy


def test_report_shows_what_run_showed(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The terminal report, and exit code 0 whatever the verdict: the question was another."""
    assert cli.run(["report", str(finished_run)]) == 0
    assert capsys.readouterr().out.startswith("PASS")


def test_report_as_json_is_the_result(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte for byte what the directory holds, as JSON."""
    assert cli.run(["report", str(finished_run), "--format", "json"]) == 0
    result = json.loads((finished_run / "result.json").read_text())
    assert json.loads(capsys.readouterr().out) == result


def test_report_writes_the_page_anew(copied_run: Path) -> None:
    """The page of a copied directory, made from its result."""
    page = copied_run / "report.html"
    before = page.read_text()
    page.unlink()
    assert cli.run(["report", str(copied_run), "--format", "html"]) == 0
    assert page.read_text() == before


@pytest.mark.parametrize(
    ("output", "start"), [("text", "PASS"), ("json", "{"), ("html", "<!doctype html>")]
)
def test_report_replaces_no_file_unless_told(
    output: str,
    start: str,
    finished_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A file that is there stays, until --force."""
    target = tmp_path / "out"
    command = ["report", str(finished_run), "--format", output, "-o", str(target)]
    assert cli.run(command) == 0
    assert target.read_text().lower().startswith(start.lower())
    target.write_text("mine")
    assert cli.run(command) == cli.EXIT_USAGE
    assert "--force" in capsys.readouterr().err
    assert target.read_text() == "mine"
    assert cli.run([*command, "--force"]) == 0
    assert target.read_text() != "mine"


def test_a_report_of_a_run_that_was_cut_off_is_made_from_its_journals(
    copied_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same requests, without the result and the sketches."""
    before = json.loads((copied_run / "result.json").read_text())
    (copied_run / "result.json").unlink()
    (copied_run / "sketches.bin").unlink()
    assert cli.run(["report", str(copied_run), "--format", "json"]) == 0
    rebuilt = json.loads(capsys.readouterr().out)
    assert rebuilt["total"]["requests"] == before["total"]["requests"]
    assert rebuilt["total"]["response_time_ms"] == before["total"]["response_time_ms"]


@pytest.mark.parametrize("name", ["result.json", "run.json"])
def test_a_damaged_file_is_named(
    name: str, copied_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unreadable input is code 2 and one line with the file's name."""
    (copied_run / name).write_text("{")
    command = ["report"] if name == "result.json" else ["check", "--slo", "p95<=1s"]
    assert cli.run([*command, str(copied_run)]) == cli.EXIT_USAGE
    text = capsys.readouterr().err
    assert name in text
    assert text.count("\n") == 1


def test_check_judges_again_and_changes_nothing(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other objectives, the same figures, the verdict's code; the directory stays as it was."""
    before = {path: path.read_bytes() for path in finished_run.rglob("*") if path.is_file()}
    assert cli.run(["check", str(finished_run), "--slo", "p95<=5s", "--slo", "fail_ratio<=1%"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("PASS")
    assert "fail_ratio<=1%" in text
    assert cli.run(["check", str(finished_run), "--slo", "service.p50<=1ms"]) == EXIT_FAIL
    assert capsys.readouterr().out.startswith("FAIL (service)")
    after = {path: path.read_bytes() for path in finished_run.rglob("*") if path.is_file()}
    assert after == before


def test_check_as_json_holds_verdict_and_objectives(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For programs: what was asked and what came out."""
    command = ["check", str(finished_run), "--slo", "service.p50 <= 1ms", "--format", "json"]
    assert cli.run(command) == EXIT_FAIL
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "trilat.check/1"
    assert answer["verdict"]["exit_code"] == EXIT_FAIL
    assert [each["text"] for each in answer["objectives"]] == ["service.p50<=1ms"]


def test_check_refuses_an_objective_it_cannot_read(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that teaches."""
    assert cli.run(["check", str(finished_run), "--slo", "p95<=fast"]) == cli.EXIT_USAGE
    assert "p95" in capsys.readouterr().err
