"""What a run tells of itself beside its result: CSV files, single requests, an event."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ..conftest import Service
from .conftest import Run, RunLocust

USERS = """
class Shopper(FastHttpUser):
    host = "{url}"
    wait_time = constant(0.08)

    @task
    def item(self):
        self.client.get("/item/1", name="/item/[id]")

    @task
    def formula(self):
        self.client.get("/item/2", name='=HYPERLINK("http://elsewhere/")')

@events.trilat_result.add_listener
def _told(result, path, environment, **_):
    with open("{told}", "a") as file:
        print(json.dumps([str(path), result, environment.runner.state]), file=file)
    result.clear()  # it is the listener's own
"""
INTERRUPTED = """
@events.request.add_listener
def _interrupt(**_):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGINT)

left = 150
"""
FORMULA = '\'=HYPERLINK("http://elsewhere/")'


def _rows(path: Path) -> list[dict[str, str]]:
    text = path.read_bytes()
    assert text.count(b"\r\n") == text.count(b"\n")  # as Locust's own
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _assert_the_totals_are_the_result_s(run: Run, path: Path) -> None:
    """Each endpoint's figures in the CSV are those of the result, in Locust's order."""
    result, rows = run.result, _rows(path)
    entries = {entry["name"]: entry for entry in (*result["endpoints"], result["total"])}
    assert [row["Name"] for row in rows] == ["/item/[id]", FORMULA, "Aggregated"]
    for row in rows:
        entry = entries[row["Name"].removeprefix("'")]
        assert row["Type"] == entry["method"]
        counts = (entry["requests"], entry["failures"], entry["matched"])
        assert (
            tuple(int(row[f"{each} Count"]) for each in ("Request", "Failure", "Matched")) == counts
        )
        for column, key in (("Response", "response_time_ms"), ("Service", "service_ms")):
            assert float(row[f"{column} Average"]) == entry[key]["mean"]
            assert float(row[f"{column} 95%"]) == entry[key]["p95"]
        assert float(row["Generator Share 95%"]) == entry["shares"]["p95"]["generator"]
        component = entry["components_ms"]["service.app"]
        assert float(row["service.app Average"]) == component["mean"]
        assert row["service.app Grade"] == component["grade"]


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """Where the locustfile's listener writes what it is told."""
    return tmp_path / "told.jsonl"


def test_an_interrupted_run_tells_of_itself(
    run_locust: RunLocust, example_service: Service, tmp_path: Path, told: Path
) -> None:
    """CSV files with the result's figures, a row of each request, and an event with the result."""
    requests = tmp_path / "requests.parquet"
    run = run_locust(
        USERS.format(url=example_service.url, told=told) + INTERRUPTED,
        *("-u", "5", "-r", "5"),
        *(
            "--csv",
            str(tmp_path / "shop"),
            "--csv-full-history",
            "--trilat-requests",
            str(requests),
        ),
    )
    assert run.code == 0, run.output
    _assert_the_totals_are_the_result_s(run, tmp_path / "shop_attribution.csv")
    history = _rows(tmp_path / "shop_attribution_history.csv")
    total = [row for row in history if row["Name"] == "Aggregated"]
    assert len({row["Timestamp"] for row in total}) >= 2
    counts = [int(row["Total Request Count"]) for row in total]
    assert counts == sorted(counts)
    assert counts[-1] == len(run.seen)
    endpoints = history[-3:]
    assert [row["Name"] for row in endpoints] == ["/item/[id]", FORMULA, "Aggregated"]
    assert float(total[-1]["Service Average"]) > 19
    (line,) = told.read_text().splitlines()
    path, result, _ = json.loads(line)
    assert path == str(run.directory)
    assert result == run.result
    found: Any = duckdb.execute(f"SELECT response_ns / 1e6, name FROM '{requests}'").fetchall()
    seen = [(ms, name) for _, name, ms, _ in run.seen]
    assert sorted((round(ms, 6), name) for ms, name in found) == sorted(
        (round(ms, 6), name) for ms, name in seen
    )
