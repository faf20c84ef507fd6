"""Locust as a child process: its output, its signals, its end.

The child gets a session of its own, so that a terminal's Ctrl-C reaches it once, from here, and
not a second time from the terminal: Locust takes a second one as an order to leave at once.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import IO, Final

from trilat.correlator.rundir import RunDirectory

__all__ = ["LocustChild", "diagnose"]

_LOG_LINE = re.compile(r"\[[^\]]+\] \S*/(?P<level>[A-Z]+)/[^:]*: (?P<text>.*)")
_SHOWN_LEVELS = frozenset({"WARNING", "ERROR", "CRITICAL"})
_SHOWN_STARTS = ("Starting web interface", "Waiting for workers")
_SHOWN_MAX = 20
_KEPT_LINES = 2000


class LocustChild:
    """A running Locust.

    Args:
        command: the command line; it must hold no secret, as others can read it.
        environment: the child's environment.
        run: the run directory; output goes to its log as soon as Locust has taken the directory,
            which it does only while there is nothing in it.
        notice: called from another thread with each line a person should see while it runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        run: RunDirectory,
        notice: Callable[[str], None],
    ) -> None:
        self.tail: deque[str] = deque(maxlen=_KEPT_LINES)
        self.interrupts: int = 0
        self._run: Final = run
        self._notice: Final = notice
        self._seen: set[str] = set()
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, no shell
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        # A daemon: workers of a killed master may hold the pipe open for ever.
        self._reader = Thread(target=self._read, name="trilat-locust-output", daemon=True)
        self._reader.start()

    def wait(self, seconds: float) -> int | None:
        """Wait for the end for so long.

        Returns:
            The exit code, or None while it runs.
        """
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join(timeout=5)
        return code

    @property
    def reading(self) -> bool:
        """Whether some process still holds the child's output open."""
        return self._reader.is_alive()

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """Ask Locust to stop; asked a second time, end it and its workers at once."""
        self.interrupts += 1
        if self._process.poll() is not None:
            return
        if self.interrupts == 1:
            self._process.send_signal(number)
        else:
            self.kill()

    def kill(self) -> None:
        """End Locust and all its processes, now. What they journalled stays."""
        if self._process.poll() is None:
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    @contextmanager
    def forwarding_signals(self) -> Iterator[None]:
        """While inside, SIGINT and SIGTERM of this process go to the child instead.

        The handler does nothing more: it may run in the middle of anything, a print included.
        """

        def forward(number: int, _frame: FrameType | None) -> None:
            self.interrupt(number)

        before = {n: signal.signal(n, forward) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        file: IO[str] | None = None
        with stream:
            for line in stream:
                self.tail.append(line)
                if file is not None:
                    file.write(line)
                elif self._run.manifest.is_file():
                    file = self._run.log.open("a", encoding="utf-8", buffering=1)
                    file.writelines(self.tail)
                self._show(line)
        if file is not None:
            file.close()

    def _show(self, line: str) -> None:
        found = _LOG_LINE.match(line)
        if found is None:
            return
        level, text = found["level"], found["text"]
        if level not in _SHOWN_LEVELS and not text.startswith(_SHOWN_STARTS):
            return
        # A user's task that raises logs the same line for each request: once is enough.
        if text in self._seen or len(self._seen) > _SHOWN_MAX:
            return
        self._seen.add(text)
        if len(self._seen) > _SHOWN_MAX:
            self._notice(f"more warnings are in {self._run.log}")
        else:
            self._notice(
                f"Locust {level.lower()}: {text}" if level != "INFO" else f"Locust: {text}"
            )


def diagnose(output: Sequence[str]) -> str:
    """The one line of Locust's output that says why it ended before it began.

    Args:
        output: its last lines.

    Returns:
        What argparse complained of, the last error that was logged, or the last line of a
        traceback with the place it names; "" where there is no output.
    """
    lines = [line.rstrip() for line in output if line.strip()]
    for line in reversed(lines):
        if (usage := re.match(r"\S+: error: (.*)", line)) is not None:
            return usage[1]
        if (logged := _LOG_LINE.match(line)) is not None and logged["level"] in (
            "ERROR",
            "CRITICAL",
        ):
            return logged["text"]
        if line.startswith("Traceback "):
            break
    place = ""
    for line in lines:
        if (found := re.match(r'  File "([^"<]+)", line (\d+)', line)) is not None:
            place = f"{Path(found[1]).name}, line {found[2]}: "
    return place + lines[-1].strip() if lines else ""
