"""The documentation cannot lie: every command that it shows is run.

Each line of a ``sh`` block, and each ``run`` step of a workflow in a ``yaml`` block, is one of two
things. A `trilat`, `locust` or `curl` command, and a step of several lines, is executed here as it
stands, after its file, address, directory and duration were put in place. Anything else stands in
`ELSEWHERE` with the file that executes it, and that file is looked at.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .pages import ROOT, blocks
from .servers import free_port, own_ports

EXAMPLE = ROOT / "examples/fastapi/locustfile_think_time.py"

INSTALLED = ("tests/test_packaging.py", '"--no-build-isolation"')
ELSEWHERE = {
    # line: (the file that executes it, what stands there)
    "scripts/setup": (".ci/run", "scripts/setup"),
    "scripts/check": (".ci/run", "scripts/check"),
    "scripts/test": (".ci/run", "scripts/test"),
    "scripts/test tests/cli -k doctor": (".ci/run", "scripts/test"),
    "scripts/demo": ("tests/test_packaging.py", '"scripts/demo"'),
    "scripts/docs": ("tests/test_docs.py", "cli_help.py"),
    "scripts/lock": ("tests/test_packaging.py", "requirements.lock"),
    "scripts/vendor": ("scripts/vendor", "npm ci"),
    "pip install ./trilat": (".ci/wheel", 'pip install "$work"/dist/trilat-*.whl'),
    "pip install './trilat[locust]'": INSTALLED,
    "pip install './trilat[locust]' -r requirements.txt": INSTALLED,
    "pip install '../..[demo]'": INSTALLED,
    "scp 'worker-host:trilat-runs/worker-*/journals/*' RUN/journals/": (
        "tests/locust/distributed/test_distributed_hosts.py",
        "shutil.copy(journal, fleet.run.journals)",
    ),
    "uvicorn service:app --no-access-log": ("tests/conftest.py", '"-m", "uvicorn"'),
    "uvicorn service:app --port 8000 --no-access-log &": ("tests/conftest.py", '"-m", "uvicorn"'),
}
JUDGED = {0, 1, 3, 4, 5}
COLLECTED = "(address of a service that is collected from)"
COMMAND = "from trilat.correlator.cli import main; main()"
TOKEN = "of-a-test"
A_COLLECTED_SERVICE = """
import os

from fastapi import FastAPI

from trilat.middleware import CollectApp, TrilatMiddleware

app = FastAPI()
app.mount("/trilat", CollectApp(token=os.environ["TRILAT_COLLECT_TOKEN"]))
app.add_middleware(TrilatMiddleware, journal=os.environ["A_JOURNAL"])
"""


def _lines() -> list[str]:
    """Every command line that the pages show, each once."""
    lines: dict[str, None] = {}
    for _, block in blocks("sh"):
        joined = block.replace("\\\n", " ")
        lines |= dict.fromkeys(
            line.strip() for line in joined.splitlines() if line.strip() and line[0] != "#"
        )
    for _, block in blocks("yaml"):
        lines |= dict.fromkeys(re.findall(r"^ *- run: ([^|\n].*)$", block, re.MULTILINE))
    return list(lines)


def _steps() -> list[str]:
    """Every step of several lines that the workflows show."""
    step = re.compile(r"^( *)- run: \|\n((?:\1    .*\n)+)", re.MULTILINE)
    return [textwrap.dedent(text) for _, block in blocks("yaml") for _, text in step.findall(block)]


def _is_run_here(line: str) -> bool:
    return shlex.split(line)[0] in ("trilat", "locust", "curl")


def _has_a_shape(line: str) -> bool:
    return "examples/loads/" in line and "student.py" not in line


def _is_one_of_a_pair(line: str) -> bool:
    return not {"--master", "--worker"}.isdisjoint(shlex.split(line))


@pytest.fixture(scope="module")
def finished_run(example_service: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that stands for RUN."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    words = ["trilat", "run", "-f", str(EXAMPLE), "--out", str(out), "--", "--headless"]
    words += ["--host", example_service.url, "--users", "5", "--spawn-rate", "5"]
    words += ["--run-time", "2s"]
    _run(words, out.parent)
    return out


@pytest.fixture(scope="module")
def collected_url(start_service: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a service gives its files."""
    folder = tmp_path_factory.mktemp("collected")
    (folder / "collected_service.py").write_text(A_COLLECTED_SERVICE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRILAT_COLLECT_TOKEN", TOKEN)
        patch.setenv("A_JOURNAL", str(folder / "journal"))
        patch.setenv("NO_PROXY", "127.0.0.1")
        with start_service(folder / "collected_service.py") as service:
            yield f"{service.url}/trilat"


def test_the_pages_show_commands() -> None:
    """The extraction finds what is there."""
    assert any(line.startswith("trilat run") for line in _lines())
    assert "scripts/demo" in _lines()
    assert any("trilat run" in step for step in _steps())


def test_whoever_asks_for_users_says_how_fast_they_start() -> None:
    """By default Locust starts one user a second: a run would end before its load is there.

    A load shape says it by itself.
    """
    for line in (*_lines(), *"".join(_steps()).splitlines()):
        if ("--users" in line or " -u " in line) and not _has_a_shape(line):
            assert "--spawn-rate" in line, line


def test_every_other_line_is_run_elsewhere_and_none_is_listed_in_vain() -> None:
    """The list holds exactly the lines that are not executed here."""
    assert {line for line in _lines() if not _is_run_here(line)} == set(ELSEWHERE)


@pytest.mark.parametrize(("file", "part"), sorted(set(ELSEWHERE.values())))
def test_the_file_that_runs_a_line_does_so(file: str, part: str) -> None:
    """What the list claims is there."""
    assert part in (ROOT / file).read_text()


def _values(url: str, out: Path) -> dict[str, str]:
    return {
        "-f": str(EXAMPLE),
        "--host": url,
        "--url": f"{url}/item/1",
        "--users": "5",
        "--spawn-rate": "5",
        "--run-time": "2s",
        "-o": str(out / "file"),
        "--out": str(out / "run"),
    }


def _put_in_place(words: list[str], url: str, run: Path, out: Path) -> list[str]:
    """The same command with a real file, address and directory, and a short duration."""
    values = _values(url, out)
    placed: list[str] = []
    for word in words:
        known = values.get(placed[-1]) if placed else None
        if word == "RUN":
            placed.append(str(run))
        elif word.startswith("examples/"):
            placed.append(str(ROOT / word))
        elif words[:2] == ["trilat", "collect"] and "://" in word:
            placed.append(COLLECTED)
        elif words[0] == "curl" and "://" in word:
            placed.append(url)
        else:
            placed.append(word if known is None else known)
    return placed


def _lines_that_differ() -> list[str]:
    """The lines that are run here, without those that would be the same with all put in place."""
    lines: dict[tuple[str, ...], str] = {}
    for line in _lines():
        if _is_run_here(line) and not _is_one_of_a_pair(line):
            placed = _put_in_place(shlex.split(line), "URL", Path("RUN"), Path("OUT"))
            lines.setdefault(tuple(placed), line)
    return list(lines.values())


@pytest.mark.parametrize("line", _lines_that_differ())
def test_a_command_in_the_pages_works(
    line: str,
    example_service: Any,
    finished_run: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """It is taken as right usage, and ends with a code that the pages tell of."""
    words = _put_in_place(shlex.split(line), example_service.url, finished_run, tmp_path)
    if COLLECTED in words:
        url = request.getfixturevalue("collected_url")
        words = [url if word == COLLECTED else word for word in words]
    _run([*words, *own_ports(words)], tmp_path)


def _bash(step: str, trilat: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a step as a workflow does, with this text as the ``trilat`` command."""
    command = directory / "bin/trilat"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\n{trilat}\n")
    command.chmod(0o755)
    return subprocess.run(
        ["bash", "-e", "-c", step],
        cwd=directory,
        env={**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("step", _steps())
def test_a_step_of_several_lines_works(step: str, example_service: Any, tmp_path: Path) -> None:
    """It runs a load test, and ends with its exit code."""
    for option, value in _values(example_service.url, tmp_path).items():
        step = re.sub(rf"(?<= {option} )\S+", value, step)
    done = _bash(step, f"exec '{sys.executable}' -c '{COMMAND}' \"$@\"", tmp_path)
    assert done.returncode in JUDGED, done.stdout + done.stderr
    assert (tmp_path / "run/result.json").is_file()


@pytest.mark.parametrize("step", _steps())
@pytest.mark.parametrize(
    ("code", "warns"), [(0, False), (1, False), (2, False), (3, True), (5, True)]
)
def test_a_step_tells_the_service_from_the_load_test(
    step: str, code: int, warns: bool, tmp_path: Path
) -> None:
    """An invalid run is said to be one; the code stays what it was."""
    done = _bash(step, f"exit {code}", tmp_path)
    assert done.returncode == code
    assert ("::warning::" in done.stdout) is warns


def test_the_master_and_the_worker_in_the_pages_work_together(
    example_service: Any, finished_run: Path, tmp_path: Path
) -> None:
    """The first two lines are started side by side, as many workers as the master is to expect."""
    master_line, worker_line = (
        next(words for words in map(shlex.split, _lines()) if f"--{kind}" in words)
        for kind in ("master", "worker")
    )
    workers = "1"
    if "--processes" in worker_line:
        workers = worker_line[worker_line.index("--processes") + 1]
    master_line[master_line.index("--expect-workers") + 1] = workers
    port = str(free_port())
    started = []
    for words, option in ((master_line, "--master-bind-port"), (worker_line, "--master-port")):
        placed = _put_in_place(words, example_service.url, finished_run, tmp_path)
        started.append(_start([*placed, option, port], tmp_path))
    master, worker = started
    output, errors = master.communicate(timeout=120)
    assert master.returncode in JUDGED, errors
    assert "GET /item/[id]" in output
    worker.communicate(timeout=60)
    assert worker.returncode == 0


def _start(words: list[str], directory: Path) -> subprocess.Popen[str]:
    prefix = {
        "trilat": [sys.executable, "-c", COMMAND],
        "locust": [sys.executable, "-m", "locust"],
        "curl": ["curl"],
    }[words[0]]
    return subprocess.Popen(
        [*prefix, *words[1:]],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(words: list[str], directory: Path) -> None:
    process = _start(words, directory)
    output, errors = process.communicate(timeout=120)
    assert process.returncode in JUDGED, output + errors
    assert "Traceback" not in errors
