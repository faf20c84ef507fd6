"""One run in one process: begins with Locust's ``test_start``, ends with its ``test_stop``."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, time_ns
from typing import Any

from locust.runners import MasterRunner
from trilat.agent.host import HostFacts, host_facts
from trilat.agent.marking import run_header
from trilat.agent.tcp import HAS_KERNEL_STAMPS
from trilat.correlator.sketches.book import SketchBook
from trilat.locust.health.hub import HubWatch, watch_hub
from trilat.locust.health.pulse import Pulse
from trilat.locust.load.arrivals import Pace
from trilat.locust.load.stages import Asked, Stages
from trilat.locust.marks import sockets, tls
from trilat.locust.marks.marker import marker
from trilat.locust.recent import RecentTimes

from . import faults
from .recorder import Recorder
from .settings import Settings

__all__ = ["Session", "safe", "users_by_class"]

_CLOSE_NS = 5_000_000


class Session:
    """Marks, records and samples while a test runs in this process.

    Attributes:
        identity: the id of this process' part in the run; another process has another.
        pid: the number of this process.
        epoch: how often Locust's statistics have been reset in this run.
        left_out: requests of this process before that.
        reset_wall_ns: when that was; None: never.
        users: users of each class at the height of the run.
        pace: tasks wanted and run.
        stages: what was asked for, one after the other.
        book: what was attributed, as of the last `collect`.
        counted_elsewhere: how many requests other processes have made, in a master.

    Args:
        environment: Locust's environment.
        settings: what the options say.
        journals: directory for journals; it exists.
        samples: directory for samples; it exists.
        generates: whether this process runs users (a master does not).
    """

    def __init__(
        self,
        environment: Any,
        settings: Settings,
        journals: Path,
        samples: Path,
        *,
        generates: bool,
    ) -> None:
        self.environment = environment
        self.settings = settings
        self.host: HostFacts = host_facts()
        self.identity = secrets.token_hex(8)
        self.pid = os.getpid()
        self.epoch = settings.epoch
        self.left_out = 0
        self.reset_wall_ns: int | None = None
        self.started_wall_ns = time_ns()
        self.ended_wall_ns: int | None = None
        self.measured_s: float | None = None
        self.users: dict[str, int] = {}
        self.full_at: tuple[float, int] | None = None
        self._full_users = 0
        self.counted_elsewhere: Callable[[], int] | None = None
        self.pace = Pace()
        self.book = SketchBook()
        self.recorder: Recorder | None = None
        self._hub: HubWatch | None = None
        self._early: socket.socket | None = None
        self._began = self._counts_since = perf_counter()
        runner = environment.runner
        self.stages = Stages(runner.user_classes, Asked.of(runner))
        # Containers number their processes alike, and files of several come to one folder.
        stem = f"generator-{safe(self.host.name)}-{self.pid}-{self.identity[:8]}"
        if generates:
            self._start_recording(journals, stem)
        self._recent = RecentTimes()
        facts = {"run": settings.run_id}
        self.pulse = Pulse(samples / f"{stem}.jsonl", facts, self._beat, self._hub)

    @property
    def active(self) -> bool:
        """Whether the test still runs."""
        return self.ended_wall_ns is None

    @property
    def kernel_stamps(self) -> bool:
        """Whether receive stamps are taken."""
        return self.settings.kernel_stamps and HAS_KERNEL_STAMPS

    @property
    def same_host(self) -> bool | None:
        """Whether the services seen so far run on this host; None: none was seen."""
        return self.recorder.same_host if self.recorder is not None else None

    @property
    def lost(self) -> dict[str, int]:
        """Counters of what is missing from the evidence."""
        return self.recorder.lost if self.recorder is not None else {}

    @property
    def elapsed_s(self) -> float:
        """Seconds since the test started or was reset, or that it took from then on."""
        if self.measured_s is not None:
            return self.measured_s
        return perf_counter() - self._counts_since

    @property
    def warm_up_s(self) -> float:
        """Seconds before the last reset, which count no more."""
        return self._counts_since - self._began

    @property
    def users_now(self) -> int:
        """Users that run now, in all processes of the run."""
        return sum(users_by_class(self.environment.runner).values())

    def start_anew(self, epoch: int) -> None:
        """Leave out what came so far: Locust's statistics are reset.

        Args:
            epoch: how often that has happened in this run, with this time.
        """
        self.pulse.sample()  # the schedules' time so far goes with the rest
        self.epoch = epoch
        self.reset_wall_ns = time_ns()
        self._counts_since = perf_counter()
        self.full_at, self._full_users = None, 0
        self.pace.start_anew()
        if self.recorder is not None:
            self.recorder.start_anew(epoch)
            self.left_out = self.recorder.requests
        self.book = SketchBook()

    def stopping(self) -> None:
        """The load ends here: users are about to be stopped."""
        if self.measured_s is None:
            self.pulse.sample()
            self.measured_s = perf_counter() - self._counts_since
            self.pace.stop()
            counts = users_by_class(self.environment.runner)
            self.stages.stop(perf_counter() - self._began, counts)

    def stop(self) -> None:
        """The users of this process have stopped; attribute what is left."""
        if not self.active:
            return
        self.stopping()
        self.ended_wall_ns = time_ns()
        marker.stop()
        self.pulse.stop()
        if self._early is not None:
            self._early.close()
        if self.recorder is not None:
            self.environment.events.request.remove_listener(self.recorder.on_request)
            self.recorder.stop()

    def full(self) -> None:
        """All users of a stage are there: from now on a rate given by option is to be reached.

        A load shape has several stages; the one with the most users counts.
        """
        counts = users_by_class(self.environment.runner)
        self.stages.complete(perf_counter() - self._began, counts)
        self._count_pace()
        users = sum(counts.values())
        if users > self._full_users:
            self._full_users = users
            self.full_at = (perf_counter(), self.requests)

    @property
    def since_full(self) -> tuple[float, int]:
        """Seconds and requests since all users were there; since the start if they never were."""
        at, requests = self.full_at or (self._counts_since, 0)
        return max(self._counts_since + self.elapsed_s - at, 0.0), self.requests - requests

    @property
    def requests(self) -> int:
        """Requests so far, in all processes, also those before a reset."""
        return self.recorded + (self.counted_elsewhere() if self.counted_elsewhere else 0)

    @property
    def recorded(self) -> int:
        """Requests of this process so far, also those before a reset."""
        return self.recorder.requests if self.recorder is not None else 0

    def take_book(self) -> SketchBook:
        """What was attributed in this process since the last call; for a worker's report."""
        return self.recorder.take_book() if self.recorder is not None else SketchBook()

    def collect(self) -> SketchBook:
        """Everything attributed so far in this process."""
        if self.recorder is not None:
            self.book.merge(self.take_book())
        return self.book

    def _start_recording(self, journals: Path, stem: str) -> None:
        faults.counts.clear()
        sockets.install(kernel_stamps=self.kernel_stamps)
        tls.install(kernel_stamps=self.kernel_stamps)
        if self.kernel_stamps:
            self._early = sockets.ask_early()
            self._hub = watch_hub()
        else:  # its timer then estimates for each request how long the answer lay unread
            self._hub = watch_hub(_CLOSE_NS)
        facts = {
            "side": "generator",
            "run": self.settings.run_id,
            "session": self.identity,
            "epoch": self.epoch,
            "pid": self.pid,
            "host": self.host.identity,
            "host_name": self.host.name,
            "started_wall_ns": self.started_wall_ns,
        }
        heartbeat = None
        if self._hub is not None and not self.kernel_stamps:
            heartbeat = self._hub.heartbeat
        self.recorder = Recorder(journals, stem, facts, self.host.identity, heartbeat)
        self.recorder.listen(self.environment.events.request)
        self.pace.start(self.environment.runner.user_classes)
        marker.start(run_header(self.settings.run_id, self.settings.token))

    def wants(self, asked: Asked) -> None:
        """Another number of users is asked for while the test runs."""
        if self.measured_s is None:
            counts = users_by_class(self.environment.runner)
            self.stages.change(perf_counter() - self._began, counts, asked)

    def _count_pace(self) -> None:
        if self.measured_s is None:
            greenlets = self.environment.runner.user_greenlets
            self.pace.tick([greenlet.args[0] for greenlet in list(greenlets) if greenlet.args])

    def _beat(self, _: float) -> dict[str, Any]:
        users = users_by_class(self.environment.runner)
        if sum(users.values()) > sum(self.users.values()):
            self.users = users
        self._count_pace()
        return {
            "users": sum(users.values()),
            "requests": self.recorded,
            "wanted": round(self.pace.wanted, 3),
            "run": self.pace.run,
            **self._recent.take(self.environment.stats),
        }


def users_by_class(runner: Any) -> dict[str, int]:
    """How many users of each class there are, in all processes of the run."""
    return dict(
        runner.reported_user_classes_count
        if isinstance(runner, MasterRunner)
        else runner.user_classes_count
    )


def safe(name: str) -> str:
    """A host name as a part of a file name."""
    return "".join(c if c.isalnum() or c in "-." else "_" for c in name or socket.gethostname())
