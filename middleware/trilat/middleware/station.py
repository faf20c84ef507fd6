"""What one process of a service keeps of itself, whatever number of applications it serves.

It begins with the first event that a middleware sees: a server may import an application in one
process and fork its workers then. After a fork a child begins anew.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trilat.agent.blocks import BlockedPlaces
from trilat.agent.clock import SYSTEM_CLOCK, Clock
from trilat.agent.counters import Counters
from trilat.agent.errors import UsageError
from trilat.agent.families import PROCESS, Histogram
from trilat.agent.host import process_identity
from trilat.agent.lag import LoopLag
from trilat.agent.observer import Observer
from trilat.agent.workers import WorkerGroup

from .health import HEALTH, Health
from .rounds import Rounds
from .store import Store
from .threads import ThreadPoolWatch

if TYPE_CHECKING:
    from trilat.agent.journal import JournalWriter

__all__ = ["STATION", "Station"]

_LAG_AT = PROCESS.places["trilat_loop_lag_seconds"]
_WAIT_AT = PROCESS.places["trilat_thread_wait_seconds"]
_HISTOGRAMS = {m.name: m for m in PROCESS.metrics if isinstance(m, Histogram)}
_LAG = _HISTOGRAMS["trilat_loop_lag_seconds"]
_WAIT = _HISTOGRAMS["trilat_thread_wait_seconds"]

_SETTLE_TURNS = 50

_stations: weakref.WeakSet[Station] = weakref.WeakSet()


class Station:
    """One process' figures; what the middleware of all its applications write into.

    Args:
        health: what errors are counted into.
        clock: for durations.
        state: a directory for what the workers of a service share; None: see
            `trilat.agent.statedir.state_directory`.

    Attributes:
        entered: whether it has begun in this process.
        counters: the numbers of this process; ``view`` is all of them.
        lag: of the event loop.
        journal: where requests are recorded, or None.
        instance: see `trilat.agent.host.process_identity`; 0 before it has begun.
        begun: requests that have come.
        ended: requests that are done, background tasks too.
        lag_max_ns: the largest lag since `Rounds` last looked.
        directory: where journals and samples go, or None.
    """

    def __init__(
        self, *, health: Health = HEALTH, clock: Clock = SYSTEM_CLOCK, state: Path | None = None
    ) -> None:
        self.health = health
        self.directory: Path | None = None
        self._clock = clock
        self._group = WorkerGroup(state)
        self._caches: list[dict[Any, Any]] = []
        self._store: Store | None = None
        self.entered = False
        self._begin()
        _stations.add(self)

    @property
    def in_flight(self) -> int:
        """Requests that have come and are not done."""
        return self.begun - self.ended

    def journal_to(self, directory: Path) -> None:
        """Keep journals and samples in a directory.

        Raises:
            UsageError: they are kept in another one.
        """
        directory = directory.absolute()
        if self.directory not in {None, directory}:
            raise UsageError(
                f"this process journals to {self.directory}; one directory serves all its"
                f" applications, so {directory} cannot be a second one"
            )
        self.directory = directory
        if self.entered:
            self._open_store()

    def new_cache(self) -> dict[Any, Any]:
        """A dictionary that is emptied when the process turns out to be a fork of another."""
        cache: dict[Any, Any] = {}
        self._caches.append(cache)
        return cache

    def enter(self) -> None:
        """Begin in this process, and on the running loop; again on another loop. Never raises."""
        try:
            if not self.entered:
                self.entered = True  # what fails below is not tried again at each request
                self._enter()
            self._pool.attach()
            self.lag.wake()
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self.health.failed()

    async def settle(self) -> None:
        """The service ends, and this process perhaps with it: have all that is known on record.

        Requests that the server has cancelled get their turn to end. Never raises.
        """
        try:
            asyncio.get_running_loop()  # there are servers on another library
            for _ in range(_SETTLE_TURNS):
                if self.in_flight <= 0:
                    break
                await asyncio.sleep(0)
            if self.entered:
                self._observer.stop()  # it tells of blocks that have just ended
                self._rounds.go()
                self._observer.start()
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self.health.failed()

    def close(self) -> None:
        """End the thread and close the files; numbers stay readable for the other workers."""
        steps = [self._observer.stop, self._rounds.close, self.lag.stop]
        if self._store is not None:
            steps.insert(2, self._store.close)
        for step in steps:
            try:
                step()
            except Exception:  # noqa: BLE001 - a failure must not keep the others open
                self.health.failed()

    def forget(self) -> None:
        """This process is a fork of the one that began: nothing of that is its own."""
        self._rounds.forget()
        self._store = None
        self._begin()

    def _begin(self) -> None:
        self._clear_caches()
        self.entered = False
        self.instance = self.begun = self.ended = self.lag_max_ns = 0
        self.counters = Counters(None)
        self.view = self.counters.view
        self.journal: JournalWriter | None = None
        self.lag = LoopLag(self._clock, self._on_lag, in_flight=lambda: self.in_flight)
        self.blocks = BlockedPlaces()
        self._process_at = self.counters.block(PROCESS, ())
        self._pool = ThreadPoolWatch(self._on_wait, clock=self._clock, health=self.health)
        self._rounds = Rounds(self)
        self._observer = Observer(
            self.lag,
            on_block=self.blocks.add,
            every_second=self._rounds.go,
            clock=self._clock,
            on_error=self.health.failed,
        )

    def _enter(self) -> None:
        self.instance = process_identity()
        self.counters = self._group.enter({"side": "service", "instance": self.instance})
        self.view = self.counters.view
        self._process_at = self.counters.block(PROCESS, ())
        self._clear_caches()
        self._open_store()
        self._rounds.open(self._pool)
        self._observer.start()

    def _open_store(self) -> None:
        if self.directory is not None and self._store is None:
            self._store = Store(self.directory, self.instance, self._clock)
            self.journal = self._store.journal
            self._rounds.samples = self._store.samples
            self._clear_caches()

    def _clear_caches(self) -> None:
        for cache in self._caches:
            cache.clear()

    def _on_lag(self, lag_ns: int) -> None:
        _LAG.observe(self.view, self._process_at + _LAG_AT, lag_ns)
        self.lag_max_ns = max(self.lag_max_ns, lag_ns)

    def _on_wait(self, wait_ns: int) -> None:
        _WAIT.observe(self.view, self._process_at + _WAIT_AT, wait_ns)


def _forget_all() -> None:
    for station in list(_stations):
        station.forget()


def _close_all() -> None:
    for station in list(_stations):
        station.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
atexit.register(_close_all)

STATION = Station()
"""The process' own; what `TrilatMiddleware` uses unless told otherwise."""
