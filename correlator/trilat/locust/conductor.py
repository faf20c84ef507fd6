"""A master, or a process that makes its load itself: it holds the run, and judges it."""

from __future__ import annotations

import logging
from importlib.metadata import version
from pathlib import Path
from time import monotonic, time
from typing import Any

import gevent

from trilat.agent.errors import TrilatError
from trilat.agent.marking import new_run_id, token_bytes
from trilat.correlator.run.rundir import RunDirectory
from trilat.locust.distribution.reports import RESET, said_of
from trilat.locust.live.audience import Audience
from trilat.locust.load.stages import Asked, watch_starts

from .run import Run

__all__ = ["Conductor"]

logger = logging.getLogger("trilat.locust")

_NO_EVIDENCE = 5  # exit code where nothing can be said
_DRAIN_STEP_S = 0.5


class Conductor:
    """What Locust's events mean in a master or a local process.

    A master's run ends later than its load: the last reports of its workers are still to come.
    Until they are there it waits, also while the next run goes on already.

    Args:
        environment: Locust's.
        leads: whether workers make the load.

    Raises:
        TrilatError: an option cannot hold.
        OSError: a file that was asked for cannot be written.
    """

    def __init__(self, environment: Any, *, leads: bool) -> None:
        self._environment = environment
        self._leads = leads
        options = environment.parsed_options
        if options.trilat_token is not None:
            token_bytes(options.trilat_token)
        self._directory: RunDirectory | None = self._make_directory()
        self._audience = Audience(environment)
        self._run: Run | None = None
        self._closing: dict[Run, Any] = {}
        watch_starts(environment.runner, self._wants)

    def start(self) -> None:
        """Begin a run."""
        if self._run is not None:  # from the web UI
            if self._run in self._closing:
                self._audience.end()
                self._run.succeeded()
            else:
                self._finish(self._run)
        directory = self._directory or self._make_directory(again=True)
        self._directory = None
        run = self._run = Run(self._environment, directory, leads=self._leads)
        self._audience.begin(run.session, run.crew, directory)

    def full(self) -> None:
        """All users are there."""
        if self._environment.reset_stats:
            self._start_anew(at_full=True)
        if self._run is not None:
            self._run.session.full()
            self._run.keep_manifest()

    def _wants(self, asked: Asked) -> None:
        """Users are asked for, maybe while a run goes on."""
        if self._run is not None and self._run.session.active:
            self._run.session.wants(asked)

    def reset(self) -> None:
        """Somebody resets the statistics, in the web UI."""
        self._start_anew(at_full=False)

    def stopping(self) -> None:
        """The load ends here."""
        if self._run is not None:
            self._run.session.stopping()

    def stop(self) -> None:
        """The load has ended; the run has, too, where this process holds all of it."""
        run = self._run
        if run is None or run.result is not None:
            return
        run.stop()
        if self._leads:
            self._closing[run] = gevent.spawn(self._close, run)
        else:
            self._finish(run)

    def receive(self, client_id: str, data: dict[str, Any]) -> None:
        """Take a worker's report in."""
        locusts = _locusts(data)
        for run in {*self._closing, *([self._run] if self._run is not None else [])}:
            said = said_of(data, run.run_id)
            if said is not None or run is self._run:
                run.receive(client_id, said, locusts)

    def heard(self, client_id: str) -> None:
        """A worker gave a sign of life."""
        for run in (*self._closing, self._run):
            if run is not None and run.crew is not None:
                run.crew.heard(client_id)

    def quitting(self) -> None:
        """Write the results that are still to be written; the verdict becomes the exit code."""
        run = self._run
        if run is None:
            return
        if run.session.active:  # Ctrl-C: Locust stops its users only after this event
            self._environment.runner.quit()
            run.stop()
        for each in {*self._closing, run}:
            self._drain(each)
        gevent.joinall(list(self._closing.values()), timeout=_DRAIN_STEP_S)
        for each in {*self._closing, run}:
            self._finish(each)
        code = _NO_EVIDENCE if run.result is None else run.result["verdict"]["exit_code"]
        theirs = self._environment.process_exit_code
        if code or (theirs is None and not self._environment.runner.exceptions):
            self._environment.process_exit_code = code

    def quit(self) -> None:
        """Print the report, below Locust's own tables."""
        self._audience.close()
        run = self._run
        if run is None or run.result is None or self._environment.parsed_options.trilat_quiet:
            return
        from rich.console import Console  # noqa: PLC0415 - only at the very end of a run

        from trilat.correlator.report.console import widened  # noqa: PLC0415
        from trilat.correlator.report.terminal import render  # noqa: PLC0415

        render(
            run.result,
            widened(Console()),
            result_path=run.directory.result,
            report_path=run.directory.report,
        )

    def _make_directory(self, *, again: bool = False) -> RunDirectory:
        options = self._environment.parsed_options
        # `trilat run` names the first run, as it names the directory after it.
        run_id = new_run_id() if again else options.trilat_run_id or new_run_id()
        path = Path(options.trilat_out) if options.trilat_out else None
        if again and path is not None:
            number = 2
            while path.with_name(f"{path.name}-{number}").exists():
                number += 1
            path = path.with_name(f"{path.name}-{number}")
        directory = RunDirectory.create(path, run_id, time())
        # Locust sends these to the workers with its own options.
        options.trilat_run_id = run_id
        options.trilat_directory = str(directory.path.resolve())
        options.trilat_version = version("trilat")
        options.trilat_epoch = 0
        return directory

    def _start_anew(self, *, at_full: bool) -> None:
        """Locust's statistics are reset in this process: so are ours, in all of them."""
        run = self._run
        if run is None or not run.session.active:
            return
        epoch = run.start_anew()
        if self._leads:
            self._environment.parsed_options.trilat_epoch = epoch  # for workers that come later
            said = {"run": run.run_id, "epoch": epoch, "at_full": at_full}
            self._environment.runner.send_message(RESET, said)

    def _close(self, run: Run) -> None:
        run.wait()
        self._finish(run)

    def _finish(self, run: Run) -> None:
        """Write a run's result, unless it is there."""
        if run.result is not None:
            return
        try:
            if run is self._run:
                self._audience.end()
            result = run.finish()
            if result is not None:
                self._audience.tell(result, run.directory)
        except (TrilatError, OSError) as error:
            logger.error("no result could be made of this run: %s", error)
        except Exception as error:
            logger.error("no result could be made of this run: %r", error)
            logger.debug("details", exc_info=True)
        self._closing.pop(run, None)

    def _drain(self, run: Run) -> None:
        """Take what workers still send, where Locust itself has given up receiving.

        A master waits half a second for last reports. Users that take longer to stop, or a busy
        machine, and part of the run would be in no figure: Locust's own would lack it, too.
        """
        runner, crew = self._environment.runner, run.crew
        if crew is None:
            return
        until = monotonic() + run.patience_s
        while crew.is_awaiting and monotonic() < until:
            if len(runner.greenlet):  # it still receives
                gevent.sleep(0.05)
                continue
            received: Any = gevent.with_timeout(
                _DRAIN_STEP_S, runner.server.recv_from_client, timeout_value=None
            )
            if received is None:
                continue
            _, message = received
            if message.type == "stats":
                self._environment.events.worker_report.fire(
                    client_id=message.node_id, data=message.data
                )
            else:
                crew.heard(message.node_id)


def _locusts(data: dict[str, Any]) -> int:
    """Requests in Locust's own part of a report."""
    total = data.get("stats_total")
    number = total.get("num_requests") if isinstance(total, dict) else None
    return number if isinstance(number, int) and number > 0 else 0
