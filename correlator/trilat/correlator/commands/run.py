"""``trilat run``: Locust as it is, and afterwards whose latency it was."""

from __future__ import annotations

from pathlib import Path

import click

from trilat.agent.errors import UsageError

__all__ = ["OUTPUT_FORMATS", "run"]

OUTPUT_FORMATS = click.Choice(["text", "json"])

_HELP = """Run Locust, attribute every response time, judge, and write the run directory.

Locust's own options stand behind "--" and mean what they always mean:

\b
  trilat run -f locustfile.py --slo 'p95<=50ms' -- \\
      --headless --host http://127.0.0.1:8000 --users 50 --spawn-rate 50 --run-time 30s

The locustfile needs no change. Workers of a distributed run are started in the same way, with
--worker behind the "--"; the master writes the result. Ctrl-C stops the load and judges what there
is; a second one ends Locust at once. The exit code is the verdict's: see trilat --help. Where that
is 0 and Locust's own is another (a task raised an exception), it is Locust's.
"""

# The same things under the names that they have as Locust's options.
_BEFORE = {
    "-f": "-f",
    "--locustfile": "-f",
    "--trilat-out": "--out",
    "--trilat-slo": "--slo",
    "--trilat-token": "--token",
    "--trilat-target-rate": "--target-rate",
    "--trilat-quiet": "nothing",
}


class _RunCommand(click.Command):
    """Says where Locust's options go to those who put them in front."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(
                f"{error.format_message().rstrip('.')}; Locust's options go behind --, as in "
                "trilat run -f locustfile.py -- --headless --users 50 --spawn-rate 50",
                ctx,
            ) from error


@click.command("run", cls=_RunCommand, help=_HELP)
@click.option(
    "-f",
    "--locustfile",
    default="locustfile.py",
    show_default=True,
    metavar="FILE",
    help="The locustfile; several are joined by commas, as Locust has it.",
)
@click.option(
    "--slo",
    "--trilat-slo",
    "objectives",
    multiple=True,
    metavar="EXPR",
    help="An objective, such as 'p95<=50ms' or 'service.p99<=80ms @ GET /items'. Repeatable.",
)
@click.option(
    "--out",
    "--trilat-out",
    "out",
    type=click.Path(path_type=Path),
    envvar="LOCUST_TRILAT_OUT",
    metavar="DIR",
    help="The run directory, new or empty.  [default: trilat-runs/<UTC time>-<run id>]",
)
@click.option(
    "--token",
    "--trilat-token",
    "token",
    envvar=["TRILAT_TOKEN", "LOCUST_TRILAT_TOKEN"],
    metavar="TOKEN",
    help="The token that the service's middleware was given. Better in the environment as "
    "TRILAT_TOKEN: others on this machine can read a command line.",
)
@click.option(
    "--target-rate",
    "--trilat-target-rate",
    "target_rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Requests per second that the run is meant to reach.  [default: what the user classes' "
    "constant_throughput and constant_pacing add up to]",
)
@click.option(
    "--format",
    "output",
    type=OUTPUT_FORMATS,
    default="text",
    show_default=True,
    help="What to print on standard output at the end: a report, or result.json.",
)
@click.argument(
    "locust_arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- LOCUST'S OPTIONS]"
)
def run(
    locustfile: str,
    objectives: tuple[str, ...],
    out: Path | None,
    token: str | None,
    target_rate: float | None,
    output: str,
    locust_arguments: tuple[str, ...],
) -> int:
    """See `_HELP`."""
    from .conduct import Load, become_locust, conduct
    from .show import show_result

    for argument in locust_arguments:
        name = argument.partition("=")[0]
        if name in _BEFORE:
            raise UsageError(f"{name} stands behind --; write {_BEFORE[name]} in front of it")
    load = Load(locustfile, locust_arguments, objectives, out, token, target_rate)
    if load.has_no_result:
        become_locust(load)
    done = conduct(load)
    verdict = show_result(done.directory, done.result, output)
    code = done.exit_code()
    if code != verdict:
        click.echo(f"trilat: Locust ended with code {code}, and so does this run", err=True)
    return code
