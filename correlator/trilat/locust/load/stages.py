"""The stages of a run as they were asked for: how many users, how fast, from when to when.

Each call of ``runner.start`` asks for a number of users: the first one, those that a load shape's
``tick`` leads to, and those of the web UI. It begins a ramp, which ends when all users are there;
then they hold until the next call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from trilat.correlator.run.manifest import StageFacts
from trilat.locust import faults

from .schedule import rate_of

__all__ = ["Asked", "Stages", "watch_starts"]

_STAGES_MAX = 100
_RAMP_MIN_S = 1.5  # a shorter one is no stage of its own; a master looks for up to a second
_SLIVER_S = 0.05


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call of ``runner.start`` asks for.

    Attributes:
        users: how many.
        spawn_rate: how many of them come each second.
    """

    users: int = 0
    spawn_rate: float = 1.0

    @property
    def step(self) -> int:
        """How many users Locust starts at once."""
        return max(int(self.spawn_rate), 1)

    @classmethod
    def of(cls, runner: Any) -> Asked:
        """What was asked for last, where `watch_starts` looked on."""
        asked: Asked = getattr(runner, "trilat_asked", cls())
        return asked


def watch_starts(runner: Any, listener: Callable[[Asked], None]) -> None:
    """Call a listener before each ``runner.start``."""
    plain = runner.start

    def start(*args: Any, **kwargs: Any) -> Any:
        try:
            names = ("user_count", "spawn_rate")
            users, rate = ({**dict(zip(names, args, strict=False)), **kwargs}[n] for n in names)
            asked = runner.trilat_asked = Asked(int(users), float(rate))
            listener(asked)
        except Exception as error:  # noqa: BLE001 - fails open
            faults.note("noting a stage", error)
        return plain(*args, **kwargs)

    runner.start = start


class Stages:
    """Collects the stages of one run; at most 100, of which the shortest become one.

    Args:
        user_classes: all user classes of the run.
        asked: for at its start.
    """

    def __init__(self, user_classes: list[type[Any]], asked: Asked) -> None:
        self._user_classes = user_classes
        self._stages: list[StageFacts] = []
        self._counts: dict[str, int] = {}
        self._begin(0.0, asked.users, asked.step)

    def change(self, at_s: float, counts: Mapping[str, int], asked: Asked) -> None:
        """Another number of users is wanted.

        Args:
            at_s: seconds since the start of the run.
            counts: the users of each class there are now.
            asked: for from now on.
        """
        self._end(at_s, counts)
        self._begin(at_s, asked.users, asked.step)

    def complete(self, at_s: float, counts: Mapping[str, int]) -> None:
        """All users that were wanted are there; see `change`."""
        if not (self._stages and self._stages[-1]["ramp"]):
            return
        ramp = self._stages[-1]
        self._end(at_s, counts)
        if at_s - ramp["from_s"] < _RAMP_MIN_S:
            self._stages = [stage for stage in self._stages if stage is not ramp]
            self._begin(ramp["from_s"], sum(counts.values()))
            self._stages[-1]["users_from"] = ramp["users_from"]
        else:
            self._begin(at_s, sum(counts.values()))

    def stop(self, at_s: float, counts: Mapping[str, int]) -> None:
        """The run ends; see `change`."""
        self._end(at_s, counts)

    def facts(self, target_rate: float | None) -> list[StageFacts]:
        """The stages so far.

        Args:
            target_rate: requests per second wanted by option; of the stages with most users.
        """
        stages = [stage.copy() for stage in _fewer(self._stages)]
        if target_rate is None:
            return stages
        most = max((stage["users"] for stage in stages), default=0)
        for stage in stages:
            full = not stage["ramp"] and stage["users"] == most
            stage["rate_from_per_s"] = stage["rate_to_per_s"] = target_rate if full else None
        return stages

    def _begin(self, at_s: float, users: int, step: int = 0) -> None:
        if len(self._stages) >= 2 * _STAGES_MAX:  # all of them have ended
            self._stages = _fewer(self._stages)
        now = sum(self._counts.values())
        rate = rate_of(self._user_classes, self._counts)
        self._stages.append(
            {
                "from_s": round(at_s, 3),
                "to_s": None,
                "users_from": now,
                "users": users,
                "ramp": step > 0,
                "step": step,
                "rate_from_per_s": rate,
                "rate_to_per_s": rate,
            }
        )

    def _end(self, at_s: float, counts: Mapping[str, int]) -> None:
        if not self._stages:
            return
        last = self._stages[-1]
        to_s = last["to_s"] = round(max(at_s, last["from_s"]), 3)
        if last["ramp"]:
            self._counts = dict(counts)
            last["users"] = sum(counts.values())
            last["rate_to_per_s"] = rate_of(self._user_classes, counts)
        if to_s - last["from_s"] < _SLIVER_S:
            self._stages.pop()


def _fewer(stages: list[StageFacts]) -> list[StageFacts]:
    """So many stages as there may be, the shortest ones put together."""
    stages = list(stages)
    while len(stages) > _STAGES_MAX:
        spans = [_end_of(after) - before["from_s"] for before, after in pairwise(stages)]
        at = spans.index(min(spans))
        first, second = stages[at : at + 2]
        stages[at : at + 2] = [
            {
                **second,
                "from_s": first["from_s"],
                "users_from": first["users_from"],
                "ramp": True,
                "rate_from_per_s": first["rate_from_per_s"],
            }
        ]
    return stages


def _end_of(stage: StageFacts) -> float:
    return stage["from_s"] if stage["to_s"] is None else stage["to_s"]
