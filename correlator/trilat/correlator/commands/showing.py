"""The demonstration that `trilat demo` gives."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.rule import Rule

from trilat.agent.errors import UsageError
from trilat.correlator.examples import examples_folder
from trilat.correlator.run.rundir import RUNS_FOLDER
from trilat.correlator.text import milliseconds, percent, rate

from .conduct import Load, conduct
from .hosting import example_service
from .show import output_console, show_result

__all__ = ["Demonstration"]

_OBJECTIVE = "p95<=75ms"  # well above what the service needs, well below a saturated HttpUser
_INVALID, _PASS = 3, 0  # exit codes of the two verdicts to show
_PER_USER_S = 10  # as the example locustfiles have it
_OVERLOAD = 1.25
_TRIAL_USERS = 300  # 3,000/s: more than one process makes, since an idle one costs more a request
_TRIAL_S = 6
_USERS_MIN = 50
_SPAWN_RATE = 100  # more, and Locust warns
_USUAL_CPU = 0.95  # of a saturated process, where it could not be sampled


class Demonstration:
    """Two runs against one service, and what they show.

    Args:
        out: where the run directories go; None for a new folder under ``trilat-runs``.
        seconds: how long each run lasts.

    Raises:
        UsageError: `out` is not empty.
    """

    def __init__(self, out: Path | None, seconds: int) -> None:
        started = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self._out = out if out is not None else RUNS_FOLDER / f"{started}-demo"
        self._seconds = seconds
        self._console = output_console()
        self._reports: dict[str, Path] = {}
        self._examples = examples_folder() / "fastapi"
        if self._out.exists() and (not self._out.is_dir() or any(self._out.iterdir())):
            raise UsageError(f"{self._out}: not empty; name a new directory with --out")

    def show(self) -> int:
        """Run it all.

        Returns:
            0 where both verdicts are as they should be, else 1.
        """
        with TemporaryDirectory(prefix="trilat-demo-") as scratch:
            log = Path(scratch) / "service.log"
            self._say("starting the example service: each answer takes 20 ms of waiting")
            with example_service(self._examples, log) as url:
                users = self._users(url, Path(scratch) / "trial")
                wanted = users * _PER_USER_S
                slow = self._run("locustfile.py", "HttpUser", url, users, _INVALID)
                fast = self._run("locustfile_fast.py", "FastHttpUser", url, users, _PASS)
        self._console.print(Rule("what was seen"))
        return self._conclude(slow, fast, wanted)

    def _users(self, url: str, directory: Path) -> int:
        """How many users ask for more than one HttpUser process makes here.

        The processor time that a request costs is measured, not the rate at which the process gives
        up: other work on the machine changes that rate, and hardly the cost.
        """
        self._say(f"finding out in {_TRIAL_S} s what a request costs HttpUser on this machine")
        load = self._load("locustfile.py", url, directory, _TRIAL_USERS, _TRIAL_S)
        trial = conduct(load).result
        cpu = (trial["run"]["generator_cpu_percent"] or {"mean": 0})["mean"] / 100 or _USUAL_CPU
        limit = float(trial["total"]["rate_per_s"] or 0) / cpu
        users = max(round(limit * _OVERLOAD / _PER_USER_S), _USERS_MIN)
        self._say(
            f"one process makes about {rate(limit)}/s; both runs ask for "
            f"{rate(users * _PER_USER_S)}/s: {users} users, {_PER_USER_S}/s each"
        )
        return users

    def _run(
        self, locustfile: str, client: str, url: str, users: int, expected: int
    ) -> dict[str, Any]:
        """One run; a second one where other work on the machine spoilt the first."""
        self._console.print(Rule(f"one process of {client}"))
        for name in (client.lower(), f"{client.lower()}-again"):
            load = self._load(locustfile, url, self._out / name, users, self._seconds)
            done = conduct(load)
            result = done.result
            show_result(done.directory, result, "text")
            self._console.print()
            self._reports[client] = done.directory.report
            if result["verdict"]["exit_code"] == expected or name.endswith("-again"):
                break
            self._say("Other work on this machine disturbed this run. Once more:")
        return result

    def _load(self, locustfile: str, url: str, directory: Path, users: int, seconds: int) -> Load:
        options = ["--headless", "--host", url, "--users", str(users)]
        options += ["--spawn-rate", str(_SPAWN_RATE), "--run-time", f"{seconds}s"]
        return Load(str(self._examples / locustfile), tuple(options), (_OBJECTIVE,), directory)

    def _conclude(self, slow: dict[str, Any], fast: dict[str, Any], wanted: int) -> int:
        p95s = [milliseconds(each["total"]["response_time_ms"]["p95"]) for each in (slow, fast)]
        self._say(
            f"Asked for the same {rate(wanted)}/s of the same service, HttpUser reports a p95 of "
            f"{p95s[0]} ms and FastHttpUser one of {p95s[1]} ms."
        )
        verdicts = [(r["verdict"]["outcome"], r["verdict"]["exit_code"]) for r in (slow, fast)]
        as_it_should = verdicts == [("invalid", _INVALID), ("pass", _PASS)]
        if as_it_should:
            share = slow["total"]["shares"]["p95"]["generator"]
            self._say(
                f"{percent(share)} of the first figure is the generator's own queue, so that run "
                "says nothing about the service and is INVALID; the second one may be believed."
            )
        else:
            seen = " and ".join(f"{outcome} ({code})" for outcome, code in verdicts)
            self._say(
                f"The verdicts were {seen}, where invalid (3) and pass (0) should come out: other "
                "work on this machine disturbs the runs; try again when it is quiet."
            )
        for report in self._reports.values():
            self._say(f"Report: {report}")
        return 0 if as_it_should else 1

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
