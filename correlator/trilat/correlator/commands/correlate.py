"""``trilat correlate``: a run's result made anew from all that its processes left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trilat.correlator.run.gathering import Gathered
    from trilat.correlator.run.manifest import Manifest

__all__ = ["correlate"]

_HELP = """Make a run's result and report anew from the journals of its load generators.

RUN is the run's directory. Each process of the run counts once: from its journal in RUN/journals,
or, where that is elsewhere, from what it sent to the master. So a worker that was killed loses
nothing: its journal is there up to its last request. Where its host has another disk, bring the
journal first:

\b
  scp 'worker-host:trilat-runs/worker-*/journals/*' RUN/journals/
  trilat correlate RUN

Nothing is counted twice, however often this is done. While the run still goes on it is refused.
"""
_NAME_MAX = 80


@click.command("correlate", help=_HELP)
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print: where the requests were found and the report, or result.json.",
)
def correlate(run: Path, output: str) -> int:
    """See `_HELP`."""
    from trilat.correlator.finish import finish, regather
    from trilat.correlator.run.rundir import RunDirectory

    from .show import show_result

    directory = RunDirectory.open(run)
    manifest, found = regather(directory)
    result = finish(directory, manifest, found.book)
    if output == "text":
        for line in _lines(manifest, found):
            click.echo(line)
    show_result(directory, result, output)
    return 0


def _lines(manifest: Manifest, found: Gathered) -> Iterator[str]:
    from trilat.correlator.text import clean, count

    for worker in manifest.crew["workers"] if manifest.crew is not None else ():
        where = "its journal" if worker["source"] == "journal" else "what it sent"
        missing = max(worker["requests"] - worker["received"], 0) + worker["estimate"]
        lacks = f"; about {count(missing)} more are missing" if missing else ""
        yield (
            f"{clean(worker['name'], _NAME_MAX)}: {count(worker['received'])} requests from "
            f"{where}{lacks}"
        )
    yield (
        f"all: {count(found.from_journals)} requests from {count(len(found.parts))} journals"
        + (f", {count(found.from_sketches)} from what was sent" if found.from_sketches else "")
        + (f"; {count(found.left_out)} before a reset are left out" if found.left_out else "")
    )
    for text in found.unreadable:
        yield f"left out: {clean(text)}"
