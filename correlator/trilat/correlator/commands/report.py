"""``trilat report``: a run directory's result once more, in another form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trilat.agent.errors import InputError, UsageError

__all__ = ["report"]

_HELP = """Show the result of a run: RUN is its directory.

Without -o the text goes to standard output, and html writes RUN/report.html anew. Where a run
ended before its result was written, the result is made from its journals first; while it still
runs, that is refused.
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
    from trilat.correlator.run.rundir import RunDirectory

    from .show import json_text, show_result, terminal_text

    if file is not None:
        _check_target(file, force=force)
    directory = RunDirectory.open(run)
    result: dict[str, Any]
    if directory.result.is_file():
        try:
            result = directory.read_result()
        except InputError as error:  # never replaced unasked: a later release may have written it
            raise InputError(f"{error}; remove the file to have it made anew") from error
    else:
        result = rebuild(directory)
    if file is None and output != "html":
        show_result(directory, result, output)
        return 0
    text = {"text": terminal_text, "json": json_text, "html": html.render}[output](result)
    raw = text.encode("utf-8", errors="replace")
    target = file if file is not None else directory.report
    if file is not None and _is_written_through(file):
        with file.open("wb") as stream:
            stream.write(raw)
        return 0
    directory.write_bytes(target, raw)
    click.echo(str(target))
    return 0


def _check_target(file: Path, *, force: bool) -> None:
    """Refuse a place that cannot be written, or must not without ``--force``.

    Raises:
        UsageError: there is something at that place.
    """
    if not file.exists() or file.is_fifo() or file.is_char_device():
        return
    if not file.is_file():
        raise UsageError(f"{file}: not a file; name another")
    if not force:
        raise UsageError(f"{file}: exists; replace it with --force, or name another file")


def _is_written_through(file: Path) -> bool:
    """Whether the file must stay what it is: a device, a FIFO, or a link such as /dev/stdout."""
    return file.is_symlink() or file.is_fifo() or file.is_char_device()
