"""The plugin: which of Locust's events begin, feed and end a run, in each kind of process.

A local process generates and judges. A worker generates and reports. A master generates nothing,
adds up what its workers report, and judges.

================ ============================ =========================== =====================
event            local                        worker                      master
================ ============================ =========================== =====================
init             make the run directory       -                            make the directory
test_start       begin to record              begin to record             tell the workers the
                                                                          run id (by options)
request          record                       record                      -
test_stopping    stop the clock               stop the clock              stop the clock
test_stop        stop, write the result       stop                        -
report_to_master -                            ship sketches               -
worker_report    -                             -                            merge
quitting         set the exit code            -                            write the result, set
                                                                          the exit code
quit             print the report             -                            print the report
================ ============================ =========================== =====================
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from time import time
from typing import Any, Literal

import gevent

from locust.runners import MasterRunner, WorkerRunner
from trilat.agent.errors import TrilatError, UsageError
from trilat.agent.marking import new_run_id, token_bytes
from trilat.correlator.finish import finish
from trilat.correlator.manifest import Manifest
from trilat.correlator.rundir import RunDirectory

from . import faults, workers
from .conditions import manifest_of, target_rate
from .live import snapshot
from .options import add_options
from .session import Session, Settings

__all__ = ["Plugin"]

logger = logging.getLogger("trilat.locust")

_NO_EVIDENCE = 5  # exit code where nothing can be said


class Plugin:
    """Holds the run of this process; one instance, its methods are Locust's listeners."""

    def __init__(self) -> None:
        self._environment: Any = None
        self._mode: Literal["local", "master", "worker"] = "local"
        self._directory: RunDirectory | None = None
        self._session: Session | None = None
        self._crew: workers.Crew | None = None
        self._live: Any = None
        self._result: dict[str, Any] | None = None

    def listen(self, events: Any) -> None:
        """Add the listeners to Locust's events."""
        events.init_command_line_parser.add_listener(lambda parser, **_: add_options(parser))
        events.init.add_listener(self.on_init)
        events.test_start.add_listener(_guarded(self.on_test_start))
        events.spawning_complete.add_listener(_guarded(self.on_spawning_complete))
        events.test_stopping.add_listener(_guarded(self.on_test_stopping))
        events.test_stop.add_listener(_guarded(self.on_test_stop))
        events.report_to_master.add_listener(_guarded(self.on_report_to_master))
        events.worker_report.add_listener(_guarded(self.on_worker_report))
        events.quitting.add_listener(_guarded(self.on_quitting))
        events.quit.add_listener(_guarded(self.on_quit))

    def on_init(self, environment: Any, runner: Any, **_: Any) -> None:
        """Make the run directory, so that a bad one stops Locust before the first request."""
        if environment.parsed_options is None:  # Locust used as a library, without options
            return
        self._environment = environment
        # Locust counts its run time from gevent's idea of now, which is as old as the last round
        # of the loop: imports and all that came since would be taken off the run.
        gevent.get_hub().loop.update_now()
        if isinstance(runner, WorkerRunner):
            self._mode = "worker"
            return
        self._mode = "master" if isinstance(runner, MasterRunner) else "local"
        try:
            if environment.parsed_options.trilat_token is not None:
                token_bytes(environment.parsed_options.trilat_token)
            self._make_directory()
        except TrilatError as error:
            print(f"trilat: error: {error}", file=sys.stderr)
            sys.exit(2)

    def on_test_start(self, **_: Any) -> None:
        """Begin a run in this process."""
        if self._environment is None:
            return
        if self._session is not None:  # another run from the web UI
            self._finish()
            self._make_directory(again=True)
        options = self._environment.parsed_options
        directory = self._run_directory(options)
        self._result = None
        self._session = Session(
            self._environment,
            Settings(
                run_id=options.trilat_run_id,
                token=options.trilat_token,
                kernel_stamps=not options.trilat_no_kernel_stamps,
                target_rate=options.trilat_target_rate,
            ),
            directory.journals,
            directory.samples,
            generates=self._mode != "master",
        )
        if self._mode == "worker":
            return
        self._crew = None
        if self._mode == "master":
            crew = self._crew = workers.Crew(self._session)
            self._session.counted_elsewhere = lambda: crew.requests
        directory.write_json(directory.manifest, self._manifest().to_json())
        if options.trilat_quiet:
            self._live = gevent.spawn(self._show_progress)

    def on_spawning_complete(self, **_: Any) -> None:
        """Note when all users are there."""
        if self._session is not None:
            self._session.full()

    def on_test_stopping(self, **_: Any) -> None:
        """The load ends here."""
        if self._session is not None:
            self._session.stopping()

    def on_test_stop(self, **_: Any) -> None:
        """End the run; where this process holds all of it, write its result."""
        if self._session is None:
            return
        self._session.stop()
        if self._mode == "local":
            self._finish()

    def on_report_to_master(self, data: dict[str, Any], **_: Any) -> None:
        """Add the worker's sketches to Locust's report."""
        if self._session is not None:
            data[workers.KEY] = workers.report(self._session)

    def on_worker_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        """Take a worker's sketches out of Locust's report."""
        if self._crew is not None:
            self._crew.receive(client_id, data)

    def on_quitting(self, environment: Any, **_: Any) -> None:
        """Write the result if that is still to be done; the verdict becomes the exit code."""
        if self._session is None or self._mode == "worker":
            return
        if self._session.active:  # Ctrl-C: Locust stops its users only after this event
            environment.runner.quit()
            self._session.stop()
        try:
            self._finish()
        except Exception as error:
            logger.error("no result could be made of this run: %s", error)
            logger.debug("details", exc_info=True)
        code = _NO_EVIDENCE if self._result is None else self._result["verdict"]["exit_code"]
        theirs = environment.process_exit_code
        if code or (theirs is None and not environment.runner.exceptions):
            environment.process_exit_code = code

    def on_quit(self, **_: Any) -> None:
        """Print the report, below Locust's own tables."""
        if self._result is None or self._directory is None:
            return
        if not self._environment.parsed_options.trilat_quiet:
            from rich.console import Console  # noqa: PLC0415 - only at the very end of a run

            from trilat.correlator.report.console import widened  # noqa: PLC0415
            from trilat.correlator.report.terminal import render  # noqa: PLC0415

            render(
                self._result,
                widened(Console()),
                result_path=self._directory.result,
                report_path=self._directory.report,
            )

    def _make_directory(self, *, again: bool = False) -> None:
        options = self._environment.parsed_options
        # `trilat run` names the first run, as it names the directory after it.
        run_id = new_run_id() if again else options.trilat_run_id or new_run_id()
        path = Path(options.trilat_out) if options.trilat_out else None
        if again and path is not None:
            number = 2
            while path.with_name(f"{path.name}-{number}").exists():
                number += 1
            path = path.with_name(f"{path.name}-{number}")
        self._directory = RunDirectory.create(path, run_id, time())
        # Locust sends these to the workers with its own options.
        options.trilat_run_id = run_id
        options.trilat_directory = str(self._directory.path.resolve())

    def _run_directory(self, options: Any) -> RunDirectory:
        if self._directory is not None:
            return self._directory
        # A worker: the master's directory where both see it, else one of its own beside it.
        if not options.trilat_run_id:
            raise UsageError("the master runs without trilat; import trilat.locust there too")
        shared = Path(getattr(options, "trilat_directory", "") or "/nonexistent")
        if shared.is_dir():
            return RunDirectory(shared)
        return RunDirectory.create(
            Path("trilat-runs") / f"worker-{options.trilat_run_id}-{os.getpid()}",
            options.trilat_run_id,
            time(),
        )

    def _manifest(self) -> Manifest:
        session, crew = self._session, self._crew
        assert session is not None
        if crew is not None:
            tasks, wanted, cpu = crew.tasks, crew.wanted, crew.cpu
            lost, stamps, same_host = crew.lost, crew.kernel_stamps, crew.same_host
        else:
            tasks, wanted = session.pace.run, session.pace.wanted
            use = session.pulse.cpu
            cpu = (use.mean, use.highest) if use.elapsed_s else None
            lost, stamps, same_host = session.lost, session.kernel_stamps, session.same_host
        return manifest_of(
            session,
            mode=self._mode,
            workers=len(crew) if crew is not None else 0,
            objectives=self._environment.parsed_options.trilat_slo,
            wanted=wanted,
            tasks=tasks,
            cpu=cpu,
            kernel_stamps=stamps,
            same_host=same_host,
            lost=lost,
        )

    def _finish(self) -> None:
        if self._result is not None or self._session is None or self._directory is None:
            return
        if self._live is not None:
            self._live.kill()
        self._result = finish(self._directory, self._manifest(), self._session.collect())

    def _cpu_now(self) -> float | None:
        """CPU of the busiest generating process, per cent of one core."""
        if self._crew is not None:
            return self._crew.cpu[0] if self._crew.cpu is not None else None
        return self._session.pulse.cpu.latest if self._session is not None else None

    def _show_progress(self) -> None:
        while True:
            gevent.sleep(1)
            session, directory = self._session, self._directory
            if session is None or directory is None:
                continue
            try:
                runner = self._environment.runner
                directory.write_json(
                    directory.live,
                    snapshot(
                        runner,
                        session.collect(),
                        session.elapsed_s,
                        target_rate(session),
                        self._cpu_now(),
                    ),
                )
            except Exception as error:  # noqa: BLE001 - fails open
                faults.note("progress", error)


def _guarded(listener: Any) -> Any:
    """A listener whose errors are counted and logged once: Locust would end the run with code 2."""

    def guarded(**event: Any) -> None:
        try:
            listener(**event)
        except TrilatError as error:
            logger.error("%s", error)
        except Exception as error:
            faults.note(listener.__name__, error)
            logger.debug("details", exc_info=True)

    return guarded
