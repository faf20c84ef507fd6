"""Runs all programs of this folder and writes what they measure as one table.

    python benchmarks/bench.py [--only middleware --only sketch] [--format json]

Some twelve minutes. What each program measures, and how, stands in its own text.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["PROGRAMS", "Row", "main"]

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        program: that measured it.
        what: was measured.
        value: the figure; a median unless ``what`` says otherwise.
        unit: of it.
        ratio: to what it is to be compared with, in words; empty where there is nothing.
    """

    program: str
    what: str
    value: float
    unit: str
    ratio: str = ""


def middleware(found: Any) -> Iterator[Row]:
    """What a middleware adds to a request."""
    yield Row("middleware", "bare application", found["bare_us"], "µs a request")
    for cost in found["added"]:
        ratio = f"{cost['times_trilat']:.2f} times trilat with all on"
        yield Row("middleware", f"added by {cost['name']}", cost["added_us"], "µs a request", ratio)


def page(found: Any) -> Iterator[Row]:
    """What a page of metrics costs; the smallest of the rounds."""
    for cost in found:
        ratio = f"loop late by {cost['late_p50_ms']:.1f} ms at the median meanwhile"
        yield Row("page", cost["way"], cost["cpu_ms"], "ms a page", ratio)


def lag(found: Any) -> Iterator[Row]:
    """What watching the event loop costs."""
    for figure in found["figures"]:
        what = f"{figure['loop']}: {figure['subject']}"
        yield Row("lag", what, figure["cpu_percent"], "% of a processor")


def vitals(found: Any) -> Iterator[Row]:
    """What a look at a process costs."""
    for cost in found["costs"]:
        yield Row("vitals", cost["part"], cost["median_us"], "µs a look")


def recorder(found: Any) -> Iterator[Row]:
    """What the generator's side adds to a request."""
    for row in found:
        if not row["times_trilat"]:
            continue  # Locust alone
        what = f"{row['subject']}, added to {row['client']}"
        spread = f"{row['lowest_us']:.1f} to {row['highest_us']:.1f}"
        ratio = f"{row['added_percent']:.1f} % of {row['without_us']:.0f} µs; launches: {spread}"
        yield Row("recorder", what, row["added_us"], "µs a request", ratio)


def sketch(found: Any) -> Iterator[Row]:
    """What attribution costs while a run lasts; the shortest of the rounds."""
    for cost in found["costs"]:
        what = f"{cost['step']} ({cost['requests']:,} requests, {cost['endpoints']} endpoints)"
        if "sketch" in cost["step"] or "book" in cost["step"]:  # of any number of requests
            yield Row("sketch", what, cost["batch_us"], "µs")
        else:
            yield Row("sketch", what, cost["request_us"], "µs a request")


def workers(found: Any) -> Iterator[Row]:
    """What the reports of workers cost; the shortest of the rounds."""
    for cost in found["costs"]:
        of = f"{cost['requests']:,} requests, {cost['endpoints']:,} endpoints"
        yield Row("workers", f"a worker packs ({of})", cost["pack_ms"], "ms a report")
        yield Row("workers", f"the master reads ({of})", cost["master_ms"], "ms a report")


def finished(found: Any) -> Iterator[Row]:
    """What a finished run costs."""
    yield Row("finished", "journal: append a record", found["append_us"], "µs a request")
    names = {"floor": "files read and summed, bare", "read": "journals read"}
    for cost in found["costs"]:
        count = f"{cost['requests']:,} requests"
        if cost["step"] == "report":
            size = f"{cost['bytes'] / 1000:,.0f} kB"
            yield Row("finished", f"judged, report written ({count})", cost["seconds"], "s", size)
            continue
        what = f"{names.get(cost['step'], 'attributed')} ({count})"
        ratio = f"{cost['requests_per_s'] / 1e6:.2f} M/s, {cost['peak_mb']:.0f} MB at most"
        if cost["times_floor"] is not None:
            ratio += f", {cost['times_floor']:g} times the floor"
        yield Row("finished", what, cost["seconds"], "s", ratio)


PROGRAMS: Mapping[str, Callable[[Any], Iterator[Row]]] = {
    each.__name__: each
    for each in (middleware, page, lag, vitals, recorder, sketch, workers, finished)
}
"""The programs, and what makes rows of the JSON that each prints."""


def run(program: str) -> list[Row]:
    """Run one program.

    Raises:
        subprocess.CalledProcessError: it failed; what it wrote is on standard error.
    """
    print(f"bench: {program}", file=sys.stderr, flush=True)
    command = [sys.executable, str(FOLDER / f"{program}.py"), "--format", "json"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    try:  # a program may print its figures, and still end in an error: a goal that is missed
        found = json.loads(ran.stdout)
    except ValueError:
        ran.check_returncode()
        raise
    return list(PROGRAMS[program](found))


def machine() -> dict[str, Any]:
    """What a figure is worth nothing without."""
    models = [
        line.partition(":")[2].strip()
        for line in _lines(Path("/proc/cpuinfo"))
        if line.startswith("model name")
    ]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "system": f"{platform.system()} {platform.release()}",
        "processors": os.cpu_count(),
        "processor": models[0] if models else platform.processor(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("locust", "gevent", "numpy", "uvicorn")},
    }


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", action="append", choices=PROGRAMS, help="this one; repeatable")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    options = parser.parse_args()
    facts = machine()
    rows = [row for program in options.only or PROGRAMS for row in run(program)]
    if options.format == "json":
        print(json.dumps({"machine": facts, "rows": [asdict(row) for row in rows]}, indent=2))
        return
    print("| program | measured | figure | unit | |\n|---|---|---:|---|---|")
    for row in rows:
        figure = f"{row.value:,.3g}" if row.value < 1000 else f"{row.value:,.0f}"
        print(f"| {row.program} | {row.what} | {figure} | {row.unit} | {row.ratio} |")
    print("\n" + ", ".join(f"{name} {value}" for name, value in facts.items()) + ".")


if __name__ == "__main__":
    main()
