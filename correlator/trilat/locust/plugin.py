"""The plugin: which of Locust's events begin, feed and end a run, in each kind of process.

A local process generates and judges. A worker generates and reports. A master generates nothing,
adds up what its workers report, and judges.

================= =========================== =========================== =====================
event             local                       worker                      master
================= =========================== =========================== =====================
init              make the run directory      listen to the master        make the directory
test_start        begin to record             begin to record             tell the workers the
                                                                          run id (by options)
request           record                      record                      -
spawning_complete note it, or start anew      note it, or start anew      and tell the workers
reset_stats       start anew                  -                           and tell the workers
test_stopping     stop the clock              stop the clock              stop the clock
test_stop         stop, write the result      stop                        wait for the last
                                                                          reports, then write it
report_to_master  -                           ship sketches               -
worker_report     -                           -                           merge
heartbeat_sent    -                           -                           note who lives
quitting          set the exit code           report what is left         write the result, set
                                                                          the exit code
quit              print the report            -                           print the report
================= =========================== =========================== =====================
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import gevent

from locust.runners import MasterRunner, WorkerRunner
from trilat.agent.errors import TrilatError
from trilat.locust.distribution.worker import Worker

from . import faults
from .conductor import Conductor
from .events import add_events
from .options import add_options

__all__ = ["Plugin"]

logger = logging.getLogger("trilat.locust")


class Plugin:
    """Holds the part that this process plays; one instance, its methods are Locust's listeners."""

    def __init__(self) -> None:
        self._conductor: Conductor | None = None
        self._worker: Worker | None = None
        self._begun_early = False

    def listen(self, events: Any) -> None:
        """Add the listeners to Locust's events, and our own events to them."""
        add_events(events)
        events.init_command_line_parser.add_listener(lambda parser, **_: add_options(parser))
        events.init.add_listener(self.on_init)
        for event in (
            "test_start",
            "spawning_complete",
            "reset_stats",
            "test_stopping",
            "test_stop",
            "report_to_master",
            "worker_report",
            "heartbeat_sent",
            "quitting",
            "quit",
        ):
            getattr(events, event).add_listener(_guarded(getattr(self, f"on_{event}")))

    def on_init(self, environment: Any, runner: Any, **_: Any) -> None:
        """Make the run directory, so that a bad one stops Locust before the first request."""
        if environment.parsed_options is None:  # Locust used as a library, without options
            return
        add_events(environment.events)
        # Locust counts its run time from gevent's idea of now, which is as old as the last round
        # of the loop: imports and all that came since would be taken off the run.
        gevent.get_hub().loop.update_now()
        if isinstance(runner, WorkerRunner):
            self._worker = Worker(environment)
            if self._begun_early:
                _guarded(self.on_test_start)()
            return
        try:
            self._conductor = Conductor(environment, leads=isinstance(runner, MasterRunner))
        except (TrilatError, OSError) as error:
            print(f"trilat: error: {error}", file=sys.stderr)
            sys.exit(2)

    @property
    def _part(self) -> Conductor | Worker | None:
        return self._conductor or self._worker

    def on_test_start(self, **_: Any) -> None:
        """Begin a run in this process.

        A worker that joins a running test may hear of it while it still connects, before ``init``;
        its users start after that.
        """
        if self._part is not None:
            self._part.start()
        else:
            self._begun_early = True

    def on_spawning_complete(self, **_: Any) -> None:
        """All users are there; Locust may reset its statistics now."""
        if self._part is not None:
            self._part.full()

    def on_reset_stats(self, **_: Any) -> None:
        """Somebody resets the statistics in the web UI."""
        if self._conductor is not None:
            self._conductor.reset()

    def on_test_stopping(self, **_: Any) -> None:
        """The load ends here."""
        if self._part is not None:
            self._part.stopping()

    def on_test_stop(self, **_: Any) -> None:
        """The load has ended."""
        if self._part is not None:
            self._part.stop()

    def on_report_to_master(self, data: dict[str, Any], **_: Any) -> None:
        """Add the worker's sketches to Locust's report."""
        if self._worker is not None:
            self._worker.report(data)

    def on_worker_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        """Take a worker's sketches out of Locust's report."""
        if self._conductor is not None:
            self._conductor.receive(client_id, data)

    def on_heartbeat_sent(self, client_id: str, **_: Any) -> None:
        """A master has answered a worker's heartbeat."""
        if self._conductor is not None:
            self._conductor.heard(client_id)

    def on_quitting(self, **_: Any) -> None:
        """Write the result if that is still to be done; the verdict becomes the exit code."""
        if self._conductor is not None:
            self._conductor.quitting()
        elif self._worker is not None:
            self._worker.quit()

    def on_quit(self, **_: Any) -> None:
        """Print the report, below Locust's own tables."""
        if self._conductor is not None:
            self._conductor.quit()


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
