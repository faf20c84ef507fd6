"""What a person sees while a run lasts: one live line on a terminal, a plain one now and then else.

The figures come from the run directory's ``live.json``, which the generator replaces each second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from trilat.agent.errors import InputError
from trilat.agent.records import Side
from trilat.correlator.reading import mapping, number, text
from trilat.correlator.report.bars import share_bar
from trilat.correlator.report.rows import Shares
from trilat.correlator.text import clean, count, milliseconds, percent, rate
from trilat.correlator.validate import load_json

__all__ = ["Progress", "describe", "progress_console", "run_time_s"]

_PLAIN_EVERY_S = 5.0
_BAR = 24
_SPAN = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")


class _ProgressConsole(Console):
    """A console whose reader may go: rich's own would close standard output and end the process."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def progress_console() -> Console:
    """Standard error, so that a report on standard output can be piped on."""
    return _ProgressConsole(stderr=True)


class Progress:
    """Shows a run's state until it is left.

    Nothing here ends a run: where the output can no longer be written, since its reader or its
    terminal has gone, nothing is shown any more.

    Args:
        console: where to; standard error, so that a report can be piped on.
        live: the file with the figures.
        run_time_s: how long the run is to last, or None where nobody said.
    """

    def __init__(self, console: Console, live: Path, run_time_s: float | None) -> None:
        self._console = console
        self._path = live
        self._run_time_s = run_time_s
        self._lock = Lock()
        self._shown_at = monotonic()
        self._last = ""
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(
                Text("starting Locust"), console=console, transient=True, auto_refresh=False
            )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._safely(self._live.start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._safely(self._live.stop)

    def note(self, line: str) -> None:
        """Print a line above the progress; may be called from any thread."""
        with self._lock:
            self._safely(
                lambda: self._console.print(
                    clean(line), markup=False, highlight=False, soft_wrap=True
                )
            )

    def update(self) -> None:
        """Read the figures and show them, if there is something new to show."""
        figures = _read(self._path)
        if figures is None:
            return
        line = describe(figures, self._run_time_s)
        if self._live is not None:
            if line != self._last:
                self._last = line
                shown = Group(Text(line), self._shares(figures))
                self._safely(partial(self._live.update, shown, refresh=True))
        elif line != self._last and monotonic() - self._shown_at >= _PLAIN_EVERY_S:
            self._last = line
            self._shown_at = monotonic()
            self.note(f"{line}, {_sides(figures)}")

    def _safely(self, show: Callable[[], None]) -> None:
        try:
            show()
        except (OSError, ValueError):  # ValueError: the stream was closed
            self._console.quiet = True

    def _shares(self, figures: Mapping[str, Any]) -> Text:
        shares = _shares(figures)
        if shares is None:
            return Text("no answers yet", style="dim")
        return Text.assemble(share_bar(shares, _BAR, self._console.encoding), " ", _sides(figures))


def describe(figures: Mapping[str, Any], run_time_s: float | None) -> str:
    """The state of a run in one line.

    Args:
        figures: content of ``live.json``; what it does not hold is left out.
        run_time_s: how long the run is to last, or None.
    """
    elapsed = number(figures.get("elapsed_s")) or 0.0
    of = f" of {run_time_s:.0f} s" if run_time_s is not None else ""
    parts = [f"{elapsed:.0f} s{of}"]
    if (state := text(figures, "state")) and state != "running":
        parts[0] += f" ({state})"
    if (users := number(figures.get("users"))) is not None:
        parts.append(f"{count(int(users))} users")
    target = number(figures.get("target_rate_per_s"))
    wanted = f" of {rate(target)}/s" if target else " (no rate)"
    parts.append(f"{rate(number(figures.get('rate_per_s')))}/s{wanted}")
    if failures := number(figures.get("failures")):
        parts.append(f"{count(int(failures))} failed")
    if (p95_ms := number(figures.get("p95_ms"))) is not None:
        parts.append(f"p95 {milliseconds(p95_ms)} ms")
    if (cpu := number(figures.get("generator_cpu_percent"))) is not None:
        parts.append(f"generator CPU {percent(cpu / 100)}")
    return ", ".join(parts)


def run_time_s(locust_arguments: tuple[str, ...]) -> float | None:
    """The run time among Locust's options, in seconds; None where there is none to be read."""
    value: str | None = None
    for index, argument in enumerate(locust_arguments):
        if argument in ("-t", "--run-time"):
            value = next(iter(locust_arguments[index + 1 :]), None)
        elif argument.startswith("--run-time="):
            value = argument.partition("=")[2]
        elif argument.startswith("-t") and not argument.startswith("--"):
            value = argument[2:]
    found = _SPAN.fullmatch(value) if value else None
    if found is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = load_json(path)
    except InputError:
        return None
    return found if isinstance(found, dict) else None


def _shares(figures: Mapping[str, Any]) -> Shares | None:
    parts = [number(mapping(figures, "shares").get(side)) or 0.0 for side in map(str, Side)]
    return Shares(*(part / sum(parts) for part in parts)) if sum(parts) > 0 else None


def _sides(figures: Mapping[str, Any]) -> str:
    shares = _shares(figures)
    if shares is None:
        return "no answers yet"
    named = (f"{side} {percent(part)}" for side, part in shares.parts())
    return ", ".join(named).replace(", unattributed 0 %", "")
