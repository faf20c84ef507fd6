"""The options that trilat adds to Locust's own."""

from __future__ import annotations

import argparse
from string import hexdigits
from typing import Any

from trilat.agent.errors import UsageError
from trilat.agent.marking import RUN_ID_LENGTH
from trilat.correlator.judge.objective import parse

__all__ = ["add_options"]


def add_options(parser: Any) -> None:
    """Add the options to Locust's argument parser (a `configargparse.ArgumentParser`).

    Values are strings and numbers only: Locust sends its parsed options to the workers as msgpack.
    """
    group = parser.add_argument_group("trilat options")
    group.add_argument(
        "--trilat-out",
        metavar="<directory>",
        env_var="LOCUST_TRILAT_OUT",
        help="Run directory to write; new or empty. Defaults to trilat-runs/<UTC time>-<run id>.",
    )
    group.add_argument(
        "--trilat-slo",
        metavar="<objective>",
        action="append",
        default=[],
        type=_objective,
        env_var="LOCUST_TRILAT_SLO",
        help="Objective to judge the run by, such as 'p95<=50ms' or "
        "'service.p99<=80ms @ GET /items/[id]'. May be repeated.",
    )
    group.add_argument(
        "--trilat-token",
        metavar="<token>",
        env_var="LOCUST_TRILAT_TOKEN",
        help="Token that the service's middleware was given; prefer the environment variable, "
        "as others on this machine can read a command line.",
    )
    group.add_argument(
        "--trilat-target-rate",
        metavar="<requests/s>",
        type=_positive_rate,
        env_var="LOCUST_TRILAT_TARGET_RATE",
        help="Requests per second the run is meant to make. Defaults to what the user classes' "
        "constant_throughput or constant_pacing add up to.",
    )
    group.add_argument(
        "--trilat-requests",
        metavar="<file>",
        env_var="LOCUST_TRILAT_REQUESTS",
        help="Write every request, split up, into this file when the run has ended: .parquet, .csv "
        "or .jsonl.",
    )
    group.add_argument(
        "--trilat-collect",
        metavar="<url>",
        env_var="LOCUST_TRILAT_COLLECT",
        help="Where the service has mounted CollectApp: shows its CPU while the run goes on. The "
        "token is taken from TRILAT_COLLECT_TOKEN.",
    )
    group.add_argument(
        "--trilat-quiet",
        action="store_true",
        default=False,
        help="Print no report at the end; the run directory is written all the same.",
    )
    group.add_argument(
        "--trilat-no-kernel-stamps",
        action="store_true",
        default=False,
        help="Measure as where the kernel gives no receive stamps (macOS, Windows): "
        "generator.read is then an estimate.",
    )
    # From `trilat run` to its child, and from a master to its workers.
    group.add_argument("--trilat-run-id", type=_run_id, help=argparse.SUPPRESS)


def _objective(text: str) -> str:
    try:
        return parse(text).text
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _positive_rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a rate; give requests per second above 0"
        )
    return rate


def _run_id(text: str) -> str:
    """It goes into each request's head, and into the name of a directory."""
    if len(text) != RUN_ID_LENGTH or not set(text) <= set(hexdigits):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the id of a run: {RUN_ID_LENGTH} hexadecimal digits"
        )
    return text.lower()
