"""One run from its options to its result: check, start Locust, watch it, gather what there is."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from glob import escape
from importlib.util import find_spec
from pathlib import Path
from time import time
from typing import Any, NoReturn

from trilat.agent.errors import InputError, UsageError
from trilat.agent.marking import new_run_id, token_bytes
from trilat.correlator.finish import has_own_end, rebuild
from trilat.correlator.judge.objective import parse
from trilat.correlator.run.rundir import RunDirectory

from .child import LocustChild, diagnose, gave_up
from .progress import Progress, progress_console, run_time_s

__all__ = ["Conducted", "Load", "become_locust", "conduct"]

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
        if self.token is not None:
            try:
                token_bytes(self.token)
            except UsageError as error:
                raise UsageError(
                    "--token: it must be of visible ASCII characters, as the service's middleware "
                    "takes no other; leave it out where the service has none"
                ) from error

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


@dataclass(frozen=True, slots=True)
class Conducted:
    """A run that has ended.

    Attributes:
        directory: the run directory.
        result: what is in its ``result.json``.
        locust_code: with which code Locust ended; 128 and the signal's number where a signal that
            nobody asked for ended it, 0 where one ended it that was asked for.
    """

    directory: RunDirectory
    result: dict[str, Any]
    locust_code: int

    def exit_code(self) -> int:
        """The verdict's code, or Locust's where the verdict has nothing against the run.

        Locust has codes of its own: 1 where a task raised an exception, and whatever a user's
        listener put into ``environment.process_exit_code``.
        """
        code: int = self.result["verdict"]["exit_code"]
        return code or self.locust_code


def conduct(load: Load) -> Conducted:
    """Run Locust and wait for it, with progress on standard error.

    Raises:
        UsageError: an option cannot hold, or Locust ended before the load began.
        InputError: what the run left cannot be read.
    """
    load.check()
    run_id = new_run_id()
    run = RunDirectory.create(load.out, run_id, time())
    progress = Progress(progress_console(), run.live, run_time_s(load.locust_arguments))
    options = ["--trilat-quiet", f"--trilat-out={run.path}", f"--trilat-run-id={run_id}"]
    if "--print-stats" not in load.locust_arguments:
        options.append("--only-summary")  # a table every two seconds would fill the log
    environment = load.environment(os.environ)
    child = LocustChild(load.command(*options), environment, run, progress.note)

    with progress, child:
        code = _wait(child, progress)
    if not run.manifest.is_file():
        run.discard(run_id)
        if child.interrupts:
            raise UsageError("Locust was stopped before the load began; there is nothing to judge")
        reason = diagnose(list(child.tail)) or f"it ended with code {code} and said nothing"
        raise UsageError(f"Locust did not start: {reason}")
    if run.read_manifest().run_id != run_id:
        raise InputError(f"{run.manifest}: of another run; give each run a directory of its own")
    last = _latest(run, child.pid)
    result = _gather(last, cut_off=code < 0)
    reason = "" if result["total"]["requests"] else gave_up(list(child.tail))
    if last is run and reason and not child.interrupts:
        run.discard(run_id)
        raise UsageError(f"Locust stopped before the first request: {reason}")
    if code < 0:
        code = 0 if child.interrupts else 128 - code
    return Conducted(last, result, code)


def become_locust(load: Load) -> NoReturn:
    """Turn this process into Locust, for a run whose result is not written here.

    Raises:
        UsageError: an option cannot hold.
    """
    load.check()
    command = load.command()
    sys.stdout.flush()
    os.execve(command[0], command, load.environment(os.environ))  # noqa: S606 - our own interpreter


def _wait(child: LocustChild, progress: Progress) -> int:
    """Show progress until Locust has ended; its exit code, negative for a signal's number."""
    code, answered = None, 0
    while code is None:
        code = child.wait(_LOOK_EVERY_S)
        while answered < child.interrupts:  # another may come in meanwhile
            progress.note(_ANSWERS[min(answered, 1)])
            answered += 1
        progress.update()
    return code


def _latest(run: RunDirectory, pid: int) -> RunDirectory:
    """The last run of a Locust whose web page started several.

    They are numbered from 2, with gaps where another run has the name.
    """
    latest = run
    for path in run.path.parent.glob(f"{escape(run.path.name)}-*"):
        following = RunDirectory(path)
        try:
            manifest = following.read_manifest()
            newer = manifest.started_wall_ns > latest.read_manifest().started_wall_ns
        except InputError:
            continue
        if manifest.pid == pid and newer:
            latest = following
    return latest


def _gather(run: RunDirectory, *, cut_off: bool) -> dict[str, Any]:
    """The result that Locust wrote, or one from what it left where it was cut off."""
    manifest = run.read_manifest()
    if not cut_off and has_own_end(manifest) and run.result.is_file():
        result = run.read_result()
        if result["run"]["run_id"] == manifest.run_id:
            return result
    return rebuild(run)
