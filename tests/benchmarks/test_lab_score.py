"""How the lab scores what trilat says."""

from __future__ import annotations

import numpy as np
from benchmarks.lab.measured import Measured
from benchmarks.lab.rules import answer
from benchmarks.lab.score import Score, score
from benchmarks.lab.summary import findings, goals
from benchmarks.lab.table import COLUMNS, PARTS, Table, side_of

MS = 1e6


def table(**parts_ms: float) -> Table:
    """200 requests, all alike; parts that are not given take no time."""
    size = 200
    columns = {name: np.full(size, parts_ms.get(name, 0.0) * MS) for name in COLUMNS}
    for side in ("generator", "network", "service"):
        columns[side] = sum((columns[p] for p in PARTS if side_of(p) == side), np.zeros(size))
    response = sum((columns[name] for name in PARTS), np.zeros(size))
    spans = np.arange(1, size + 1, dtype=np.uint64)
    return Table(spans, np.arange(size, dtype=np.int64), response, columns)


def measured(said: Table, low_ms: float = 0.0, high_ms: float = 100.0) -> Measured:
    """What trilat says, the same interval for all."""
    ones = np.ones(said.size)
    return Measured(said, ones.astype(np.bool_), ones * low_ms * MS, ones * high_ms * MS)


def scored(real: dict[str, float], said: dict[str, float], **bounds: float) -> Score:
    """Score one made of what against the other."""
    return score(table(**real), measured(table(**said), **bounds))


APP, QUEUE, SEND = "service.app", "service.queue", "generator.send"


def test_the_truth_itself_has_no_error() -> None:
    """Where both say the same, all errors are 0 and the cause is right."""
    same = {APP: 20.0, SEND: 5.0}
    result = scored(same, same)
    assert all(parts["p99"]["error"] == 0 for parts in result.parts.values())
    assert set(result.share_points.values()) == {0.0}
    assert result.dominant == {"truth": APP, "share": 0.8, "trilat": APP, "right": True}
    assert result.bounds == {"requests": 200, "hold": 200, "below": 0, "above": 0}


def test_errors_have_a_sign_and_a_size() -> None:
    """Time that trilat puts to the generator is missing from the service."""
    result = scored({APP: 20.0, SEND: 5.0}, {APP: 15.0, SEND: 10.0})
    assert result.parts[SEND]["mean"] == {"truth": 5.0, "trilat": 10.0, "error": 5.0}
    assert result.share_points == {
        "generator": 20.0,
        "network": 0.0,
        "service": -20.0,
        "unattributed": 0.0,
    }


def test_another_cause_is_wrong_unless_both_are_as_large() -> None:
    """Two causes whose shares hardly differ are both right."""
    assert scored({APP: 20.0, SEND: 5.0}, {APP: 5.0, SEND: 20.0}).dominant["right"] is False
    assert scored({APP: 10.1, SEND: 10.0}, {APP: 10.0, SEND: 10.1}).dominant["right"] is True


def test_an_interval_beside_the_truth_does_not_hold() -> None:
    """The true queue has to lie between the limits that trilat states."""
    both = {QUEUE: 8.0}
    assert scored(both, both, low_ms=7.0, high_ms=9.0).bounds["hold"] == 200
    assert scored(both, both, low_ms=9.0, high_ms=12.0).bounds["hold"] == 0


def test_requests_that_one_does_not_know_are_left_out() -> None:
    """Without a span id nothing can be put together."""
    real, said = table(**{APP: 1.0}), table(**{APP: 1.0})
    real.spans[:50] = 0
    result = score(real, measured(said))
    assert (result.requests, result.joined) == (200, 150)


def test_rules_answer_the_same_question() -> None:
    """The gauge and Locust's log see an idle processor; the truth and trilat do not look at it."""
    result = scored({APP: 10.0, SEND: 20.0}, {APP: 10.0, SEND: 20.0})
    said = answer(result, 14.0, "nothing", [10.0] * 20, 30.0)
    assert (said.truth, said.trilat, said.gauge, said.warning) == (True, True, False, False)
    assert said.right == {"trilat": True, "gauge": False, "warning": False, "baseline": True}


def test_what_misses_a_goal_is_listed_with_its_cause() -> None:
    """Nothing that is wrong is left out of the summary."""
    result = scored({QUEUE: 20.0, SEND: 5.0}, {QUEUE: 5.0, SEND: 20.0})
    outcome = {
        "name": "bad",
        "off": "because",
        "score": {
            name: getattr(result, name) for name in ("parts", "share_points", "dominant", "bounds")
        },
    }
    outcome["score"]["joined"] = result.joined  # type: ignore[index]
    (found,) = findings([outcome])
    assert found.cause == "because"
    assert found.what.startswith(f"names {SEND} for {QUEUE}; share of generator +60.0 points")
    held = {goal.what: goal.holds for goal in goals([outcome])}
    assert held["dominant cause named right"] is False
    assert held["the interval of service.queue holds the truth"] is True
