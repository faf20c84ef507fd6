"""``trilat run``: what stops a run before it starts, and who says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("lasting")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["-f", "nothere.py"], "nothere.py: no such locustfile"),
        (["--slo", "p95<=fast"], "p95"),
        (["--out", "full"], "full: not empty"),
        (["--target-rate", "0"], "--target-rate"),
        (["--headless"], "Locust's options go behind --"),
        (["--", "-f", "locustfile.py"], "-f stands behind --"),
        (["--", "--trilat-slo=p95<=1s"], "--trilat-slo stands behind --"),
        (["--", "--no-such-option"], "unrecognized arguments: --no-such-option"),
        (["--", "--headless", "--run-time", "soon"], "--run-time"),
        (["-f", "broken.py"], "broken.py, line 1: ModuleNotFoundError: No module named 'nothere'"),
        (["-f", "empty.py"], "No User class found!"),
        (["--token", ""], "--token: it must be of visible ASCII characters"),
        (["--token", "two words"], "--token: it must be"),
        (["--token", "Schlüssel"], "--token: it must be"),
        (["--", "--headless", "--run-time", "5s"], "You must specify the base host"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(
    arguments: list[str], part: str, trilat: Any, tmp_path: Path
) -> None:
    """Code 2, one line, no traceback, and no directory is left behind."""
    (tmp_path / "broken.py").write_text("import nothere\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("mine")
    done = trilat("run", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert part in lines[-1]
    assert lines[-1].startswith("trilat: error: ")
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "trilat-runs").glob("*")) == []


def test_locust_speaks_for_itself_where_there_is_no_run(trilat: Any, tmp_path: Path) -> None:
    """``trilat run -- --version`` is Locust's own answer."""
    assert trilat("run", "--", "--version", cwd=tmp_path).stdout.startswith("locust")
    assert "Lasting" in trilat("run", "--", "--list", cwd=tmp_path).stdout
