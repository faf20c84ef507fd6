"""What a locustfile asks for: the wait times of its user classes, and the rate they add up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from locust.contrib.fasthttp import FastHttpUser
from locust.user.task import TaskSet
from locust.user.users import HttpUser

__all__ = ["Pace", "client_of", "describe_wait_time", "task_rate"]

_TaskSet: Any = TaskSet
_plain_wait = _TaskSet.wait


def _closure(function: Any) -> Mapping[str, Any]:
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    return (
        {}
        if code is None
        else {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)}
    )


def _maker(function: Any) -> str:
    """Which of Locust's functions made this wait time, such as ``between``; else nothing."""
    if getattr(function, "__module__", None) != "locust.user.wait_time":
        return ""
    return str(function.__qualname__).partition(".")[0]


def describe_wait_time(user_class: type[Any]) -> str:
    """The wait time of a user class as one would write it, such as ``between(0.5, 1)``.

    ``constant_throughput(n)`` is ``constant_pacing(1/n)`` by the time Locust holds it; it is
    written as whichever of the two has the shorter number.
    """
    function = _wait_time_of(user_class)
    if function is None:
        return "none"
    values = _closure(function)
    match _maker(function):
        case "between":
            return f"between({values['min_wait']:g}, {values['max_wait']:g})"
        case "constant":
            return f"constant({values['wait_time']:g})"
        case "poisson":
            return f"poisson({values['rate']:g})"
        case "constant_pacing" | "constant_throughput":
            return _paced(float(values["wait_time"]))
    return "custom"


def _paced(pacing_s: float) -> str:
    pacing = f"{pacing_s:g}"
    throughput = f"{1 / pacing_s:g}" if pacing_s > 0 else ""
    if throughput and len(throughput) <= len(pacing):
        return f"constant_throughput({throughput})"
    return f"constant_pacing({pacing})"


def _wait_time_of(user_class: type[Any]) -> Callable[..., float] | None:
    """The wait time function as it stands in the class or a base, unbound."""
    for base in user_class.__mro__:
        if "wait_time" in vars(base):
            function = vars(base)["wait_time"]
            return None if base.__module__.startswith("locust.") else function
    return None


def task_rate(user_class: type[Any]) -> float | None:
    """Tasks per second that one user of the class is meant to run; None without a schedule."""
    function = _wait_time_of(user_class)
    if _maker(function) not in ("constant_pacing", "constant_throughput"):
        return None
    pacing = float(_closure(function)["wait_time"])
    return 1 / pacing if pacing > 0 else None


def client_of(user_class: type[Any]) -> Literal["HttpUser", "FastHttpUser", "other"]:
    """Which of Locust's HTTP clients a user class has."""
    if issubclass(user_class, FastHttpUser):
        return "FastHttpUser"
    return "HttpUser" if issubclass(user_class, HttpUser) else "other"


class Pace:
    """Tasks wanted and tasks run by paced users, counted over a run.

    Wanted is the number of users integrated over time, so ramps and load shapes need no special
    case; run is counted where every task of every TaskSet ends: in ``TaskSet.wait``.
    """

    def __init__(self) -> None:
        self.wanted = 0.0
        self.run = 0
        self._rates: dict[str, float] = {}
        self._users: dict[str, int] = {}
        self._paced: dict[type[Any], bool] = {}

    def start(self, user_classes: list[type[Any]]) -> None:
        """Begin to count for these user classes."""
        self.wanted, self.run, self._users = 0.0, 0, {}
        self._rates = {c.__name__: rate for c in user_classes if (rate := task_rate(c))}
        self._paced = {c: c.__name__ in self._rates for c in user_classes}
        pace = self

        def wait(self: Any) -> None:
            if pace._paced.get(type(self._user)):
                pace.run += 1
            _plain_wait(self)

        _TaskSet.wait = wait

    def stop(self) -> None:
        """Count no longer."""
        _TaskSet.wait = _plain_wait

    def tick(self, users_by_class: Mapping[str, int], seconds: float) -> None:
        """So long after the last call so many users are there; in between it was on a line."""
        for name, rate in self._rates.items():
            now = users_by_class.get(name, 0)
            self.wanted += (self._users.get(name, 0) + now) / 2 * rate * seconds
            self._users[name] = now
