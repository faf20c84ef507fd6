"""One run of a master or a local process: from its first request to its written result."""

from __future__ import annotations

import json
from time import monotonic
from typing import Any, Literal

import gevent

from locust.runners import STATE_MISSING
from trilat.agent.samples import SampleWriter
from trilat.correlator.finish import finish
from trilat.correlator.run.manifest import Failure, Manifest, Reset
from trilat.correlator.run.rundir import RunDirectory
from trilat.locust.distribution.reports import TAKEN, Report
from trilat.locust.distribution.workers import Crew

from . import faults
from .conditions import failures_of, manifest_of
from .session import Session, safe
from .settings import settings_of

__all__ = ["Run"]

_LAST_REPORTS_S = 10.0  # beyond Locust's --stop-timeout
_LOOK_EVERY_S = 0.05
_TICK_S = 1.0


class Run:
    """Holds what belongs to one run, so that nothing of it gets into the next.

    Attributes:
        directory: where it is written.
        session: its part in this process.
        crew: its workers; None in a local process.
        result: what was written; None before that.

    Args:
        environment: Locust's.
        directory: as above.
        leads: whether workers make the load, and this process is their master.
    """

    def __init__(self, environment: Any, directory: RunDirectory, *, leads: bool) -> None:
        options = environment.parsed_options
        self.directory = directory
        self.session = Session(
            environment,
            settings_of(options, options.trilat_run_id),
            directory.journals,
            directory.samples,
            generates=not leads,
        )
        self.crew = crew = Crew(self.session, self._confirm, self._keep) if leads else None
        self.result: dict[str, Any] | None = None
        self._environment = environment
        self._samples: dict[str, SampleWriter] = {}
        self._failures: list[Failure] | None = None
        self._failures_then: list[Failure] = []
        self._resets = 0
        self._finishing = False
        self._looking: Any = None
        if crew is not None:
            self.session.counted_elsewhere = lambda: crew.requests
            self._looking = gevent.spawn(self._look_after, crew)
        self.keep_manifest()

    def keep_manifest(self) -> None:
        """Write the run's facts as of now: a run may be cut off."""
        self.directory.write_json(self.directory.manifest, self.manifest().to_json())

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.session.settings.run_id

    def start_anew(self) -> int:
        """Leave out what came so far: Locust's statistics are reset.

        Returns:
            How often that has happened in this run.
        """
        self._resets += 1
        self.session.start_anew(self._resets)
        if self.crew is not None:
            self.crew.start_anew()
        return self._resets

    def receive(self, client_id: str, said: Any, locusts: int) -> None:
        """Take in what a worker says of this run; see `Crew.receive`."""
        if self.crew is not None and not self._finishing:
            self.crew.receive(client_id, said, locusts)

    def stop(self) -> None:
        """The load has ended."""
        self.session.stop()
        if self.crew is not None:
            workers = self._environment.runner.clients.all
            self.crew.expect(each.id for each in workers if each.state != STATE_MISSING)
        self._failures_then = failures_of(self._environment)

    def succeeded(self) -> None:
        """Another run begins: what Locust tells of from now on is of that one.

        Last reports of this one may still come.
        """
        self._failures = self._failures_then

    @property
    def patience_s(self) -> float:
        """How long to wait for the last reports, at most."""
        return float(self._environment.stop_timeout or 0) + _LAST_REPORTS_S

    def wait(self) -> None:
        """Wait until the last reports of all workers that still live are there."""
        if self.crew is None:
            return
        until = monotonic() + self.patience_s
        while self.crew.is_awaiting and monotonic() < until:
            gevent.sleep(_LOOK_EVERY_S)

    def finish(self) -> dict[str, Any] | None:
        """Write all that is known of the run; once only.

        Returns:
            The result; None where it is being written already.

        Raises:
            TrilatError: an objective cannot be read.
            OSError: a file cannot be written.
        """
        if self._finishing:
            return None
        self._finishing = True
        try:
            return self._finish()
        except BaseException:
            self._finishing = False
            raise

    def _finish(self) -> dict[str, Any]:
        self.session.stop()
        if self._looking is not None:
            self._looking.kill(block=False)
        if self.crew is not None:
            for session, member in self.crew.members.items():
                self.directory.write_worker(session, member.book)
        for samples in self._samples.values():
            samples.close()
        result = finish(self.directory, self.manifest(), self.session.collect())
        self.result = result
        return result

    def manifest(self) -> Manifest:
        """The run's facts as of now."""
        session, crew = self.session, self.crew
        mode: Literal["local", "master"] = "local"
        if crew is not None:
            mode = "master"
            tasks, wanted, cpu = crew.tasks, crew.wanted, crew.cpu
            lost, stamps, same_host = crew.lost, crew.kernel_stamps, crew.same_host
        else:
            tasks, wanted = session.pace.run, session.pace.wanted
            use = session.pulse.cpu
            cpu = (use.mean, use.highest) if use.elapsed_s else None
            lost, stamps, same_host = session.lost, session.kernel_stamps, session.same_host
        return manifest_of(
            session,
            mode=mode,
            workers=len(crew) if crew is not None else 0,
            objectives=self._environment.parsed_options.trilat_slo,
            wanted=wanted,
            tasks=tasks,
            cpu=cpu,
            kernel_stamps=stamps,
            same_host=same_host,
            lost=lost,
            crew=None if crew is None else crew.facts(),
            reset=self._reset(),
            failures=self._failures,
        )

    def _reset(self) -> Reset | None:
        if self.session.reset_wall_ns is None:
            return None
        crew = self.crew
        return {
            "times": self._resets,
            "wall_ns": self.session.reset_wall_ns,
            "left_out": self.session.left_out if crew is None else crew.left_out,
            "counted_late": 0 if crew is None else crew.counted_late,
        }

    def _confirm(self, client_id: str, session: str, number: int) -> None:
        """Tell a worker up to which parcel it was taken."""
        said = {"session": session, "number": number}
        self._environment.runner.send_message(TAKEN, said, client_id)

    def _keep(self, report: Report) -> None:
        """Write the samples of a worker whose own file of them is elsewhere."""
        samples = self._samples.get(report.session)
        if samples is None:
            name = f"generator-{safe(report.host)}-{report.pid}-{report.session[:8]}.jsonl"
            facts = {
                "side": "generator",
                "run": report.run,
                "host": report.host_identity,
                "host_name": report.host,
                "pid": report.pid,
            }
            samples = self._samples[report.session] = SampleWriter(
                self.directory.samples / name, facts
            )
        for line in report.samples:
            sample = json.loads(line)
            samples.write(str(sample.pop("kind")), sample)

    def _look_after(self, crew: Crew) -> None:
        """Once a second, who is gone."""
        runner = self._environment.runner
        before = monotonic()
        while self.session.active:
            gevent.sleep(_TICK_S)
            now = monotonic()
            try:
                crew.tick(now - before, runner.user_count, runner.target_user_count)
            except Exception as error:  # noqa: BLE001 - fails open
                faults.note("looking after the workers", error)
            before = now
