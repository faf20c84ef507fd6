"""``trilat doctor``: what can be measured here, and what to do about the rest."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from .finding import Finding

__all__ = ["doctor"]

_HELP = """Try what a run depends on, and say what each missing thing costs.

Nothing is assumed: a TCP connection is made and its kernel stamps are read, a uvicorn is started
and its answer's stamp looked at. With --url a running service gets seven marked requests.

Exit code 0: a run here is measured at full grade. 1: something is missing; its line says what that
costs and what to do. Notes cost nothing.
"""


@click.command("doctor", help=_HELP)
@click.option("--url", metavar="URL", help="Also ask this service whether it answers with stamps.")
@click.option(
    "--token",
    envvar=["TRILAT_TOKEN", "LOCUST_TRILAT_TOKEN"],
    metavar="TOKEN",
    help="The token that the service's middleware was given; better in the environment as "
    "TRILAT_TOKEN.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines for a person, or JSON.",
)
def doctor(url: str | None, token: str | None, output: str) -> int:
    """See `_HELP`."""
    from .machine import examine
    from .service import examine_service
    from .show import json_text

    findings = examine()
    if url is not None:
        findings += examine_service(url, token)
    missing = sum(finding.outcome == "missing" for finding in findings)
    if output == "json":
        report = {
            "schema": "trilat.doctor/1",
            "full_grade": not missing,
            "findings": [asdict(finding) for finding in findings],
        }
        click.echo(json_text(report), nl=False)
    else:
        _print(findings, missing)
    return 1 if missing else 0


def _print(findings: list[Finding], missing: int) -> None:
    from trilat.correlator.text import clean

    styles = {"ok": "green", "missing": "red", "note": "yellow"}
    for finding in findings:
        outcome = click.style(f"{finding.outcome:8}", fg=styles[finding.outcome])
        click.echo(f"{outcome}{finding.id:15} {clean(finding.evidence, 1000)}")
        if finding.cost:
            click.echo(f"{'':24}costs: {finding.cost}")
        if finding.remedy:
            click.echo(f"{'':24}to do: {finding.remedy}")
    click.echo(
        f"{missing} of {len(findings)} things are missing."
        if missing
        else "A run here is measured at full grade."
    )
