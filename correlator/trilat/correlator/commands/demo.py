"""``trilat demo``: one service, two load generators, two verdicts."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["demo"]

_HELP = """See what trilat is for, in about a minute.

Starts the example FastAPI service on a free loopback port (every request awaits 20 ms) and asks it
twice for the same load: the same number of users, each at 10 requests a second, with the objective
p95<=75ms. First from one process of Locust's HttpUser, which cannot make that many, then from one
process of its FastHttpUser, which can. The load is fitted to this machine: a trial run of 6 seconds
finds what a request costs an HttpUser process, and both runs ask for 1.25 times what it can make.
A run that other work on the machine disturbed is made once more.

Exit code 0: the first run was INVALID because of its generator, and the second PASSED. 1: not so;
a sentence says what was seen. The service is always stopped.
"""


@click.command("demo", help=_HELP)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the two run directories go.  [default: trilat-runs/<UTC time>-demo]",
)
@click.option(
    "--seconds",
    type=click.IntRange(8, 600),
    default=15,
    show_default=True,
    metavar="N",
    help="How long each of the two runs lasts.",
)
def demo(out: Path | None, seconds: int) -> int:
    """See `_HELP`."""
    from .showing import Demonstration

    return Demonstration(out, seconds).show()
