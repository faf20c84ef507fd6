"""``trilat report`` and ``trilat check``: a finished run once more."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
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


def _contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_check_of_a_run_that_was_cut_off_writes_nothing(copied_run: Path) -> None:
    """The journals are judged in memory."""
    (copied_run / "result.json").unlink()
    (copied_run / "sketches.bin").unlink()
    before = _contents(copied_run)
    assert cli.run(["check", str(copied_run), "--slo", "service.p50<=1ms"]) == EXIT_FAIL
    assert _contents(copied_run) == before


@pytest.mark.parametrize("command", [["report"], ["check", "--slo", "p95<=5s"]])
def test_a_run_that_goes_on_is_refused(
    command: list[str], copied_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own process writes the result; one line says which that is."""
    (copied_run / "result.json").unlink()
    manifest = json.loads((copied_run / "run.json").read_text())
    manifest |= {"ended_wall_ns": None, "measured_s": None, "pid": os.getpid()}
    manifest["started_wall_ns"] = time.time_ns()
    (copied_run / "run.json").write_text(json.dumps(manifest))
    before = _contents(copied_run)
    assert cli.run([*command, str(copied_run)]) == cli.EXIT_USAGE
    error = capsys.readouterr().err
    assert f"still running (process {os.getpid()}); stop it or wait" in error
    assert error.count("\n") == 1
    assert _contents(copied_run) == before


def test_a_damaged_result_is_never_replaced(
    copied_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be of a later release; who knows better removes it."""
    (copied_run / "result.json").write_text('{"schema": "trilat.result/9"}')
    before = _contents(copied_run)
    assert cli.run(["report", str(copied_run)]) == cli.EXIT_USAGE
    assert "remove the file to have it made anew" in capsys.readouterr().err
    assert _contents(copied_run) == before


def test_report_takes_a_file_of_the_run(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``trilat report RUN/result.json`` is the run's report."""
    assert cli.run(["report", str(finished_run / "result.json")]) == 0
    assert capsys.readouterr().out.startswith("PASS")


def test_report_of_a_folder_of_runs_names_the_newest(
    copied_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next command can be copied from the error."""
    assert cli.run(["report", str(copied_run.parent)]) == cli.EXIT_USAGE
    assert str(copied_run) in capsys.readouterr().err


def test_report_writes_through_what_is_no_file(finished_run: Path, tmp_path: Path) -> None:
    """A FIFO and a link stay what they are, and the text arrives at their other end."""
    fifo, link, real = (tmp_path / name for name in ("fifo", "link", "real"))
    os.mkfifo(fifo)
    real.touch()
    link.symlink_to(real)
    command = ["report", str(finished_run), "--force", "-o"]
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(fifo.read_text)
        assert cli.run([*command, str(fifo)]) == 0
        assert received.result(60).startswith("PASS")
    assert cli.run([*command, str(link)]) == 0
    assert (fifo.is_fifo(), link.is_symlink()) == (True, True)
    assert real.read_text().startswith("PASS")


def test_report_writes_to_standard_output_by_its_name(trilat: Any, finished_run: Path) -> None:
    """``-o /dev/stdout`` replaces nothing in /dev."""
    done = trilat("report", finished_run, "--force", "-o", "/dev/stdout")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PASS")
    assert Path("/dev/stdout").is_symlink()


def test_report_refuses_a_socket(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What can neither be written nor should be replaced is refused."""
    with socket.socket(socket.AF_UNIX) as bound:
        target = tmp_path / "socket"
        bound.bind(str(target))
        command = ["report", str(finished_run), "--force", "-o", str(target)]
        assert cli.run(command) == cli.EXIT_USAGE
    assert "not a file" in capsys.readouterr().err
