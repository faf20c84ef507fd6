"""The lab's processes: each in a session of its own, and none of them outlives the lab."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LabError", "Started", "started"]

_STARTS_WITHIN_S = 30.0
_STOPS_WITHIN_S = 10.0
_LOOKS_EVERY_S = 0.02


class LabError(Exception):
    """A scenario could not be made; one line that says why."""


@dataclass(frozen=True, slots=True)
class Started:
    """A process that runs.

    Attributes:
        process: the process; those that it starts are in its session.
        log: what it writes goes there.
    """

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        """What it has written so far."""
        return self.log.read_text(errors="replace")

    def when_says(self, text: str) -> None:
        """Wait until it has written a text.

        Raises:
            LabError: it has ended, or takes too long.
        """
        gives_up = time.monotonic() + _STARTS_WITHIN_S
        while text not in self.said:
            if self.process.poll() is not None or time.monotonic() > gives_up:
                last = (self.said.strip().splitlines() or ["it says nothing"])[-1]
                command = [str(part) for part in self._command()]
                raise LabError(f"{' '.join(command)[:120]}: does not start: {last}")
            time.sleep(_LOOKS_EVERY_S)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end, and make all of its session end if it does not."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_STOPS_WITHIN_S)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _command(self) -> Sequence[str]:
        args = self.process.args
        return [args] if isinstance(args, str) else [str(part) for part in args]  # type: ignore[union-attr]


@contextmanager
def started(
    command: Sequence[str | Path],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    namespace: int | None = None,
    inherited: Sequence[int] = (),
) -> Iterator[Started]:
    """Start a process, and end it with the block.

    It gets the kernel's signal to end when the lab itself is killed (``setpriv --pdeathsig``).

    Args:
        command: what to run.
        log: the file for all that it writes.
        env: added to this process' environment.
        namespace: descriptor of a network namespace to run in.
        inherited: further descriptors that it gets.
    """
    before: list[str | Path] = []
    if shutil.which("setpriv"):
        before += ["setpriv", "--pdeathsig", "KILL"]
    if namespace is not None:
        before += ["nsenter", f"--net=/proc/{os.getpid()}/fd/{namespace}"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in (*before, *command)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
            pass_fds=inherited,
        )
    running = Started(process, log)
    try:
        yield running
    finally:
        running.end()
