"""``trilat doctor``: each thing is really tried, and what is missing is named with its cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trilat.agent.errors import InputError
from trilat.agent.records import UNKNOWN
from trilat.correlator import cli
from trilat.correlator.commands import machine
from trilat.correlator.commands.finding import Finding
from trilat.correlator.commands.service import examine_service

INNER = """
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from trilat.middleware import TrilatMiddleware

app = FastAPI()
app.add_middleware(TrilatMiddleware, token="known")
app.add_middleware(CORSMiddleware, allow_origins=["*"])


@app.get("/")
async def root() -> str:
    return "hello"
"""

BARE = """
from fastapi import FastAPI

app = FastAPI()
"""


def _outcomes(findings: list[Finding]) -> dict[str, str]:
    return {finding.id: finding.outcome for finding in findings}


def test_this_machine_is_examined_and_the_code_says_whether_all_is_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """JSON for programs: the code is 0 exactly when nothing is missing."""
    code = cli.run(["doctor", "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    missing = [each for each in report["findings"] if each["outcome"] == "missing"]
    assert report["full_grade"] is (code == 0) is (not missing)
    assert all(each["cost"] and each["remedy"] for each in missing)
    assert {each["id"] for each in report["findings"]} == {
        *("locust", "receive-stamps", "tcp-info", "uvicorn", "processors"),
    }


def test_a_service_with_the_middleware_outermost_is_well(example_service: Any) -> None:
    """Stamps on every answer, those that no endpoint makes included."""
    findings = examine_service(f"{example_service.url}/item/1", None)
    assert _outcomes(findings) == {
        "stamps": "ok",
        "queue": "ok",
        "host": "note",
        "outermost": "ok",
    }


def test_the_lines_for_a_person_end_in_a_sentence(
    example_service: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each finding with what was seen; notes with what they cost."""
    cli.run(["doctor", "--url", f"{example_service.url}/item/1"])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("ok      stamps") for line in lines)
    assert lines[-1].endswith(".")


def test_a_middleware_outside_is_found(start_service: Any, tmp_path: Path) -> None:
    """A CORS middleware outside answers preflights without a stamp."""
    app = tmp_path / "inner.py"
    app.write_text(INNER)
    with start_service(app) as service:
        findings = examine_service(service.url, "known")
        refused = examine_service(service.url, "another")
    assert _outcomes(findings)["outermost"] == "missing"
    assert "CORS preflight" in findings[-1].evidence
    assert _outcomes(refused) == {"stamps": "missing"}
    assert "the token is another" in refused[0].remedy


def test_a_service_without_the_middleware_and_one_that_is_not_there(
    start_service: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are a missing line with a remedy and code 1, not an error."""
    app = tmp_path / "bare.py"
    app.write_text(BARE)
    with start_service(app) as service:
        (finding,) = examine_service(service.url, None)
        url = service.url
    assert (finding.id, finding.outcome) == ("stamps", "missing")
    assert "add TrilatMiddleware" in finding.remedy
    assert cli.run(["doctor", "--url", url]) == 1
    assert "no answer" in capsys.readouterr().out


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x/", "http://", "http://h:port/"])
def test_what_is_no_url_is_wrong_usage(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Code 2 and a line that says how one looks."""
    assert cli.run(["doctor", "--url", url]) == cli.EXIT_USAGE
    assert "not a URL" in capsys.readouterr().err


def test_a_machine_without_any_of_it_is_told_what_that_costs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No Locust, no kernel stamps, no TCP_INFO, a server that hides its sockets, one processor."""
    monkeypatch.setattr(machine, "HAS_KERNEL_STAMPS", False)
    monkeypatch.setattr(machine, "_installed", lambda name: None if name == "locust" else "1.0")
    monkeypatch.setattr(machine, "last_data_received_ms", _raise_os_error)
    monkeypatch.setattr(machine, "_queue_told_by_uvicorn", lambda: UNKNOWN)
    monkeypatch.setattr(machine, "_processor_count", lambda: 1)
    findings = machine.examine()
    assert _outcomes(findings) == {
        "locust": "missing",
        "receive-stamps": "missing",
        "tcp-info": "missing",
        "uvicorn": "missing",
        "processors": "note",
    }
    assert all(finding.cost and finding.remedy for finding in findings)


def test_a_uvicorn_that_does_not_answer_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own error is the evidence."""

    def fail() -> int:
        raise InputError("no answer: timed out")

    monkeypatch.setattr(machine, "_queue_told_by_uvicorn", fail)
    findings = {finding.id: finding for finding in machine.examine()}
    assert findings["uvicorn"].outcome == "missing"
    assert "timed out" in findings["uvicorn"].evidence


def _raise_os_error(_sock: object) -> int:
    raise OSError(95, "Operation not supported")
