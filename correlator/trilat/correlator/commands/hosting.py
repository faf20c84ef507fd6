"""The example service as a child process that always ends."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from trilat.agent.errors import InputError, UsageError

__all__ = ["example_service"]

_RUNNING = re.compile(r"Uvicorn running on (\S+)")
_START_S = 30.0
_STOP_S = 5.0


@contextmanager
def example_service(folder: Path, log: Path) -> Iterator[str]:
    """The service of a folder under uvicorn: one process, on a free port of the loopback interface.

    Args:
        folder: holds ``service.py``.
        log: where the server's output goes.

    Yields:
        The service's URL, once it listens.

    Raises:
        UsageError: FastAPI or uvicorn is not installed.
        InputError: it does not start.
    """
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UsageError(f"{' and '.join(missing)} not installed; pip install 'trilat[demo]'")
    command = [sys.executable, "-m", "uvicorn", "service:app", "--app-dir", str(folder)]
    command += ["--host", "127.0.0.1", "--port", "0", "--no-access-log", "--no-use-colors"]
    with log.open("wb") as output:
        # A session of its own: Ctrl-C must reach the generator first, the service when it is done.
        process = subprocess.Popen(  # noqa: S603 - our own interpreter, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield _wait_for_address(process, log)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where the server listens, as it says once it does."""
    ends = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < ends:
        if (
            found := _RUNNING.search(log.read_text(encoding="utf-8", errors="replace"))
        ) is not None:
            return found[1]
        time.sleep(0.05)
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise InputError(f"the example service did not start: {said[-1] if said else 'no output'}")
