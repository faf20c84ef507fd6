"""``trilat check``: a finished run, judged by other objectives."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["check"]

_HELP = """Judge a finished run by other objectives, and end with the verdict's exit code.

RUN is the run's directory. What was measured stays; nothing in the directory is changed. The
objectives given here stand in the place of those that the run was made with.

\b
  trilat check trilat-runs/20260101T120000Z-0123456789ab --slo 'service.p99<=80ms'
"""


@click.command("check", help=_HELP)
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "--slo",
    "objectives",
    multiple=True,
    required=True,
    metavar="EXPR",
    help="An objective, such as 'p95<=50ms' or 'fail_ratio<=1%'. Repeatable.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print: the verdict and its objectives as lines, or as JSON.",
)
def check(run: Path, objectives: tuple[str, ...], output: str) -> int:
    """See `_HELP`."""
    from dataclasses import replace

    from trilat.correlator.finish import recover
    from trilat.correlator.judge.objective import parse
    from trilat.correlator.result import build_result
    from trilat.correlator.run.rundir import RunDirectory

    from .show import json_text, output_console

    asked = [parse(text) for text in objectives]
    measured, book = recover(RunDirectory.open(run))
    manifest = replace(measured, objectives=[each.text for each in asked])
    result = build_result(manifest, book, asked)
    if output == "json":
        shown = {
            "schema": "trilat.check/1",
            "verdict": result["verdict"],
            "objectives": result["objectives"],
        }
        click.echo(json_text(shown), nl=False)
    else:
        from trilat.correlator.report.terminal import render_verdict

        render_verdict(result, output_console())
    code: int = result["verdict"]["exit_code"]
    return code
