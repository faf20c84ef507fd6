"""``trilat journal``: what the journals hold, record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trilat.agent.errors import InputError, UsageError

if TYPE_CHECKING:
    from trilat.correlator.records.journal_columns import Side
    from trilat.correlator.records.journals import Choice, JournalTable

__all__ = ["journal"]

_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_ROWS_MAX = 10_000

_HELP = """Look into journals: the records of single requests, of a generator or of a service.

PATH is a journal file, a folder of them, or a run's directory. Journals can be read while they are
written, and after their writer was killed.
"""
_SHOW_HELP = """Show records, the newest last.

Times are of the clock of the host that wrote the record. All that is known of each record comes
with --format json, and with trilat journal export.
"""
_EXPORT_HELP = """Write records into one file for other tools, as CSV, JSON lines or Parquet.

Columns are named with their units; what is not known is empty (null). The records come file by
file, those of a file as they were written. Memory stays bounded whatever the journals' size; the
disk must have room for the records twice.
"""


@click.group("journal", help=_HELP)
def journal() -> None:
    """See `_HELP`."""


def _choosing(command: Callable[..., int]) -> Callable[..., int]:
    """The argument and the options that say which records are wanted."""
    options = (
        click.argument(
            "paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH..."
        ),
        click.option("--side", type=click.Choice(["generator", "service"]), help="Only this side."),
        click.option("--run", metavar="ID", help="Only requests of the run with this id."),
        click.option("--failed", is_flag=True, help="Only requests that failed."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@journal.command("show", help=_SHOW_HELP)
@_choosing
@click.option(
    "--limit",
    type=click.IntRange(1, _ROWS_MAX),
    default=20,
    show_default=True,
    metavar="N",
    help="So many records of each side, 10,000 at most.",
)
@click.option("--oldest", is_flag=True, help="The oldest records in place of the newest.")
@click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="A table of what matters most, or all that is known.",
)
def show(
    paths: tuple[Path, ...],
    side: Side | None,
    run: str | None,
    failed: bool,
    limit: int,
    oldest: bool,
    output: str,
) -> int:
    """See `_SHOW_HELP`."""
    from trilat.correlator.records.journals import Choice, find_journals

    from .journal_table import Shown, print_tables
    from .show import json_text, output_console

    files = find_journals(paths)
    shown = Shown(limit, oldest=oldest)
    for table in _tables(files, Choice(run, failed, side)):
        shown.add(table)
    if output == "json":
        click.echo(json_text(shown.to_json()), nl=False)
    else:
        print_tables(shown, output_console())
    return 0


@journal.command("export", help=_EXPORT_HELP)
@_choosing
@click.option(
    "-o",
    "--output",
    "out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="The file to write.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "jsonl", "parquet"]),
    help="The file's format.  [default: by its name's ending]",
)
@click.option(
    "--attributed",
    is_flag=True,
    help="The generators' requests with what their response times are made of, in place of the "
    "records.",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def export(
    paths: tuple[Path, ...],
    side: Side | None,
    run: str | None,
    failed: bool,
    out: Path,
    kind: str | None,
    attributed: bool,
    force: bool,
) -> int:
    """See `_EXPORT_HELP`."""
    from trilat.correlator.records.exporting import export as write
    from trilat.correlator.records.journals import Choice, find_journals
    from trilat.correlator.requests.requests_file import export_requests

    format_ = kind or _SUFFIXES.get(out.suffix.lower())
    if format_ is None:
        endings = ", ".join(_SUFFIXES)
        raise UsageError(f"{out}: the name ends in none of {endings}; give --format")
    choice = Choice(run, failed, side)
    files = find_journals(paths)
    _check_target(out, files, force=force)
    if attributed:
        if side == "service":
            raise UsageError("--attributed is of generators' requests; leave --side service out")
        written = export_requests(files, out, format_, run=run, failed=failed)  # type: ignore[arg-type]
        click.echo(f"{out}: {written:,} requests")
        return 0
    side = side or _only_side(files)
    written = write(_tables(files, choice), side, out, format_)  # type: ignore[arg-type]
    click.echo(f"{out}: {written:,} records")
    return 0


def _tables(files: Sequence[Path], choice: Choice) -> Iterator[JournalTable]:
    """Read one file after the other, with progress on standard error if that is a terminal."""
    from rich.progress import Progress

    from trilat.correlator.records.journals import read_journal

    from .progress import progress_console

    console = progress_console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        for path in progress.track(files, description="reading journals"):
            if (table := read_journal(path, choice)) is not None:
                yield table


def _only_side(files: Sequence[Path]) -> Side:
    """The side that wrote all these files."""
    from trilat.correlator.records.journals import side_of

    sides = {side for path in files if (side := side_of(path)) is not None}
    if len(sides) > 1:
        raise UsageError(
            "these are journals of a generator and of a service, which have different columns;"
            " choose with --side"
        )
    if not sides:
        raise InputError(f"{files[0]}: the journals went while they were looked at")
    return sides.pop()


def _check_target(out: Path, files: Sequence[Path], *, force: bool) -> None:
    """Refuse a place that cannot be written, or must not.

    Raises:
        UsageError: there is something at that place.
    """
    if not out.exists():
        return
    if not out.is_file():
        raise UsageError(f"{out}: not a file; name another")
    if any(out.samefile(path) for path in files if path.exists()):
        raise UsageError(f"{out}: one of the journals that are to be read; name another file")
    if not force:
        raise UsageError(f"{out}: exists; replace it with --force, or name another file")
