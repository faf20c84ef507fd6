"""Stages: what was asked for, with the figures of the requests that started then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import attribute
from trilat.correlator.attribution.cuts import cut
from trilat.correlator.judge.stage_section import stages_section
from trilat.correlator.judge.stages import STAGES_MAX, saturation_of, stages_of
from trilat.correlator.run.manifest import Manifest, StageFacts
from trilat.correlator.sketches.book import SketchBook

MS = 1_000_000
EPOCH = 1_700_000_000_000_000_000
Rows = npt.NDArray[np.void]
Load = Sequence[tuple[float, float, int, float]]


def _manifest(stages: list[StageFacts], measured_s: float, **facts: Any) -> Manifest:
    usual: dict[str, Any] = {
        "run_id": "0123456789ab",
        "started_wall_ns": EPOCH,
        "ended_wall_ns": EPOCH + round(measured_s * 1e9),
        "measured_s": measured_s,
        "trilat": "0",
        "locust": "2",
        "python": "3",
        "host": {},
        "command": [],
        "locustfile": "",
        "target_host": None,
        "user_classes": [],
        "users": 100,
        "target_rate_source": "wait_time",
        "stages": stages,
    }
    return Manifest(**(usual | facts))


def _hold(from_s: float, to_s: float | None, users: int, rate: float | None = None) -> StageFacts:
    return {
        "from_s": from_s,
        "to_s": to_s,
        "users_from": users,
        "users": users,
        "ramp": False,
        "step": 0,
        "rate_from_per_s": rate,
        "rate_to_per_s": rate,
    }


@pytest.fixture
def book_of(row: Callable[..., Rows]) -> Callable[..., SketchBook]:
    """Make a book of spans of load: from, to (s), requests per second, response time (ms)."""

    def make(load: Load, **fields: Any) -> SketchBook:
        book = SketchBook()
        for from_s, to_s, per_s, took_ms in load:
            rows = np.repeat(row(**fields), round((to_s - from_s) * per_s))
            at = from_s + np.arange(rows.size) / per_s
            rows["started_wall_ns"] = EPOCH + np.round(at * 1e9).astype(np.int64)
            rows["response_ns"] = round(took_ms * MS)
            cuts = cut(rows)
            book.course.slices.add(attribute(cuts, Aligner(1).align(cuts)))
        return book

    return make


def test_each_stage_has_its_own_figures(book_of: Callable[..., SketchBook]) -> None:
    """Rates over its own time, its own response times, the rate that was wanted of it."""
    book = book_of([(0, 10, 100, 10.0), (10, 15, 400, 40.0)], lateness_ns=2 * MS, missed=1)
    manifest = _manifest([_hold(0, 10, 10, 200.0), _hold(10, None, 40, 800.0)], 15)
    first, second = stages_section(stages_of(manifest, book))
    assert (first["rate_per_s"], second["rate_per_s"]) == (100, 400)
    assert (first["target_rate_per_s"], first["reached_rate_per_s"]) == (200, 100)
    assert second["to_s"] == 15
    assert first["response_time_ms"]["p95"] == pytest.approx(10, rel=0.01)
    assert second["corrected_ms"]["max"] == pytest.approx(42)
    assert (first["requests"], first["missed"]) == (1000, 1000)
    assert sum(second["shares"].values()) == pytest.approx(1)
    assert first["saturated"] is None


def test_a_long_ramp_is_cut_into_pieces(book_of: Callable[..., SketchBook]) -> None:
    """Users on a line, half a step ahead of it as Locust adds them; at most ten pieces."""
    ramp: StageFacts = {
        **_hold(0, 60, 100, None),
        "users_from": 0,
        "ramp": True,
        "step": 2,
        "rate_from_per_s": 0.0,
        "rate_to_per_s": 100.0,
    }
    stages = stages_of(_manifest([ramp], 60), book_of([(0, 60, 20, 5.0)]))
    assert len(stages) == 10
    assert [each.users for each in stages] == list(range(10, 101, 10))
    expected = pytest.approx([6 + 10 * at for at in range(10)])
    assert [each.mean_users for each in stages] == expected
    assert [each.target_per_s for each in stages] == expected
    # Ten users came in each, whose first task has no plan.
    assert stages[3].reached_per_s == pytest.approx(10 / 6)
    short = stages_of(_manifest([{**ramp, "to_s": 3.0}], 3), book_of([(0, 3, 20, 5.0)]))
    assert len(short) == 1
    many: list[StageFacts] = [
        {**ramp, "from_s": 60.0 * at, "to_s": 60.0 * at + 60} for at in range(150)
    ]
    assert len(stages_of(_manifest(many, 9000.0), SketchBook())) == STAGES_MAX


def test_what_came_before_a_reset_is_left_out(book_of: Callable[..., SketchBook]) -> None:
    """And what nobody wrote down has no stages."""
    reset = {"times": 1, "wall_ns": EPOCH + 6_000 * MS, "left_out": 600, "counted_late": 0}
    book = book_of([(6, 10, 100, 10.0)])
    manifest = _manifest([_hold(0, 5, 10), _hold(5, 10, 20)], 4, reset=reset)
    (stage,) = stages_of(manifest, book)
    assert (stage.from_s, stage.to_s, stage.rate_per_s) == (6, 10, 100)
    assert stages_of(_manifest([], 4), book) == []


@pytest.mark.parametrize(
    ("load", "point", "by_rate"),
    [
        ([(0, 5, 100, 10.0), (5, 10, 200, 10.0), (10, 15, 400, 12.0)], None, None),
        ([(0, 5, 100, 10.0), (5, 10, 200, 20.0), (10, 15, 250, 160.0)], 40, True),
        ([(0, 5, 100, 10.0), (5, 10, 120, 90.0), (10, 15, 110, 300.0)], 20, True),
        ([(0, 5, 100, 10.0), (5, 10, 120, 90.0), (10, 15, 400, 10.0)], None, None),
        ([(0, 5, 100, 10.0), (5, 10, 200, 15.0), (10, 15, 390, 80.0)], 40, False),
        ([(0, 5, 100, 1.0), (5, 10, 200, 1.5), (10, 15, 390, 4.5)], None, None),
        ([(0, 5, 10, 10.0), (5, 10, 10, 200.0), (10, 15, 10, 500.0)], None, None),
    ],
)
def test_the_point_of_saturation(
    load: Load, point: int | None, by_rate: bool | None, book_of: Callable[..., SketchBook]
) -> None:
    """From there on each user makes less than nine tenths of what it made, or p95 has taken off.

    Not where it was only for a while, nor with too few requests to tell.
    """
    planned = [_hold(0, 5, 10), _hold(5, 10, 20), _hold(10, 15, 40)]
    stages = stages_of(_manifest(planned, 15), book_of(load))
    found = saturation_of(stages)
    assert (None if found is None else found.point.users) == point
    assert (None if found is None else found.by_rate) == by_rate
    marked = [each["saturated"] for each in stages_section(stages)]
    assert marked == [None if point is None else users >= point for users in (10, 20, 40)]


def test_one_number_of_users_saturates_nothing(book_of: Callable[..., SketchBook]) -> None:
    """There is nothing to compare it with."""
    stages = stages_of(_manifest([_hold(0, 5, 10)], 5), book_of([(0, 5, 100, 10.0)]))
    assert saturation_of(stages) is None
