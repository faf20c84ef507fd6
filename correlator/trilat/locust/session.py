"""One run in one process: begins with Locust's ``test_start``, ends with its ``test_stop``."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, time_ns
from typing import Any

from locust.runners import MasterRunner
from trilat.agent.host import HostFacts, host_facts
from trilat.agent.marking import run_header
from trilat.agent.tcp import HAS_KERNEL_STAMPS
from trilat.correlator.book import SketchBook

from . import faults, sockets, tls
from .heartbeat import Heartbeat
from .marker import marker
from .pulse import Pulse
from .recent import RecentTimes
from .recorder import Recorder
from .schedule import Pace

__all__ = ["Session", "Settings", "users_by_class"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the options say to one process.

    Attributes:
        run_id: the run's id, the same in all processes.
        token: for the service's middleware; never written anywhere.
        kernel_stamps: take the kernel's receive stamps where there are some.
        target_rate: requests per second wanted of the whole run, or None.
    """

    run_id: str
    token: str | None
    kernel_stamps: bool
    target_rate: float | None


class Session:
    """Marks, records and samples while a test runs in this process.

    Attributes:
        users: users of each class at the height of the run.
        pace: tasks wanted and run.
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
        self._heartbeat: Heartbeat | None = None
        self._early: socket.socket | None = None
        self._began = perf_counter()
        stem = f"generator-{_safe(self.host.name)}-{os.getpid()}"
        if generates:
            self._start_recording(journals, stem)
        self._recent = RecentTimes()
        self.pulse = Pulse(samples / f"{stem}.jsonl", {"run": settings.run_id}, self._beat)

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
        """Seconds since the test started, or that it took."""
        return perf_counter() - self._began if self.measured_s is None else self.measured_s

    def stopping(self) -> None:
        """The load ends here: users are about to be stopped."""
        if self.measured_s is None:
            self.pulse.sample()
            self.measured_s = perf_counter() - self._began
            self.pace.stop()

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
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self.recorder is not None:
            self.environment.events.request.remove_listener(self.recorder.on_request)
            self.recorder.stop()

    def full(self) -> None:
        """All users of a stage are there: from now on a rate given by option is to be reached.

        A load shape has several stages; the one with the most users counts.
        """
        users = sum(users_by_class(self.environment.runner).values())
        if users > self._full_users:
            self._full_users = users
            self.full_at = (perf_counter(), self._requests)

    @property
    def since_full(self) -> tuple[float, int]:
        """Seconds and requests since all users were there; since the start if they never were."""
        at, requests = self.full_at or (self._began, 0)
        return max(self._began + self.elapsed_s - at, 0.0), self._requests - requests

    @property
    def _requests(self) -> int:
        """Counted here: Locust's own count may be reset."""
        recorded = self.recorder.requests if self.recorder is not None else 0
        return recorded + (self.counted_elsewhere() if self.counted_elsewhere else 0)

    def collect(self) -> SketchBook:
        """Everything attributed so far in this process."""
        if self.recorder is not None:
            self.book.merge(self.recorder.take_book())
        return self.book

    def _start_recording(self, journals: Path, stem: str) -> None:
        faults.counts.clear()
        sockets.install(kernel_stamps=self.kernel_stamps)
        tls.install(kernel_stamps=self.kernel_stamps)
        if self.kernel_stamps:
            self._early = sockets.ask_early()
        else:
            self._heartbeat = Heartbeat()
        facts = {
            "side": "generator",
            "run": self.settings.run_id,
            "pid": os.getpid(),
            "host": self.host.identity,
            "host_name": self.host.name,
            "started_wall_ns": self.started_wall_ns,
        }
        self.recorder = Recorder(journals, stem, facts, self.host.identity, self._heartbeat)
        self.environment.events.request.add_listener(self.recorder.on_request)
        self.pace.start(self.environment.runner.user_classes)
        marker.start(run_header(self.settings.run_id, self.settings.token))

    def _beat(self, seconds: float) -> dict[str, Any]:
        users = users_by_class(self.environment.runner)
        if sum(users.values()) > sum(self.users.values()):
            self.users = users
        if self.measured_s is None:
            self.pace.tick(users, seconds)
        return {
            "users": sum(users.values()),
            "requests": self.recorder.requests if self.recorder is not None else 0,
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


def _safe(name: str) -> str:
    """A host name as a part of a file name."""
    return "".join(c if c.isalnum() or c in "-." else "_" for c in name or socket.gethostname())
