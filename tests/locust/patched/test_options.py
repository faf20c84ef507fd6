"""Options that cannot hold stop Locust with one line, before anything else happens."""

from __future__ import annotations

import pytest
from locust.argument_parser import LocustArgumentParser

from trilat.locust.options import add_options


def _parse(*options: str) -> object:
    parser = LocustArgumentParser(prog="locust")
    add_options(parser)
    return parser.parse_args(list(options))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--trilat-target-rate", "0"),
        ("--trilat-target-rate", "-5"),
        ("--trilat-target-rate", "nan"),
        ("--trilat-target-rate", "inf"),
        ("--trilat-target-rate", "1e999"),
        ("--trilat-target-rate", "many"),
        ("--trilat-target-rate", ""),
        ("--trilat-slo", ""),
        ("--trilat-slo", "speed<=50ms"),
        ("--trilat-slo", "p95<=-5ms"),
        ("--trilat-slo", "p95<=nan"),
        ("--trilat-slo", "p95<=50ms @ "),
        ("--trilat-run-id", ""),
        ("--trilat-run-id", "../../../tmp"),
        ("--trilat-run-id", "0123456789a\n"),
    ],
)
def test_a_value_that_cannot_hold_is_refused(
    capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    """Code 2, and one line that names the option."""
    with pytest.raises(SystemExit) as stopped:
        _parse(f"{option}={value}")
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert said.count("\n") == 1
    assert option in said


def test_values_that_hold_are_kept() -> None:
    """As they were given, an objective in its own words."""
    options = (
        "--trilat-target-rate=12.5",
        "--trilat-run-id=0123456789AB",
        "--trilat-slo=p95<=50ms",
    )
    got = vars(_parse(*options))
    assert got["trilat_target_rate"] == 12.5
    assert got["trilat_run_id"] == "0123456789ab"
    assert got["trilat_slo"] == ["p95<=50ms"]
