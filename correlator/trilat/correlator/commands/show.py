"""Printing of results: to a terminal, or as JSON for programs."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from trilat.correlator.run.rundir import RunDirectory

__all__ = ["json_text", "output_console", "show_result", "terminal_text"]

_COLUMNS = 120


def json_text(obj: Mapping[str, Any]) -> str:
    """An object as the files of a run directory hold it."""
    return json.dumps(obj, indent=1, ensure_ascii=False) + "\n"


def output_console() -> Console:
    """Standard output; a reader that has gone is a `BrokenPipeError`, as it is for `print`.

    rich's own console would end the process with code 1, which here means that a service failed.
    """
    from rich.console import Console

    from trilat.correlator.report.console import widened

    class OutputConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return widened(OutputConsole())


def terminal_text(result: Mapping[str, Any]) -> str:
    """The terminal's report without colours, for a file."""
    from rich.console import Console

    from trilat.correlator.report.terminal import render

    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    render(result, Console(file=file, width=_COLUMNS, no_color=True))
    file.seek(0)
    return "".join(f"{line.rstrip()}\n" for line in file)


def show_result(run: RunDirectory, result: Mapping[str, Any], output: str) -> int:
    """Print a run's result on standard output.

    Args:
        run: where it lies.
        result: what is in its ``result.json``.
        output: ``text`` or ``json``.

    Returns:
        The verdict's exit code.
    """
    if output == "json":
        click.echo(json_text(result), nl=False)
    else:
        from trilat.correlator.report.terminal import render

        render(result, output_console(), result_path=run.result, report_path=run.report)
    code: int = result["verdict"]["exit_code"]
    return code
