"""Events that trilat adds to Locust's: other code can listen to them."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from locust.event import EventHook

__all__ = ["add_events", "fire_result"]


def add_events(events: Any) -> None:
    """Add `trilat_result` to Locust's events, unless it is there.

    It is fired in a master and in a local process when a run's result has been written, with
    ``result`` (what ``result.json`` holds), ``path`` (the run directory, a `pathlib.Path`) and
    ``environment``.
    """
    if not hasattr(events, "trilat_result"):
        events.trilat_result = EventHook()  # type: ignore[no-untyped-call]


def fire_result(environment: Any, result: dict[str, Any], path: Path) -> None:
    """Tell the listeners of a result; it is theirs, and what they do to it changes no verdict.

    An error in one is logged and makes the exit code 2, as in all of Locust's events.
    """
    environment.events.trilat_result.fire(
        environment=environment, result=deepcopy(result), path=path
    )
