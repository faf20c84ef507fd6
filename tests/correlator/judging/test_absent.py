"""Workers that went missing, and resets: what the verdict makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from trilat.correlator.judge.objective import parse
from trilat.correlator.result import build_result
from trilat.correlator.run.crew import WorkerFacts, crew_facts
from trilat.correlator.validate import check, result_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.sketches.book import SketchBook

_SOUND = {"n": 1000, "service": 20.0, "network": 1.0, "generator": 1.0}


def worker(**changes: Any) -> WorkerFacts:
    """A worker that told of 500 requests, all of which came."""
    facts: dict[str, Any] = {
        "session": "a1",
        "name": "host_a1",
        "host": "far",
        "pid": 7,
        "trilat": "0.1.0",
        "users": 10,
        "requests": 500,
        "received": 500,
        "estimate": 0,
        "source": "reports",
        "ended": True,
        "reported_wall_ns": 10**9,
        "heard_wall_ns": 3 * 10**9,
        "journals": "/there/journals",
        "shared": False,
    }
    return {**facts, **changes}  # type: ignore[typeddict-item]


@pytest.fixture
def judged(
    make_manifest: Callable[..., Manifest], make_book: Callable[..., SketchBook]
) -> Callable[..., dict[str, Any]]:
    """The result of a sound run of 1,000 requests in which something happened to workers."""

    def judge(
        *workers: WorkerFacts, load_missing: float = 0.0, strangers: Any = (), **facts: Any
    ) -> dict[str, Any]:
        crew = crew_facts(workers, strangers, at_once=2, load_missing=load_missing)
        manifest = make_manifest(crew=crew, run_mode="master", workers=2, **facts)
        result = build_result(manifest, make_book(_SOUND), [parse("p95<=50ms")])
        check(result, result_schema(), result_schema(), "result")
        return result

    return judge


def outcome(result: dict[str, Any]) -> tuple[str, int, str]:
    """Outcome, code and the outcome of the workers' check."""
    (found,) = [each for each in result["checks"] if each["id"] == "G020"]
    return result["verdict"]["outcome"], result["verdict"]["exit_code"], found["outcome"]


def test_all_reported_to_the_end(judged: Callable[..., dict[str, Any]]) -> None:
    """Nothing is said of them but that."""
    result = judged(worker(), worker(session="b2"))
    assert outcome(result) == ("pass", 0, "ok")
    assert not result["verdict"]["warnings"]


def test_a_little_is_missing(judged: Callable[..., dict[str, Any]]) -> None:
    """A pass with a warning that says how much, where it is and what to do."""
    gone = worker(requests=520, estimate=10, ended=False)
    result = judged(gone, load_missing=0.02)
    assert outcome(result) == ("pass", 0, "warn")
    lost, unknown = result["verdict"]["warnings"]
    assert lost == "Worker host_a1 went missing: 2 % of the load was not made."
    assert "20 requests that workers told of, and about 10 after" in unknown
    assert "bring the journal of far:/there/journals" in unknown
    assert "trilat correlate" in unknown


def test_too_much_is_unknown_for_a_pass(judged: Callable[..., dict[str, Any]]) -> None:
    """Requests that nobody can tell of are without evidence, estimated ones too."""
    result = judged(worker(requests=520, estimate=40, ended=False, shared=True))
    assert outcome(result) == ("invalid", 5, "fail")
    assert result["verdict"]["cause"] == "evidence"
    (reason,) = result["verdict"]["reasons"]
    assert "6 % of all" in reason
    assert "run trilat correlate, which takes them" in reason
    assert not any("unknown" in each for each in result["verdict"]["warnings"])


def test_too_little_load_was_made(judged: Callable[..., dict[str, Any]]) -> None:
    """As with a rate that the generator did not make."""
    result = judged(worker(ended=False), worker(session="b2"), load_missing=0.3)
    assert outcome(result) == ("invalid", 3, "fail")
    assert "30 % of the load that was asked for was not made" in result["verdict"]["reasons"][0]


def test_a_recovered_journal_is_evidence_again(judged: Callable[..., dict[str, Any]]) -> None:
    """That the worker went missing stays true."""
    result = judged(worker(source="journal", ended=False))
    assert outcome(result) == ("pass", 0, "warn")
    (found,) = [each for each in result["checks"] if each["id"] == "G020"]
    assert "its journal has 500 requests, all" in found["evidence"]


def test_strangers(judged: Callable[..., dict[str, Any]]) -> None:
    """A worker without trilat makes requests that no figure holds."""
    stranger = {"name": "plain\x1b[2J", "requests": 400, "why": "runs without trilat"}
    result = judged(worker(), strangers=[stranger])
    assert outcome(result) == ("invalid", 5, "fail")
    assert "import trilat.locust on every worker" in result["verdict"]["reasons"][0]
    (found,) = [each for each in result["checks"] if each["id"] == "G020"]
    assert "400 requests that are in Locust's figures only" in found["evidence"]
    assert found["evidence"].isprintable()


def test_many_are_named_by_number(judged: Callable[..., dict[str, Any]]) -> None:
    """Three names, and how many more."""
    gone = [worker(session=str(number), name=f"w{number}", ended=False) for number in range(9)]
    result = judged(*gone)
    assert result["verdict"]["warnings"][0] == "Workers w0, w1, w2, 6 more went missing."


@pytest.mark.parametrize(
    ("reset", "told"),
    [
        ({"times": 1, "counted_late": 0}, "were reset while the run went on"),
        ({"times": 3, "counted_late": 7}, "the last of 3 times"),
    ],
)
def test_a_reset_is_noted(
    reset: dict[str, int],
    told: str,
    make_manifest: Callable[..., Manifest],
    make_book: Callable[..., SketchBook],
) -> None:
    """How many requests are left out, and how many of them Locust counts all the same."""
    manifest = make_manifest(reset={"wall_ns": 1, "left_out": 1234, **reset})
    result = build_result(manifest, make_book(_SOUND), [])
    note = result["verdict"]["notes"][0]
    assert told in note
    assert "1,234 requests before that are left out" in note
    assert ("hold 7 requests more" in note) == bool(reset["counted_late"])
