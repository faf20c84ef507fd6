"""The group that holds all commands, and what ``trilat --help`` teaches."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .check import check
from .collect import collect
from .correlate import correlate
from .demo import demo
from .doctor import doctor
from .journal import journal
from .report import report
from .run import run

__all__ = ["Settings", "trilat"]


@dataclass(slots=True)
class Settings:
    """What stands before the command's name.

    Attributes:
        debug: show where an unexpected error came from.
    """

    debug: bool = False


_HELP = """Whose latency is it? trilat runs a Locust test, splits every response time into what
the service, the network and the load generator itself made of it, and judges the run.

\b
Start here:
  trilat demo      see it: one service, two generators, two verdicts
  trilat doctor    what this machine can measure, and what to do about the rest
  trilat run       run your own locustfile and judge it

\b
Exit codes of run, check and demo's parts:
  0  pass      the objectives hold
  1  fail      the service missed an objective or the rate, or too many requests failed
  2            wrong usage or unreadable input; one line says what and where
  3  invalid   the load generator made the number
  4  invalid   the network made the number
  5  invalid   too little evidence to say
 70            a defect of trilat itself
130            interrupted
"""


@click.group(help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    package_name="trilat", message="trilat %(version)s", help="Print the version."
)
@click.option("--debug", is_flag=True, help="Show a traceback where an unexpected error occurs.")
@click.pass_obj
def trilat(settings: Settings, debug: bool) -> None:
    """See `_HELP`."""
    settings.debug = debug


for _command in (run, demo, report, check, collect, correlate, doctor, journal):
    trilat.add_command(_command)
