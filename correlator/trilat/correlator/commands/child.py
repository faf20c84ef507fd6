"""Locust as a child process: its output, its signals, its end.

The child gets a session of its own, so that a terminal's Ctrl-C reaches it once, from here, and
not a second time from the terminal: Locust takes a second one as an order to leave at once. It must
not outlive this process: whatever ends the waiting here ends it too, and where this process is
killed, the child sees that by itself (`PARENT_VARIABLE`).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import FrameType, TracebackType
from typing import IO, Any, Final, Self

from trilat.correlator.run.rundir import RunDirectory

__all__ = ["PARENT_VARIABLE", "LocustChild", "diagnose", "gave_up"]

PARENT_VARIABLE = "TRILAT_PARENT_PID"
"""Environment variable with this process' number; ``trilat.locust`` stops when that has gone."""

_LOG_LINE = re.compile(r"\[[^\]]+\] \S*/(?P<level>[A-Z]+)/[^:]*: (?P<text>.*)")
_SHOWN_LEVELS = frozenset({"WARNING", "ERROR", "CRITICAL"})
_SHOWN_STARTS = ("Starting web interface", "Waiting for workers")
_SHOWN_MAX = 20
_GIVEN_UP = "Stopping Locust"
_KEPT_LINES = 2000
_GRACE_S = 10.0
_FORWARDED = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class LocustChild:
    """Locust, which runs while this is entered.

    Inside, SIGINT, SIGTERM and SIGHUP of this process go to the child instead. When it is left,
    whatever the reason, the child is stopped if it still runs: first asked, then killed.

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
        self._command: Final = list(command)
        self._environment: Final = {**environment, PARENT_VARIABLE: str(os.getpid())}
        self._seen: set[str] = set()
        self._handlers: dict[int, Any] = {}
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None
        self._log_failed = False
        # A daemon: workers of a killed master may hold the pipe open for ever.
        self._reader = Thread(target=self._read, name="trilat-locust-output", daemon=True)

    def __enter__(self) -> Self:
        # Before the start: a signal in between would leave the child alone, and a child inherits
        # that a signal is ignored (a shell does that to SIGINT for `command &`), not a handler.
        for number in _FORWARDED:
            ignored = signal.getsignal(number) is signal.SIG_IGN
            if not ignored or number != getattr(signal, "SIGHUP", None):  # nohup ignores that one
                self._handlers[number] = signal.signal(number, self._forward)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, no shell
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._reader.start()
        except BaseException:
            self._leave()
            raise
        if self.interrupts:
            self._process.send_signal(signal.SIGINT)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    @property
    def pid(self) -> int:
        """The number of Locust's process."""
        return self._running().pid

    def wait(self, seconds: float) -> int | None:
        """Wait for the end for so long.

        Returns:
            The exit code, or None while it runs.
        """
        try:
            code = self._running().wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        if self._reader.is_alive():
            self._reader.join(timeout=5)
        return code

    @property
    def reading(self) -> bool:
        """Whether some process still holds the child's output open."""
        return self._reader.is_alive()

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """Ask Locust to stop; asked a second time, end it and its workers at once."""
        self.interrupts += 1
        if self._process is None or self._process.poll() is not None:
            return
        if self.interrupts == 1:
            self._process.send_signal(number)
        else:
            self.kill()

    def kill(self) -> None:
        """End Locust and all its processes, now. What they journalled stays."""
        process = self._running()
        if process.poll() is None:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "entered"
        return self._process

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal; nothing more, as this may run in the middle of anything."""
        hang_up = number == getattr(signal, "SIGHUP", None)  # Locust knows nothing of it
        self.interrupt(signal.SIGTERM if hang_up else number)

    def _leave(self) -> None:
        try:
            if self._process is not None and self._process.poll() is None:
                if not self.interrupts:
                    self.interrupt()
                if self.wait(_GRACE_S) is None:
                    self.kill()
                    self.wait(_GRACE_S)
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            self._handlers.clear()

    def _read(self) -> None:
        stream = self._running().stdout
        assert stream is not None
        with stream:
            for line in stream:  # to the end, come what may: Locust would stand still else
                self.tail.append(line)
                self._keep(line)
                self._show(line)
        if self._log is not None:
            with suppress(OSError):
                self._log.close()

    def _keep(self, line: str) -> None:
        """Write a line to the log, as long as that can be written."""
        if self._log_failed:
            return
        try:
            if self._log is not None:
                self._log.write(line)
            elif self._run.manifest.is_file():
                self._log = self._run.log.open("a", encoding="utf-8", buffering=1)
                self._log.writelines(self.tail)
        except OSError as error:
            self._log_failed = True
            self._notice(f"{self._run.log}: {error.strerror}; Locust's output is not kept")

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


def gave_up(output: Sequence[str]) -> str:
    """The error for which Locust stopped a test by itself; "" where it did not.

    Locust logs the text of a ``StopTest``, and after that its word of the end.
    """
    error = ""
    for line in output:
        logged = _LOG_LINE.match(line.rstrip())
        if logged is None:
            continue
        if error and logged["text"].startswith(_GIVEN_UP):
            return error
        error = logged["text"] if logged["level"] == "ERROR" else ""
    return ""


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
