"""Once a second, while a run goes on: its figures for whoever looks at them.

These are the parent process (``live.json``), the page in Locust's web UI, and the CSV files. Where
nobody looks, nobody watches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gevent

from trilat.agent.records import Side
from trilat.correlator.run.rundir import RunDirectory
from trilat.correlator.sketches.book import SketchBook
from trilat.locust import faults
from trilat.locust.distribution.workers import Crew
from trilat.locust.session import Session

from .csv_files import CsvFiles
from .figures import Live
from .series import Series

if TYPE_CHECKING:  # httpx is loaded where it is used
    from .service_pulse import ServicePulse

__all__ = ["COLUMNS", "Watch"]

_EVERY_S = 1.0
_SIDES = tuple(str(side) for side in Side)
COLUMNS = (
    "elapsed_s",
    "users",
    "wanted_per_s",
    "reached_per_s",
    "failures",
    *(f"{statistic}_{side}_ms" for statistic in ("mean", "p95") for side in _SIDES),
    "generator_cpu_percent",
    "generator_lag_ms",
    "service_cpu_percent",
    "service_lag_ms",
)
"""What is kept of each second."""


class Watch:
    """Looks once a second, from now until it is stopped.

    Attributes:
        run_id: of the run that is looked at.
        series: its seconds; `COLUMNS`.
        ended: the run has ended, and all of it is attributed.

    Args:
        session: the run in this process.
        crew: the workers, in a master.
        directory: for ``live.json``; None: nobody reads it.
        csv: the CSV files, where some are wanted.
        service: asks the service for its samples, where somebody does; stopped with this.
    """

    def __init__(
        self,
        session: Session,
        crew: Crew | None,
        directory: RunDirectory | None,
        csv: CsvFiles | None,
        service: ServicePulse | None,
    ) -> None:
        self.run_id = session.settings.run_id
        self.series = Series(COLUMNS)
        self.ended = False
        self._session = session
        self._directory = directory
        self._csv = csv
        self._service = service
        self._live = Live(session, crew, service)
        self._greenlet: Any = gevent.spawn(self._run)

    @property
    def figures(self) -> dict[str, Any]:
        """The figures of the last look; empty before the first one."""
        return self._live.figures

    @property
    def book(self) -> SketchBook:
        """What was attributed up to the last look, and maybe since."""
        return self._session.book

    def stop(self) -> None:
        """Look a last time: now everything is attributed."""
        self._greenlet.kill()
        self._look(last=True)
        if self._service is not None:
            self._service.stop()
        self.ended = True

    def _run(self) -> None:
        while True:
            gevent.sleep(_EVERY_S)
            self._look()

    def _look(self, *, last: bool = False) -> None:
        try:
            figures = self._live.look()
            self.series.add(_row(figures))
            if self._directory is not None:
                self._directory.write_json(self._directory.live, figures)
            if self._csv is not None:
                stats = self._session.environment.stats
                self._csv.write(self._live, self.book, stats, last=last)
        except Exception as error:  # noqa: BLE001 - fails open
            faults.note("showing a run's figures", error)


def _row(figures: dict[str, Any]) -> list[float | None]:
    recent, generator, service = (figures[key] for key in ("recent", "generator", "service"))
    return [
        figures["elapsed_s"],
        figures["users"],
        figures["target_rate_per_s"],
        figures["reached_per_s"],
        figures["failures"],
        *(
            None if recent[statistic] is None else recent[statistic][side]
            for statistic in ("mean", "p95")
            for side in _SIDES
        ),
        generator["cpu_percent"],
        generator["lag_ms"],
        service["cpu_percent"],
        service["lag_ms"],
    ]
