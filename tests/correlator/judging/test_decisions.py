"""The decision table: which run passes, which fails, which says nothing, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from trilat.correlator.judge.objective import parse
from trilat.correlator.judge.verdict import judge

from .groups import (
    BLIND,
    BLIND_GENERATOR,
    BLIND_SLOW,
    BOTH,
    BOTH_NETWORK,
    GENERATOR,
    NETWORK,
    SERVICE,
    Group,
    part,
    requests,
    scheduled,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.sketches.book import SketchBook


@dataclass(frozen=True)
class Case:
    """A run, what is asked of it, and what has to come out."""

    groups: Sequence[Group]
    objectives: Sequence[str]
    outcome: str
    cause: str | None
    code: int
    says: str
    manifest: dict[str, Any] = field(default_factory=dict)


CASES = {
    "all holds": Case(
        [requests()], ["p95<=50ms", "rate>=90/s"], "pass", None, 0, "All 2 objectives"
    ),
    "nothing asked": Case([requests()], [], "pass", None, 0, "No objective was given"),
    "no requests": Case([], ["p95<=50ms"], "invalid", "evidence", 5, "nothing to judge"),
    # Objectives on the response time.
    "generator made it": Case(
        [GENERATOR],
        ["p95<=50ms"],
        "invalid",
        "generator",
        3,
        "p95 was 61.0 ms against 50.0 ms; without the generator's own delay it would have been "
        "21.0 ms: the load generator made the miss, not the service.",
    ),
    "network made it": Case(
        [NETWORK],
        ["p95<=50ms"],
        "invalid",
        "network",
        4,
        "without the network's part it would have been 20.0 ms",
    ),
    "service made it": Case(
        [SERVICE],
        ["p95<=50ms"],
        "fail",
        "service",
        1,
        "it would still have been 60.0 ms: the service missed it (100 % of its time is "
        "service.app)",
    ),
    "both made it, more the generator": Case(
        [requests(generator=30.0, network=25.0)],
        ["mean<=30ms"],
        "invalid",
        "generator",
        3,
        "the generator's part is the larger (generator 40 %, network 33 %)",
    ),
    "both made it, more the network": Case(
        [BOTH_NETWORK], ["mean<=30ms"], "invalid", "network", 4, "the network's part is the larger"
    ),
    "largest value": Case(
        [requests(generator=[0.0] * 999 + [50.0])],
        ["max<60ms"],
        "invalid",
        "generator",
        3,
        "max was",
    ),
    "too fast": Case([requests()], ["p50>=30ms"], "fail", "service", 1, "less than was asked for"),
    "named endpoint": Case(
        [requests(), requests(name="/slow", service=90.0)],
        ["p95<=50ms @ GET /slow"],
        "fail",
        "service",
        1,
        "p95 of GET /slow was",
    ),
    "a name for two methods": Case(
        [requests(), requests(method="POST", service=90.0)],
        ["p50<=30ms @ /items", "p99<=50ms @ /items"],
        "fail",
        "service",
        1,
        "p99 of /items was",
    ),
    "unknown endpoint": Case(
        [requests()], ["p95<=50ms @ GET /itms"], "invalid", "evidence", 5, "closest: GET /items"
    ),
    # One side's own time.
    "service's own": Case(
        [SERVICE], ["service.p95<=50ms"], "fail", "service", 1, "the service's own time"
    ),
    "network's own": Case([NETWORK], ["network.p95<=5ms"], "invalid", "network", 4, "network's"),
    "generator's own": Case(
        [GENERATOR], ["generator.p95<=5ms"], "invalid", "generator", 3, "generator's own time"
    ),
    "without generator, network": Case(
        [BOTH], ["without_generator.p95<=30ms"], "invalid", "network", 4, "network made the miss"
    ),
    "without generator, service": Case(
        [SERVICE], ["without_generator.p95<=30ms"], "fail", "service", 1, "service missed it"
    ),
    "without generator, holds": Case(
        [GENERATOR], ["without_generator.p95<=50ms"], "pass", None, 0, "The objective holds"
    ),
    # Evidence.
    "no evidence": Case(
        [BLIND], ["p95<=50ms"], "invalid", "evidence", 5, "No request has evidence"
    ),
    "evidence for 94 %": Case(
        [requests(matched=part(0.94))],
        ["p95<=50ms"],
        "invalid",
        "evidence",
        5,
        "60 of 1,000 requests (6 %) have no evidence from the service; at least 95 %",
    ),
    "evidence for 95 %": Case(
        [requests(matched=part(0.95))], ["p95<=50ms"], "pass", None, 0, "95 % of the requests have"
    ),
    "generator without evidence": Case(
        [BLIND_GENERATOR], ["p95<=50ms"], "invalid", "generator", 3, "the load generator made"
    ),
    "slow without evidence": Case(
        [BLIND_SLOW], ["p95<=50ms"], "invalid", "evidence", 5, "does not decide it"
    ),
    "a tail without evidence": Case(
        [requests(unattributed=[0.0] * 970 + [900.0] * 30, matched=[True] * 970 + [False] * 30)],
        ["p99<=50ms"],
        "invalid",
        "evidence",
        5,
        "30 of 1,000 requests (3 %) have no evidence",
    ),
    "certain though evidence is thin": Case(
        [requests(service=90.0, matched=part(0.8))], ["p95<=50ms"], "fail", "service", 1, "service"
    ),
    "side without evidence": Case(
        [BLIND], ["service.p95<=50ms"], "invalid", "evidence", 5, "cannot be judged"
    ),
    "side with thin evidence holds": Case(
        [requests(matched=part(0.9))], ["service.p95<=50ms"], "invalid", "evidence", 5, "only where"
    ),
    "side with thin evidence missed for certain": Case(
        [requests(service=60.0, matched=part(0.9))], ["service.p95<=50ms"], "fail", "service", 1, ""
    ),
    "side with thin evidence perhaps missed": Case(
        [requests(service=[60.0 if i % 20 == 0 else 20.0 for i in range(1000)], matched=part(0.9))],
        ["service.p95<=50ms", "service.p94<=50ms"],
        "invalid",
        "evidence",
        5,
        "",
    ),
    "clients that nobody sees": Case(
        [requests(marked=part(0.5), matched=part(0.5))],
        ["generator.p95<=50ms"],
        "invalid",
        "evidence",
        5,
        "clients that trilat does not see",
    ),
    # Failures.
    "one failure": Case(
        [requests(failed=[True] + [False] * 999)],
        ["p95<=50ms"],
        "fail",
        "errors",
        1,
        "1 of 1,000 requests failed; none may (most at GET /items: 1)",
    ),
    "failures within the objective": Case(
        [requests(failed=part(0.01))], ["fail_ratio<=1%"], "pass", None, 0, "The objective holds"
    ),
    "failures beyond the objective": Case(
        [requests(failed=part(0.02))],
        ["fail_ratio<=1%"],
        "fail",
        "errors",
        1,
        "fail_ratio was 2 % against 1 %: 20 of 1,000 requests failed",
    ),
    "the objective rules over the option": Case(
        [requests(failed=part(0.02))],
        ["fail_ratio<=1%"],
        "fail",
        "errors",
        1,
        "",
        {"fails_allowed": True},
    ),
    "failures allowed by the option": Case(
        [requests(failed=part(0.5))], [], "pass", None, 0, "", {"fails_allowed": True}
    ),
    "an endpoint's objective rules there only": Case(
        [requests(failed=part(0.01)), requests(name="/b", failed=part(0.003))],
        ["fail_ratio<=1% @ /items"],
        "fail",
        "errors",
        1,
        "3 of 2,000 requests failed",
    ),
    # The rate.
    "rate reached": Case(
        [requests()], [], "pass", None, 0, "rate was reached (95.0 of 100", scheduled(100.0, 95.0)
    ),
    "rate: the generator lost it between the requests": Case(
        [requests()],
        [],
        "invalid",
        "generator",
        3,
        "The rate was 50.0 requests/s of 100 wanted (50 %); each user had 1,000 ms for a request, "
        "and one took 21.0 ms on average",
        scheduled(100.0, 50.0),
    ),
    "rate: the generator's delay": Case(
        [GENERATOR],
        [],
        "invalid",
        "generator",
        3,
        "each user had 50.0 ms for a request, and one took 61.0 ms on average; without the "
        "generator's own delay",
        scheduled(2000.0, 1500.0),
    ),
    "rate: the network": Case(
        [NETWORK], [], "invalid", "network", 4, "", scheduled(2000.0, 1500.0)
    ),
    "rate: the service": Case(
        [SERVICE], [], "fail", "service", 1, "one took 61.0 ms", scheduled(2000.0, 1500.0)
    ),
    "rate: no evidence": Case(
        [BLIND_SLOW], [], "invalid", "evidence", 5, "", scheduled(2000.0, 1500.0)
    ),
    "rate: users unknown": Case(
        [SERVICE],
        [],
        "invalid",
        "evidence",
        5,
        "number of users unknown",
        scheduled(2000.0, 1500.0, users=0),
    ),
    "rate objective, service": Case(
        [SERVICE], ["rate>=2000/s"], "fail", "service", 1, "rate was 100/s against 2,000/s"
    ),
    "rate objective, generator": Case(
        [GENERATOR], ["rate>=2000/s"], "invalid", "generator", 3, "load generator was the limit"
    ),
    "rate objective of one endpoint": Case(
        [requests(n=900), requests(n=100, name="/rare")],
        ["rate>=20/s @ /rare"],
        "invalid",
        "generator",
        3,
        "rate of /rare was 10.0/s against 20.0/s; each user had 500 ms",
    ),
    "rate too high": Case([requests()], ["rate<=50/s"], "invalid", "generator", 3, "more requests"),
    # Several causes at once: the gravest decides.
    "service before generator": Case(
        [requests(), requests(name="/slow", service=90.0, generator=40.0)],
        ["p95<=100ms @ /slow", "service.p95<=50ms @ /slow"],
        "fail",
        "service",
        1,
        "service.p95 of /slow",
    ),
    "service before a rate that the generator missed": Case(
        [SERVICE], ["p95<=50ms"], "fail", "service", 1, "p95 was", scheduled(100.0, 50.0)
    ),
    "errors before service": Case(
        [requests(service=60.0, failed=part(0.1))], ["p95<=50ms"], "fail", "errors", 1, "failed"
    ),
    "generator before network": Case(
        [NETWORK, requests(name="/b", generator=40.0)],
        ["p95<=50ms @ /items", "p95<=50ms @ /b"],
        "invalid",
        "generator",
        3,
        "p95 of /b was",
    ),
    "generator before evidence": Case(
        [GENERATOR], ["p95<=50ms @ /nope", "p95<=50ms"], "invalid", "generator", 3, "p95 was"
    ),
    "network before evidence": Case(
        [NETWORK], ["p95<=50ms @ /nope", "p95<=50ms"], "invalid", "network", 4, "p95 was"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_decision_table(
    name: str, make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """Each case comes to its outcome, cause and exit code, with the deciding reason first."""
    case = CASES[name]
    verdict = judge(
        make_book(*case.groups),
        [parse(text) for text in case.objectives],
        make_manifest(**case.manifest),
    )
    assert (verdict.outcome, verdict.cause, verdict.exit_code) == (
        case.outcome,
        case.cause,
        case.code,
    ), verdict.reasons
    assert case.says in verdict.reasons[0]
    assert all(reason.endswith(".") and reason.isprintable() for reason in verdict.reasons)
