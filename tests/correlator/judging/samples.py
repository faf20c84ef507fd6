"""Files of samples as both sides write them, and what becomes of them in a result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

BEGIN_S = 1_700_000_000
Finish = Callable[..., dict[str, Any]]


def write(directory: Path, name: str, lines: Iterable[Mapping[str, Any]], **facts: Any) -> None:
    """A file of samples; lines have a ``t``, the seconds since the run's start."""
    head = {
        "schema": "trilat.samples/1",
        "side": "service",
        "host": 7,
        "host_name": "web-1",
        "pid": 100,
        "instance": 1,
        "python": "3.11.9",
    }
    written = [head | facts]
    for line in lines:
        at = line["t"]
        written.append({"kind": "vitals", "wall_s": BEGIN_S + at, "monotonic_s": at} | dict(line))
    text = "".join(json.dumps(line) + "\n" for line in written)
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(text)


def vitals(seconds: int, **figures: Callable[[int], Any]) -> list[dict[str, Any]]:
    """A sample each second; each figure is a function of the second."""
    return [
        {"t": second} | {name: value(second) for name, value in figures.items()}
        for second in range(1, seconds + 1)
    ]


def check_of(result: Mapping[str, Any], identity: str) -> dict[str, Any]:
    """One check of a result."""
    return next(each for each in result["checks"] if each["id"] == identity)
