"""One run from its options to its result: check, start Locust, watch it, gather what there is."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import time
from typing import Any, NoReturn

from rich.console import Console

from trilat.agent.errors import UsageError
from trilat.agent.marking import new_run_id
from trilat.correlator.finish import rebuild
from trilat.correlator.objective import parse
from trilat.correlator.rundir import RunDirectory

from .child import LocustChild, diagnose
from .progress import Progress, run_time_s

__all__ = ["Load", "become_locust", "conduct"]

_LOOK_EVERY_S = 0.25
_TELLING = {"-h", "--help", "-V", "--version", "-l", "--list", "--config-users"}
_TASK_RATIO = {"--show-task-ratio", "--show-task-ratio-json"}
_ANSWERS = (
    "stopping the load, then the report; once more to end Locust at once",
    "ending Locust now",
)
"""What is said to a first and to a second Ctrl-C."""

_WITHOUT_RESULT = {"--worker", *_TELLING, *_TASK_RATIO}


@dataclass(frozen=True, slots=True)
class Load:
    """What to run.

    Attributes:
        locustfile: as Locust takes it: a file, a folder, a URL, or several joined by commas.
        locust_arguments: Locust's own options.
        objectives: their texts.
        out: the run directory, or None for a new one under ``trilat-runs``.
        token: the middleware's token; goes to the child by its environment, never on its command
            line, which everybody on the machine can read.
        target_rate: requests per second, or None.
    """

    locustfile: str
    locust_arguments: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ()
    out: Path | None = None
    token: str | None = None
    target_rate: float | None = None

    @property
    def has_no_result(self) -> bool:
        """Whether Locust is a worker, whose master has the result, or only tells of itself."""
        worker = os.environ.get("LOCUST_MODE_WORKER", "").lower() == "true"
        return worker or not _WITHOUT_RESULT.isdisjoint(self.locust_arguments)

    def check(self) -> None:
        """Find what cannot work before anything starts.

        Raises:
            UsageError: an option cannot hold.
        """
        if find_spec("locust") is None:
            raise UsageError("Locust is not installed; pip install 'trilat[locust]'")
        for part in self.locustfile.split(","):
            path = Path(part.strip())
            known = path.exists() or path.with_name(f"{path.name}.py").exists()
            if not known and "://" not in part and part != "-":
                raise UsageError(f"{part}: no such locustfile; name one with -f")
        for text in self.objectives:
            parse(text)

    def command(self, *options: str) -> list[str]:
        """Locust's command line with these options more; it holds no secrets."""
        command = [sys.executable, "-m", "trilat.locust", "-f", self.locustfile, *options]
        command += [f"--trilat-slo={text}" for text in self.objectives]
        if self.target_rate is not None:
            command.append(f"--trilat-target-rate={self.target_rate}")
        return [*command, *self.locust_arguments]

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Locust's environment."""
        token = {} if self.token is None else {"LOCUST_TRILAT_TOKEN": self.token}
        return {**base, **token}


def conduct(load: Load) -> tuple[RunDirectory, dict[str, Any]]:
    """Run Locust and wait for it, with progress on standard error.

    Returns:
        The run directory and its result.

    Raises:
        UsageError: an option cannot hold, or Locust ended before the load began.
        InputError: what the run left cannot be read.
    """
    load.check()
    run_id, began = new_run_id(), time()
    run = RunDirectory.create(load.out, run_id, began)
    progress = Progress(Console(stderr=True), run.live, run_time_s(load.locust_arguments))
    options = ["--trilat-quiet", f"--trilat-out={run.path}", f"--trilat-run-id={run_id}"]
    if "--print-stats" not in load.locust_arguments:
        options.append("--only-summary")  # a table every two seconds would fill the log
    environment = load.environment(os.environ)
    child = LocustChild(load.command(*options), environment, run, progress.note)

    code, answered = None, 0
    with child.forwarding_signals(), progress:
        while code is None:
            code = child.wait(_LOOK_EVERY_S)
            while answered < child.interrupts:  # another may come in meanwhile
                progress.note(_ANSWERS[min(answered, 1)])
                answered += 1
            progress.update()
    if not run.manifest.is_file():
        _discard(run)
        if child.interrupts:
            raise UsageError("Locust was stopped before the load began; there is nothing to judge")
        reason = diagnose(list(child.tail)) or f"it ended with code {code} and said nothing"
        raise UsageError(f"Locust did not start: {reason}")
    run = _latest(run, began)
    return run, run.read_result() if run.result.is_file() else rebuild(run)


def become_locust(load: Load) -> NoReturn:
    """Turn this process into Locust, for a run whose result is not written here.

    Raises:
        UsageError: an option cannot hold.
    """
    load.check()
    command = load.command()
    sys.stdout.flush()
    os.execve(command[0], command, load.environment(os.environ))  # noqa: S606 - our own interpreter


def _latest(run: RunDirectory, began: float) -> RunDirectory:
    """The last run of a Locust whose web page started several: they are numbered from 2."""
    number = 2
    while True:
        following = RunDirectory(run.path.with_name(f"{run.path.name}-{number}"))
        if not following.manifest.is_file() or following.manifest.stat().st_mtime < began:
            return run
        run, number = following, number + 1


def _discard(run: RunDirectory) -> None:
    """Remove the directory of a run that never was, so that its name can be used again."""
    with suppress(OSError):  # something is in it: then it stays
        for folder in (run.journals, run.samples, run.path):
            folder.rmdir()
