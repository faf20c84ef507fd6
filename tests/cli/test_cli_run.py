"""``trilat run``: real runs of Locust against a real service, from the start to the report."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from trilat.correlator.run.manifest import REBUILT_NOTE
from trilat.correlator.validate import check, result_schema

ROOT = Path(__file__).parents[2]
THINKING = ROOT / "examples/fastapi/locustfile_think_time.py"
TOKEN = "a-token-that-nobody-may-see"

TOKEN_SERVICE = f"""
from fastapi import FastAPI
from trilat.middleware import TrilatMiddleware

app = FastAPI()
app.add_middleware(TrilatMiddleware, token={TOKEN!r})


@app.get("/item/{{item_id}}")
async def item(item_id: int) -> dict[str, int]:
    return {{"id": item_id}}
"""


RAISING = """
from locust import HttpUser, constant, task


class Raising(HttpUser):
    wait_time = constant(0.2)

    @task
    def ask(self):
        self.client.get("/item/1", name="/item/[id]")
        raise ValueError("a mistake in the locustfile")
"""


def test_a_run_ends_with_its_report_and_its_verdict_as_exit_code(
    trilat: Any, load: Any, example_service: Any, tmp_path: Path
) -> None:
    """The report on standard output, all files in the directory, Locust's words in its log."""
    out = tmp_path / "run"
    command = ["run", "-f", THINKING, "--trilat-out", out, "--trilat-slo", "p95<=5s"]
    done = trilat(*command, "--", *load(example_service.url))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PASS")
    assert "GET /item/[id]" in done.stdout
    assert str(out / "result.json") in done.stdout
    assert str(out / "report.html") in done.stdout
    assert "Traceback" not in done.stderr
    assert "Shutting down" in (out / "locust.log").read_text()


def test_json_is_the_result_and_nothing_else(
    trilat: Any, load: Any, example_service: Any, tmp_path: Path
) -> None:
    """A program can read standard output as it is; a missed objective of the service is code 1."""
    done = trilat(
        *("run", "-f", THINKING, "--slo", "service.p50<=1ms", "--format", "json", "--"),
        *load(example_service.url),
        cwd=tmp_path,
    )
    assert done.returncode == 1
    result = json.loads(done.stdout)
    schema = result_schema()
    check(result, schema, schema, "stdout")
    assert result["verdict"]["cause"] == "service"
    (directory,) = (tmp_path / "trilat-runs").iterdir()
    assert directory.name.endswith(result["run"]["run_id"])
    assert result == json.loads((directory / "result.json").read_text())


def test_the_token_works_and_is_written_nowhere(
    trilat: Any, load: Any, start_service: Any, tmp_path: Path
) -> None:
    """From the environment to the requests, and into no file of the run directory."""
    app = tmp_path / "service.py"
    app.write_text(TOKEN_SERVICE)
    out = tmp_path / "run"
    with start_service(app) as service:
        done = trilat(
            *("run", "-f", THINKING, "--out", out, "--", *load(service.url)), TRILAT_TOKEN=TOKEN
        )
    result = json.loads((out / "result.json").read_text())
    assert result["total"]["matched"] == result["total"]["requests"] > 0
    assert TOKEN not in done.stdout + done.stderr
    for path in out.rglob("*"):
        assert path.is_dir() or TOKEN.encode() not in path.read_bytes(), path


def test_a_task_that_raises_is_told_by_the_exit_code(
    trilat: Any, load: Any, example_service: Any, tmp_path: Path
) -> None:
    """The verdict is about latency; a locustfile that is broken must not pass in CI."""
    (tmp_path / "locustfile.py").write_text(RAISING)
    done = trilat("run", "--slo", "p95<=5s", "--", *load(example_service.url), cwd=tmp_path)
    assert done.stdout.startswith("PASS"), done.stdout + done.stderr
    assert done.returncode == 1
    assert "trilat: Locust ended with code 1, and so does this run" in done.stderr.splitlines()


def test_a_reader_that_leaves_does_not_end_the_run(
    trilat_command: list[str], load: Any, example_service: Any, tmp_path: Path
) -> None:
    """``trilat run … 2>&1 | head -c 20``: the run ends in its time, with its result."""
    out = tmp_path / "run"
    command = [*trilat_command, "run", "-f", str(THINKING), "--out", str(out), "--"]
    with subprocess.Popen(
        [*command, *load(example_service.url, 4)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 141
    result = json.loads((out / "result.json").read_text())
    assert result["run"]["measured_s"] > 3
    assert REBUILT_NOTE not in result["run"]["notes"]
