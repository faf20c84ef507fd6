"""What a schedule changes in a verdict: tasks that were never started, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from trilat.correlator.judge.checking import Check
from trilat.correlator.judge.checks import run_checks
from trilat.correlator.judge.objective import parse
from trilat.correlator.judge.stages import stages_of
from trilat.correlator.judge.verdict import Verdict, judge
from trilat.correlator.result import build_result
from trilat.correlator.run.manifest import Manifest
from trilat.correlator.sketches.book import SketchBook

MakeBook = Callable[..., SketchBook]
MakeManifest = Callable[..., Manifest]

_RATE = {"target_rate_per_s": 100.0, "target_rate_source": "wait_time", "users": 10}
_STALLED = [20.0] * 490 + [1000.0] * 10


def _hung(side: str, *, missed: int = 90) -> dict[str, Any]:
    """500 requests of 20 ms, ten of which hang for a second and cost nine tasks each."""
    usual = {"n": 500, "service": 20.0, "lateness": [0.0] * 490 + [900.0] * 10}
    usual["missed"] = [0] * 490 + [missed // 10] * 10
    if side == "service":
        return {**usual, "service": _STALLED}
    told = [True] * 490 + [side != "unattributed"] * 10
    return {**usual, "matched": told, side: [0.0] * 490 + [980.0] * 10}


def _judged(book: SketchBook, manifest: Manifest, *objectives: str) -> Verdict:
    return judge(book, [parse(text) for text in objectives], manifest)


def _checks(book: SketchBook, manifest: Manifest, *objectives: str) -> Mapping[str, Check]:
    verdict = _judged(book, manifest, *objectives)
    stages = stages_of(manifest, book)
    found = run_checks(manifest, book.total(), verdict, stages=stages)
    return {each["id"]: each for each in found}


@pytest.mark.parametrize(
    ("side", "cause"),
    [
        ("service", "service"),
        ("network", "network"),
        ("generator", "generator"),
        ("unattributed", "evidence"),
    ],
)
def test_few_requests_that_hang_cost_the_rate(
    side: str, cause: str, make_book: MakeBook, make_manifest: MakeManifest
) -> None:
    """The mean fits; whose time those few took is who was the limit."""
    manifest = make_manifest(**_RATE, reached_rate_per_s=85.0)
    book = make_book(_hung(side))
    verdict = _judged(book, manifest)
    assert verdict.cause == cause
    assert "90 tasks were never started" in verdict.reasons[0]
    assert "100 ms there are for one (1,000 ms on average)" in verdict.reasons[0]
    remedy = _checks(book, manifest)["G003"]["remedy"]
    assert ("some requests take longer than 100 ms" in remedy) is (cause != "generator")


def test_where_nothing_was_missed_the_mean_decides(
    make_book: MakeBook, make_manifest: MakeManifest
) -> None:
    """A request hangs, but it is not why the rate was missed."""
    manifest = make_manifest(**_RATE, reached_rate_per_s=85.0)
    verdict = _judged(make_book(_hung("service", missed=0)), manifest)
    assert verdict.cause == "generator"
    assert "never started" not in verdict.reasons[0]


def test_an_objective_that_holds_by_omission(
    make_book: MakeBook, make_manifest: MakeManifest
) -> None:
    """It passes, as it is Locust's own figure that was asked for, and the reader is warned."""
    manifest = make_manifest(**_RATE, reached_rate_per_s=99.0)
    book = make_book(_hung("service"))
    objectives = ("p90<=100ms", "service.p90<=100ms", "max<=2s @ /items", "p50<=100ms")
    verdict = _judged(book, manifest, *objectives)
    assert verdict.outcome == "pass"
    told = [warning for warning in verdict.warnings if "meant to start" in warning]
    assert len(told) == 1
    assert told[0].startswith("p90<=100ms holds as Locust counts, but counted from when")
    assert "90 tasks were due" in told[0]
    assert not _judged(make_book({"n": 500, "service": 20.0}), manifest, *objectives).warnings


def test_starts_on_schedule(make_book: MakeBook, make_manifest: MakeManifest) -> None:
    """Without a schedule there is nothing to see; a task missed in a hundred is a warning."""
    manifest = make_manifest()
    assert _checks(make_book({"n": 100}), manifest)["L001"]["outcome"] == "skipped"
    on_time = _checks(make_book({"n": 100, "lateness": 0.5}), manifest)["L001"]
    assert on_time["outcome"] == "ok"
    assert "0.500 ms after it on average; none was missed" in on_time["evidence"]
    late = _checks(make_book(_hung("service")), manifest)["L001"]
    assert late["outcome"] == "warn"
    assert "90 more (15 % of those due) were never started" in late["evidence"]
    few = {"n": 500, "service": 20.0, "lateness": 1.0, "missed": [0] * 499 + [1]}
    assert _checks(make_book(few), manifest)["L001"]["outcome"] == "ok"


def _stage(from_s: float, to_s: float, users: int) -> dict[str, Any]:
    rates = {"rate_from_per_s": None, "rate_to_per_s": None}
    span = {"from_s": from_s, "to_s": to_s, "users_from": users, "users": users}
    return {**span, "ramp": False, "step": 0, **rates}


@pytest.mark.parametrize(
    ("generator", "says"), [(0.0, "the most that the service does"), (40.0, "more processes")]
)
def test_saturation(
    generator: float, says: str, make_book: MakeBook, make_manifest: MakeManifest
) -> None:
    """Twice the users and no more requests: named, with whose time it is there."""
    book = make_book({"n": 1000, "service": 20.0, "generator": generator})
    manifest = make_manifest(stages=[_stage(0, 5, 50), _stage(5, 10, 100)])
    check = _checks(book, manifest)["L002"]
    assert check["outcome"] == "warn"
    assert (
        "the rate followed the users up to 50 (100/s), and no longer with 100" in check["evidence"]
    )
    assert says in check["remedy"]
    one = make_manifest(stages=[_stage(0, 10, 50)])
    assert _checks(book, one)["L002"]["outcome"] == "skipped"
    alike = make_manifest(stages=[_stage(0, 5, 100), _stage(5, 10, 105)])
    assert _checks(book, alike)["L002"]["outcome"] == "ok"


def test_the_result_has_it_all(make_book: MakeBook, make_manifest: MakeManifest) -> None:
    """Schedule and corrected times of each entry, and the stages."""
    manifest = make_manifest(**_RATE, stages=[_stage(0, 5, 10), _stage(5, 10, 10)])
    result = build_result(manifest, make_book(_hung("service")), [])
    total = result["total"]
    assert total["schedule"] == {"scheduled": 500, "missed": 90, "mean_lateness_ms": 18.0}
    assert total["corrected_ms"]["p90"] > 300 > total["response_time_ms"]["p90"]
    assert total["corrected_ms"]["max"] == 1900
    assert [each["users"] for each in result["stages"]] == [10, 10]
    assert sum(each["missed"] for each in result["stages"]) == 90
    plain = build_result(make_manifest(), make_book({"n": 10}), [])["total"]
    assert plain["schedule"] == {"scheduled": 0, "missed": 0, "mean_lateness_ms": None}
    assert plain["corrected_ms"]["p95"] is None
