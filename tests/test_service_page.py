"""docs/service.md and the parts' pages list what there is: metrics, samples, modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trilat.agent.families import BLOCKS, Counter, Hidden, Histogram, Metric
from trilat.agent.samples import SAMPLES_SCHEMA
from trilat.agent.vitals import VITALS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/service.md").read_text()


def _kind(metric: Metric) -> str:
    return type(metric).__name__.lower()


def metric_rows() -> list[str]:
    """The rows of the table of metrics, as the declarations have them."""
    return [
        f"| `{metric.name}` | {_kind(metric)} | {', '.join(block.labels) or ' '} | {metric.help} |"
        for block in BLOCKS.values()
        for metric in block.metrics
        if not isinstance(metric, Hidden)
    ]


def vital_rows() -> list[str]:
    """The rows of the table of a sample's keys."""
    return [f"| `{key}` | {meaning} |" for key, meaning in VITALS.items()]


def _rows_after(head: str) -> list[str]:
    return PAGE.partition(head)[2].partition("\n\n")[0].splitlines()[2:]


def test_the_table_of_metrics_is_what_is_declared() -> None:
    """Every metric with its type, labels and meaning, in order, and no other."""
    assert _rows_after("| metric | type |") == metric_rows()


def test_the_table_of_vitals_is_what_is_read() -> None:
    """Every key of a sample with its meaning, in order, and no other."""
    assert _rows_after("| key | of the process and its host |") == vital_rows()


def test_names_of_counters_and_histograms_say_what_they_are() -> None:
    """Counters end in ``_total``; histograms are of seconds."""
    for block in BLOCKS.values():
        for metric in block.metrics:
            assert metric.name.endswith("_total") == isinstance(metric, Counter), metric.name
            assert not isinstance(metric, Histogram) or metric.name.endswith("_seconds")


def test_the_page_names_the_format_of_samples() -> None:
    """The name changes when a reader has to change."""
    assert f"`{SAMPLES_SCHEMA}`" in PAGE


@pytest.mark.parametrize("part", ["agent", "middleware"])
def test_the_page_of_a_part_lists_its_modules(part: str) -> None:
    """Each module once, and none that is not there."""
    listed: list[str] = []
    for cell in re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \|", (ROOT / part / "README.md").read_text(), re.M
    ):
        listed += re.findall(r"\w+", cell)
    modules = {path.stem for path in (ROOT / part / "trilat" / part).glob("*.py")} - {"__init__"}
    assert sorted(listed) == sorted(modules)
