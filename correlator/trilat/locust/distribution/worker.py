"""A worker: it records its part of each run of its master's, and reports."""

from __future__ import annotations

import logging
import os
from importlib.metadata import version
from pathlib import Path
from time import time
from typing import Any

from trilat.agent.errors import UsageError
from trilat.correlator.run.rundir import RUNS_FOLDER, RunDirectory
from trilat.locust.session import Session
from trilat.locust.settings import settings_of

from .reports import KEY, RESET, TAKEN
from .shipping import Shipper

__all__ = ["Worker"]

logger = logging.getLogger("trilat.locust")

_RUNS_MAX = 4  # whose last reports a master has not confirmed


class Worker:
    """What Locust's events and a master's messages mean in a worker.

    Args:
        environment: Locust's.
    """

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._shippers: list[Shipper] = []
        self._reset_to: int | None = None
        environment.runner.register_message(TAKEN, self._on_taken)
        environment.runner.register_message(RESET, self._on_reset)

    def start(self) -> None:
        """Begin a run.

        Raises:
            UsageError: the master runs without trilat, or there is no place for a journal.
        """
        options = self._environment.parsed_options
        run_id, options.trilat_run_id = options.trilat_run_id, None  # the next run has its own
        if not run_id:
            raise UsageError(
                "the master runs without trilat, so nothing of this run is attributed: import "
                "trilat.locust there too, or start it with trilat run"
            )
        _compare_versions(getattr(options, "trilat_version", None))
        directory, shared = _directory(getattr(options, "trilat_directory", ""), run_id)
        session = Session(
            self._environment,
            settings_of(options, run_id),
            directory.journals,
            directory.samples,
            generates=True,
        )
        self._reset_to = None
        self._shippers = self._shippers[-_RUNS_MAX + 1 :]
        self._shippers.append(Shipper(session, str(directory.journals.resolve()), shared=shared))

    def full(self) -> None:
        """All users of the run are there."""
        epoch, self._reset_to = self._reset_to, None
        if epoch is not None:  # Locust resets its statistics of this process at this event, too
            self._start_anew(epoch, counted_late=False)
        if self._session is not None:
            self._session.full()

    def stopping(self) -> None:
        """The load ends here."""
        if self._session is not None:
            self._session.stopping()

    def stop(self) -> None:
        """The users of this process have stopped."""
        if self._session is not None:
            self._session.stop()

    def report(self, data: dict[str, Any]) -> None:
        """Add what the master does not know yet to Locust's report."""
        self._shippers = [shipper for shipper in self._shippers if not shipper.done]
        if self._shippers:
            data[KEY] = [shipper.report() for shipper in self._shippers]

    def quit(self) -> None:
        """Where this worker ends by itself, by Ctrl-C or SIGTERM, it still reports.

        Locust would not: its own last figures would be missing, too.
        """
        if all(shipper.ended for shipper in self._shippers):
            return
        runner = self._environment.runner
        if self._session is not None and self._session.active:
            runner.stop()
            self._session.stop()
        data: dict[str, Any] = {}
        self._environment.events.report_to_master.fire(client_id=runner.client_id, data=data)
        runner.send_message("stats", data)

    @property
    def _session(self) -> Session | None:
        return self._shippers[-1].session if self._shippers else None

    def _on_taken(self, msg: Any, **_: Any) -> None:
        """The master has a parcel."""
        for shipper in self._shippers:
            if shipper.session.identity == msg.data["session"]:
                shipper.taken(msg.data["number"])

    def _on_reset(self, msg: Any, **_: Any) -> None:
        """The master's statistics are reset."""
        epoch = msg.data["epoch"]
        if self._session is None or self._session.settings.run_id != msg.data["run"]:
            return
        if msg.data["at_full"] and self._environment.reset_stats:
            self._reset_to = epoch  # Locust's message comes next, and resets those of here
        else:
            self._start_anew(epoch, counted_late=True)

    def _start_anew(self, epoch: int, *, counted_late: bool) -> None:
        if self._session is not None and self._session.active and epoch > self._session.epoch:
            self._session.start_anew(epoch)
            self._shippers[-1].start_anew(counted_late=counted_late)


def _directory(masters: str, run_id: str) -> tuple[RunDirectory, bool]:
    """The master's run directory where both see it, else one of our own.

    Returns:
        The directory, and whether it is the master's.

    Raises:
        UsageError: it cannot be made.
    """
    shared = RunDirectory(Path(masters or "/nonexistent"))
    if shared.belongs_to(run_id) and shared.journals.is_dir() and shared.samples.is_dir():
        return shared, True
    own = RunDirectory(RUNS_FOLDER / f"worker-{run_id}-{os.getpid()}")
    if not own.belongs_to(run_id):
        own = RunDirectory.create(own.path, run_id, time())
    return own, False


def _compare_versions(theirs: str | None) -> None:
    ours = version("trilat")
    if theirs != ours:
        logger.warning(
            "the master runs trilat %s and this worker %s: give all of them one version",
            *(theirs or "of an unknown version", ours),
        )
