"""Runs ``patched/`` in a process of its own: importing Locust patches the process for gevent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Before pytest, whose plugins import ssl, which must not be there yet.
FIRST = "import sys, trilat.locust, pytest; sys.exit(pytest.main(sys.argv[1:]))"


def test_unit_tests_of_the_generator_pass_in_a_patched_process() -> None:
    """The tests in ``patched/`` pass; their output is shown where they do not."""
    folder = Path(__file__).parent / "patched"
    command = [sys.executable, "-c", FIRST, "-q", "-p", "no:cacheprovider"]
    command += ["-W", "ignore:Module already imported", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
