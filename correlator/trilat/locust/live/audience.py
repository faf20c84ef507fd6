"""Who looks at a run.

While it goes on: the parent process, the web UI and the CSV files. When it has ended: the file of
its requests, and whoever listens to its result.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trilat.agent.errors import UsageError
from trilat.agent.marking import token_bytes
from trilat.correlator.run.rundir import RunDirectory
from trilat.locust.distribution.workers import Crew
from trilat.locust.events import fire_result
from trilat.locust.session import Session

from .csv_files import CsvFiles
from .requests_option import RequestsFile
from .watch import Watch
from .web import WebTab

if TYPE_CHECKING:
    from .service_pulse import ServicePulse

__all__ = ["Audience"]

_TOKEN_VARIABLE = "TRILAT_COLLECT_TOKEN"  # noqa: S105 - its name, as `trilat collect` has it


class Audience:
    """Has each run of a master or a local process watched for those who look.

    Attributes:
        watch: of the run that goes on or has ended last; None: of none so far, or nobody looks.

    Args:
        environment: Locust's, in its ``init`` event: the web UI is there and does not serve yet.

    Raises:
        OSError: the CSV files cannot be written.
        UsageError: the file of the requests cannot be written, or the service not be asked.
    """

    def __init__(self, environment: Any) -> None:
        options = environment.parsed_options
        self._environment = environment
        self.watch: Watch | None = None
        self._quiet: bool = options.trilat_quiet
        self._requests: RequestsFile | None = None
        if options.trilat_requests:
            self._requests = RequestsFile(Path(options.trilat_requests))
        self._csv: CsvFiles | None = None
        if options.csv_prefix:
            self._csv = CsvFiles(options.csv_prefix, full_history=options.stats_history_enabled)
        self._service = _service_of(options.trilat_collect)
        self._web = environment.web_ui is not None
        if self._web:
            WebTab(environment, self._csv, lambda: self.watch).install()

    def begin(self, session: Session, crew: Crew | None, directory: RunDirectory) -> None:
        """A run begins."""
        if self._quiet or self._csv is not None or self._web:
            live = directory if self._quiet else None
            service = None if self._service is None else self._service()
            self.watch = Watch(session, crew, live, self._csv, service)

    def end(self) -> None:
        """It has ended, and all of it is attributed."""
        if self.watch is not None:
            self.watch.stop()

    def tell(self, result: dict[str, Any], directory: RunDirectory) -> None:
        """Its result has been written."""
        if self._requests is not None:
            run_id, requests = result["run"]["run_id"], result["total"]["requests"]
            self._requests.write(directory, run_id, requests)
        fire_result(self._environment, result, directory.path)

    def close(self) -> None:
        """No run comes any more."""
        if self._csv is not None:
            self._csv.close()


def _service_of(url: str | None) -> Callable[[], ServicePulse] | None:
    """Begins to ask a service for its samples; None where nobody wants that.

    Raises:
        UsageError: the URL is none, or the token is not in the environment.
    """
    if not url:
        return None
    from trilat.correlator.collect.service_url import ServiceUrl  # noqa: PLC0415 - it loads httpx

    from .service_pulse import ServicePulse  # noqa: PLC0415

    ServiceUrl(url)
    token = os.environ.get(_TOKEN_VARIABLE, "")
    if not token:
        raise UsageError(f"--trilat-collect needs the token in the environment: {_TOKEN_VARIABLE}")
    token_bytes(token)
    return lambda: ServicePulse(url, token)
