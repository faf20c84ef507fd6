"""``trilat report``: a run directory's result once more, in another form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trilat.agent.errors import UsageError

__all__ = ["report"]

_HELP = """Show the result of a run: RUN is its directory.

Without -o the text goes to standard output, and html writes RUN/report.html anew. Where a run
ended before its result was written, the result is made from its journals first.
"""


@click.command("report", help=_HELP)
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
    help="The report for a terminal, result.json, or the page with the charts.",
)
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to this file instead.",
)
@click.option("--force", is_flag=True, help="Replace the file given with -o if it exists.")
def report(run: Path, output: str, file: Path | None, force: bool) -> int:
    """See `_HELP`."""
    from trilat.correlator.finish import rebuild
    from trilat.correlator.report import html
    from trilat.correlator.rundir import RunDirectory

    from .show import json_text, show_result, terminal_text

    if file is not None and file.exists() and not force:
        raise UsageError(f"{file}: exists; replace it with --force, or name another file")
    directory = RunDirectory.open(run)
    result: dict[str, Any]
    result = directory.read_result() if directory.result.is_file() else rebuild(directory)
    if file is None and output != "html":
        show_result(directory, result, output)
        return 0
    text = {"text": terminal_text, "json": json_text, "html": html.render}[output](result)
    target = file if file is not None else directory.report
    directory.write_bytes(target, text.encode("utf-8", errors="replace"))
    click.echo(str(target))
    return 0
