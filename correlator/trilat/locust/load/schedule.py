"""What a locustfile asks for: the wait times of its user classes, and the rate they add up to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import CodeType
from typing import Any, Literal

from locust.contrib.fasthttp import FastHttpUser
from locust.user.task import TaskSet
from locust.user.users import HttpUser
from locust.user.wait_time import constant_pacing

__all__ = ["client_of", "describe_wait_time", "pacing_of", "rate_of", "task_rate"]

_made: Any = constant_pacing(1)
_PACING: CodeType = _made.__code__  # every wait time that Locust paces runs this
_NESTED_MAX = 10


def pacing_of(function: Any) -> float | None:
    """The seconds that a wait time leaves between two tasks; None where it has no schedule.

    Args:
        function: what ``constant_pacing`` or ``constant_throughput`` made, also bound to a user or
            wrapped in `functools.partial`; or anything else.
    """
    if isinstance(function, partial):
        function = function.func
    function = getattr(function, "__func__", function)
    if getattr(function, "__code__", None) is not _PACING:
        return None
    return float(function.__closure__[0].cell_contents)


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
    if (pacing := pacing_of(function)) is not None:
        return _paced(pacing)
    values = _closure(function)
    match _maker(function):
        case "between":
            return f"between({values['min_wait']:g}, {values['max_wait']:g})"
        case "constant":
            return f"constant({values['wait_time']:g})"
        case "poisson":
            return f"poisson({values['rate']:g})"
    return "custom"


def _paced(pacing_s: float) -> str:
    pacing = f"{pacing_s:g}"
    throughput = f"{1 / pacing_s:g}" if pacing_s > 0 else ""
    if throughput and len(throughput) <= len(pacing):
        return f"constant_throughput({throughput})"
    return f"constant_pacing({pacing})"


def _wait_time_of(user_class: type[Any]) -> Callable[..., float] | None:
    """The wait time that a class' users follow, unbound; None where there is none.

    It is the user class' own, unless all that its users do is run one TaskSet which has one.
    """
    function = _own_wait_time(user_class)
    tasks = getattr(user_class, "tasks", ())
    for _ in range(_NESTED_MAX):
        if len(only := set(tasks)) != 1:
            break
        (task,) = only
        if not (isinstance(task, type) and issubclass(task, TaskSet)):
            break
        function = _own_wait_time(task) or function
        tasks = task.tasks
    return function


def _own_wait_time(owner: type[Any]) -> Callable[..., float] | None:
    """The wait time as it stands in a user class or TaskSet, or a base of it."""
    for base in owner.__mro__:
        if "wait_time" in vars(base):
            function = vars(base)["wait_time"]
            return None if base.__module__.startswith("locust.") else function
    return None


def task_rate(user_class: type[Any]) -> float | None:
    """Tasks per second that one user of the class is meant to run; None without a schedule."""
    pacing = pacing_of(_wait_time_of(user_class))
    return 1 / pacing if pacing else None


def rate_of(user_classes: Iterable[type[Any]], users: Mapping[str, float]) -> float | None:
    """Tasks per second that users are meant to run together.

    Args:
        user_classes: all user classes of the run.
        users: how many there are of each, by the class' name.

    Returns:
        None where no class has a schedule.
    """
    rates = {each.__name__: rate for each in user_classes if (rate := task_rate(each))}
    if not rates:
        return None
    return sum(users.get(name, 0) * rate for name, rate in rates.items())


def client_of(user_class: type[Any]) -> Literal["HttpUser", "FastHttpUser", "other"]:
    """Which of Locust's HTTP clients a user class has."""
    if issubclass(user_class, FastHttpUser):
        return "FastHttpUser"
    return "HttpUser" if issubclass(user_class, HttpUser) else "other"
