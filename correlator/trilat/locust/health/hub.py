"""What kept gevent's hub from its users: how long, and which line of code.

The hub's lag is sampled by a timer on it (`Heartbeat`). A thread of the operating system's looks at
the stack of the hub's thread while that timer is overdue (`trilat.agent.observer`), and names the
line of the locustfile that has it. Not every late tick is one line's doing: many users that are
ready at once take their turns, and the last one waits as long as if a line had blocked it. So a
line is named only where it was seen to keep the thread all along.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trilat.agent.blocks import (
    COLLECTING,
    IN_TURN,
    OTHER,
    STARVED,
    UNSEEN,
    BlockedPlace,
    BlockedPlaces,
    BlockEvent,
)
from trilat.agent.looks import Looks
from trilat.agent.observer import Observer, Rhythm
from trilat.agent.pauses import CollectorPauses
from trilat.agent.stacks import Place, Stack
from trilat.locust import faults

from .heartbeat import Heartbeat

__all__ = ["HubWatch", "watch_hub"]

_RHYTHM = Rhythm(look_ns=8_000_000, often_ns=8_000_000, seldom_ns=50_000_000, many=10)
_CALM_REST_NS = 120_000_000
_ALERT_REST_NS = 30_000_000
_ALERT_SECONDS = 3
_LOOKS_PER_S = 25  # each takes about 0.1 ms, and is one more switch of threads
_PLACES_PER_S = 5
_PLACES = 1000
_EVENTS = 200
_MOSTLY = 0.75  # of the looks at a block find one greenlet, where it is one greenlet's doing
_GROWN = 1.25  # a stack is told again where the block was longer by this factor


def watch_hub(period_ns: int | None = None) -> HubWatch | None:
    """Watch the hub that runs here; None where that fails, and the run goes on without."""
    try:
        return HubWatch(period_ns)
    except Exception as error:  # noqa: BLE001 - fails open
        faults.note("watching the hub", error)
        return None


class HubWatch:
    """Watches the hub that runs here, until stopped.

    Attributes:
        heartbeat: the timer on the hub.

    Args:
        period_ns: of the timer, where it is to be always the same; nanoseconds.
    """

    def __init__(self, period_ns: int | None = None) -> None:
        self.heartbeat = Heartbeat() if period_ns is None else Heartbeat(period_ns, period_ns)
        self._pauses = CollectorPauses()
        self._events: deque[BlockEvent] = deque(maxlen=_EVENTS)
        self._told: dict[Place, int] = {}  # the longest block whose stack was told
        self._alert_seconds = 0
        self._blocked_ns = self._paused_ns = 0
        self._waited_ns = self.heartbeat.waited_ns
        self._observer = Observer(
            self.heartbeat,
            on_block=self._take_in,
            blame=self._blame,
            every_second=self._each_second,
            rhythm=_RHYTHM,
        )
        self._observer.rest_ns = _CALM_REST_NS
        self._observer.looks_left = _LOOKS_PER_S
        self._observer.start()

    @property
    def errors(self) -> int:
        """Exceptions inside the timer and the watching thread."""
        return self.heartbeat.errors + self._observer.errors

    def stop(self) -> None:
        """End the timer and the thread."""
        self.heartbeat.stop()
        self._observer.stop()
        self._observer.beat()  # what ended just now is told as well
        self._pauses.close()

    def read(self) -> dict[str, Any]:
        """What the hub's lag was since the last call, as keys of a sample."""
        heartbeat = self.heartbeat
        lag = heartbeat.take_lag()
        blocked, self._blocked_ns = heartbeat.blocked_ns - self._blocked_ns, heartbeat.blocked_ns
        paused, self._paused_ns = heartbeat.paused_ns - self._paused_ns, heartbeat.paused_ns
        before, self._waited_ns = self._waited_ns, heartbeat.waited_ns
        known = before is not None and self._waited_ns is not None
        waited = (self._waited_ns or 0) - (before or 0)
        return {
            "hub_lag_ms": round(lag.mean_ms, 3),
            "hub_lag_max_ms": round(lag.max_ns / 1e6, 3),
            "hub_lag_spans_ms": lag.spans_ms(),
            "hub_blocked_ms": round(blocked / 1e6, 3),
            "hub_paused_ms": round(paused / 1e6, 3),
            "cpu_wait_ms": round(waited / 1e6, 3) if known else None,
        }

    def blocked(self) -> Iterator[dict[str, Any]]:
        """What blocked the hub since the last call, summed up by line, as samples.

        At most five lines a call; the rest is one more. A stack stands with a line's first block,
        and with one that is much longer than those before.
        """
        sums = BlockedPlaces(_PLACES)
        while self._events:
            sums.add(self._events.popleft())
        places = sums.by_total()
        others = BlockedPlace(OTHER)
        for each in places[_PLACES_PER_S:]:
            others.merge(replace(each, stack=()))
        return map(self._line, [*places[:_PLACES_PER_S], *([others] if others.count else [])])

    def _line(self, each: BlockedPlace) -> dict[str, Any]:
        place = each.place
        longest = self._told.get(place)
        told = longest is None or each.max_ns > longest * _GROWN
        if told and len(self._told) < _PLACES:
            self._told[place] = each.max_ns
        return {
            "count": each.count,
            "took_ms": round(each.total_ns / 1e6, 3),
            "max_ms": round(each.max_ns / 1e6, 3),
            "file": place.file,
            "line": place.line,
            "function": place.function,
            "stack": list(each.stack) if told else [],
        }

    def _blame(self, looks: Looks, due_ns: int, took_ns: int) -> Stack:
        """What is to be named for a block, as far as that is certain; in the watching thread."""
        seen = looks.most_seen()
        if self.heartbeat.starved_at(due_ns):
            return replace(seen, place=STARVED)
        if 2 * self._pauses.between(due_ns, due_ns + took_ns) >= took_ns:
            return replace(seen, place=COLLECTING)
        # A call into C that keeps the interpreter keeps the watching thread waiting, too; and no
        # greenlet gives way within one.
        in_one, held = max(looks.origins.values(), default=0), 2 * looks.overslept_ns >= took_ns
        if in_one < _MOSTLY * looks.origins.total() or (looks.between > in_one and not held):
            return replace(seen, place=IN_TURN)
        return seen if in_one > 1 or held else replace(seen, place=UNSEEN)

    def _take_in(self, event: BlockEvent) -> None:
        """A block has ended: look often for a while; in the watching thread."""
        self._events.append(event)
        self._alert_seconds = _ALERT_SECONDS
        self._observer.rest_ns = _ALERT_REST_NS

    def _each_second(self) -> None:
        """Look seldom again where nothing was blocked for a while; in the watching thread."""
        self._observer.looks_left = _LOOKS_PER_S
        self._alert_seconds -= 1
        if self._alert_seconds <= 0:
            self._observer.rest_ns = _CALM_REST_NS
