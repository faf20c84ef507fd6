"""``trilat collect``: the services' journals and samples come into a run's directory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trilat.agent.errors import UsageError

if TYPE_CHECKING:
    from trilat.correlator.collect.collected import Collected
    from trilat.correlator.collect.intake import Watch
    from trilat.correlator.run.rundir import RunDirectory

__all__ = ["collect"]

_HELP = """Fetch what services recorded of a run, and make its report anew with it.

URL is where a service has mounted CollectApp; of several workers that share a journal directory,
one is enough. Their journals and samples of the run's time go into the run's directory. What is
there already is not fetched again, and after an interruption the same command goes on where it
ended.

\b
  export TRILAT_COLLECT_TOKEN=…
  trilat collect http://shop:8000/trilat --into trilat-runs/20260101T120000Z-0123456789ab

Exit code 0: all of it is here. 2: some is not, be it that the service has removed it meanwhile; a
line says what and why. The report is made anew from what came.
"""
_SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(ms|s|m|h)?", re.ASCII)
_UNITS_NS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


class _Span(click.ParamType[int]):
    """A time such as ``5s``; nanoseconds inside."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a time."""
        found = _SPAN.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not a time; write it as 5s, 500ms, 2m or 1h", param, ctx)
        return round(float(found[1]) * _UNITS_NS[found[2] or "s"])


@click.command("collect", help=_HELP)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="The run's directory.  [default: the newest in trilat-runs]",
)
@click.option(
    "--token-env",
    default="TRILAT_COLLECT_TOKEN",
    show_default=True,
    metavar="NAME",
    help="The environment variable that holds the token of CollectApp.",
)
@click.option(
    "--margin",
    type=_Span(),
    default="5s",
    show_default=True,
    metavar="TIME",
    help="Also what was recorded so long before and after the run.",
)
@click.option(
    "--max-mb",
    type=click.IntRange(1, 1_000_000),
    default=2000,
    show_default=True,
    metavar="MB",
    help="Fetch no more than this, from all together.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print of it: lines for a person, or JSON.",
)
def collect(
    urls: tuple[str, ...],
    into: Path | None,
    token_env: str,
    margin: int,
    max_mb: int,
    output: str,
) -> int:
    """See `_HELP`."""
    from trilat.correlator.collect.collecting import Order, run_window
    from trilat.correlator.collect.collecting import collect as fetch
    from trilat.correlator.finish import finish, recover
    from trilat.correlator.run.rundir import RunDirectory

    token = _token(token_env)
    run = RunDirectory.newest() if into is None else RunDirectory.open(into)
    manifest, book = recover(run)  # first: what cannot be judged is no reason to fetch
    order = Order(urls, token, run_window(manifest, margin), max_mb * 10**6)
    try:
        with _shown_progress() as watch:
            found = fetch(run, order, watch)
    except KeyboardInterrupt:
        click.echo("what came is kept; the same command goes on from there", err=True)
        raise
    if any(each.files for each in found):
        finish(run, manifest, book)
    _print(run, found, output)
    errors = [error for each in found for error in each.errors]
    for error in errors:
        click.echo(f"trilat: error: {error}", err=True)
    return 2 if errors else 0


def _token(name: str) -> str:
    """The token in an environment variable.

    Raises:
        UsageError: there is none, or it cannot be one.
    """
    from trilat.agent.marking import token_bytes

    token = os.environ.get(name, "")
    try:
        token_bytes(token)
    except UsageError as error:
        what = "holds no token that can be sent" if token else "is not set"
        raise UsageError(
            f"{name} {what}: export it with the token of CollectApp, or name another variable"
            " with --token-env"
        ) from error
    return token


@contextmanager
def _shown_progress() -> Iterator[Watch]:
    """Bars on standard error, one for each service, if that is a terminal."""
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn

    from .progress import progress_console

    console = progress_console()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:

        def watch(url: str, done: int, total: int) -> None:
            if url not in tasks:
                tasks[url] = progress.add_task(escape(url))
            progress.update(tasks[url], completed=done, total=total)

        yield watch


def _print(run: RunDirectory, found: list[Collected], output: str) -> None:
    from trilat.correlator.collect.collected import COLLECT_SCHEMA

    from .show import json_text

    came = any(each.files for each in found)
    if output == "json":
        shown = {
            "schema": COLLECT_SCHEMA,
            "run": str(run.path),
            "report": str(run.report) if came else None,
            "services": [each.to_json() for each in found],
        }
        click.echo(json_text(shown), nl=False)
        return
    for each in found:
        for line in _lines(each):
            click.echo(line)
    if came:
        click.echo(f"report: {run.report}")


def _lines(collected: Collected) -> Iterator[str]:
    if collected.ahead_ns is not None:  # it answered
        yield f"{collected.url}: {_told(collected)}"
    yield from (f"{collected.url}: {remark}" for remark in collected.remarks)


def _told(collected: Collected) -> str:
    if not collected.files:
        return "nothing of the run's time"
    files = collected.files.values()
    counts = {kind: sum(file.kind == kind for file in files) for kind in ("journal", "samples")}
    journals = f"{counts['journal']} journal{'s' * (counts['journal'] != 1)}"
    samples = f"{counts['samples']} file{'s' * (counts['samples'] != 1)} of samples"
    there = sum(file.outcome == "present" for file in files)
    before = f", {there} of them here already" if there else ""
    size = sum(file.bytes for file in files) / 1e6
    return f"{journals} and {samples}, {size:,.1f} MB{before}"
