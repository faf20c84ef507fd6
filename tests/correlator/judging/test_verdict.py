"""The decision table: which run passes, which fails, which says nothing, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trilat.correlator.manifest import REBUILT_NOTE
from trilat.correlator.objective import parse
from trilat.correlator.verdict import Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilat.correlator.book import SketchBook
    from trilat.correlator.manifest import Manifest

Group = dict[str, Any]


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


def _group(**values: Any) -> Group:
    return {"n": 1000, "service": 20.0, "network": 1.0} | values


def _part(share: float, n: int = 1000) -> list[bool]:
    """True for this share of n requests, spread evenly."""
    return [(i + 1) * share // 1 > i * share // 1 for i in range(n)]


def _scheduled(target: float, reached: float, **changes: Any) -> dict[str, Any]:
    return {
        "target_rate_per_s": target,
        "reached_rate_per_s": reached,
        "target_rate_source": "option",
        **changes,
    }


_GENERATOR = _group(generator=40.0)  # 61 ms: 40 generator, 1 network, 20 service
_NETWORK = _group(network=40.0)  # 60 ms
_SERVICE = _group(service=60.0)  # 61 ms
_BOTH = _group(generator=25.0, network=30.0)  # 75 ms
_BOTH_NETWORK = _group(generator=20.0, network=35.0)
_BLIND = _group(matched=False)  # 21 ms nobody can be named for
_BLIND_GENERATOR = _group(generator=40.0, matched=False)
_BLIND_SLOW = _group(unattributed=60.0, matched=False)

CASES = {
    "all holds": Case([_group()], ["p95<=50ms", "rate>=90/s"], "pass", None, 0, "All 2 objectives"),
    "nothing asked": Case([_group()], [], "pass", None, 0, "No objective was given"),
    "no requests": Case([], ["p95<=50ms"], "invalid", "evidence", 5, "nothing to judge"),
    # Objectives on the response time.
    "generator made it": Case(
        [_GENERATOR],
        ["p95<=50ms"],
        "invalid",
        "generator",
        3,
        "p95 was 61.0 ms against 50.0 ms; without the generator's own delay it would have been "
        "21.0 ms: the load generator made the miss, not the service.",
    ),
    "network made it": Case(
        [_NETWORK],
        ["p95<=50ms"],
        "invalid",
        "network",
        4,
        "without the network's part it would have been 20.0 ms",
    ),
    "service made it": Case(
        [_SERVICE],
        ["p95<=50ms"],
        "fail",
        "service",
        1,
        "it would still have been 60.0 ms: the service missed it (100 % of its time is "
        "service.app)",
    ),
    "both made it, more the generator": Case(
        [_group(generator=30.0, network=25.0)],
        ["mean<=30ms"],
        "invalid",
        "generator",
        3,
        "the generator's part is the larger (generator 40 %, network 33 %)",
    ),
    "both made it, more the network": Case(
        [_BOTH_NETWORK], ["mean<=30ms"], "invalid", "network", 4, "the network's part is the larger"
    ),
    "largest value": Case(
        [_group(generator=[0.0] * 999 + [50.0])], ["max<60ms"], "invalid", "generator", 3, "max was"
    ),
    "too fast": Case([_group()], ["p50>=30ms"], "fail", "service", 1, "less than was asked for"),
    "named endpoint": Case(
        [_group(), _group(name="/slow", service=90.0)],
        ["p95<=50ms @ GET /slow"],
        "fail",
        "service",
        1,
        "p95 of GET /slow was",
    ),
    "a name for two methods": Case(
        [_group(), _group(method="POST", service=90.0)],
        ["p50<=30ms @ /items", "p99<=50ms @ /items"],
        "fail",
        "service",
        1,
        "p99 of /items was",
    ),
    "unknown endpoint": Case(
        [_group()], ["p95<=50ms @ GET /itms"], "invalid", "evidence", 5, "closest: GET /items"
    ),
    # One side's own time.
    "service's own": Case(
        [_SERVICE], ["service.p95<=50ms"], "fail", "service", 1, "the service's own time"
    ),
    "network's own": Case([_NETWORK], ["network.p95<=5ms"], "invalid", "network", 4, "network's"),
    "generator's own": Case(
        [_GENERATOR], ["generator.p95<=5ms"], "invalid", "generator", 3, "generator's own time"
    ),
    "without generator, network": Case(
        [_BOTH], ["without_generator.p95<=30ms"], "invalid", "network", 4, "network made the miss"
    ),
    "without generator, service": Case(
        [_SERVICE], ["without_generator.p95<=30ms"], "fail", "service", 1, "service missed it"
    ),
    "without generator, holds": Case(
        [_GENERATOR], ["without_generator.p95<=50ms"], "pass", None, 0, "The objective holds"
    ),
    # Evidence.
    "no evidence": Case(
        [_BLIND], ["p95<=50ms"], "invalid", "evidence", 5, "No request has evidence"
    ),
    "evidence for 94 %": Case(
        [_group(matched=_part(0.94))],
        ["p95<=50ms"],
        "invalid",
        "evidence",
        5,
        "60 of 1,000 requests (6 %) have no evidence from the service; at least 95 %",
    ),
    "evidence for 95 %": Case(
        [_group(matched=_part(0.95))], ["p95<=50ms"], "pass", None, 0, "95 % of the requests have"
    ),
    "generator without evidence": Case(
        [_BLIND_GENERATOR], ["p95<=50ms"], "invalid", "generator", 3, "the load generator made"
    ),
    "slow without evidence": Case(
        [_BLIND_SLOW], ["p95<=50ms"], "invalid", "evidence", 5, "does not decide it"
    ),
    "a tail without evidence": Case(
        [_group(unattributed=[0.0] * 970 + [900.0] * 30, matched=[True] * 970 + [False] * 30)],
        ["p99<=50ms"],
        "invalid",
        "evidence",
        5,
        "30 of 1,000 requests (3 %) have no evidence",
    ),
    "certain though evidence is thin": Case(
        [_group(service=90.0, matched=_part(0.8))], ["p95<=50ms"], "fail", "service", 1, "service"
    ),
    "side without evidence": Case(
        [_BLIND], ["service.p95<=50ms"], "invalid", "evidence", 5, "cannot be judged"
    ),
    "side with thin evidence holds": Case(
        [_group(matched=_part(0.9))], ["service.p95<=50ms"], "invalid", "evidence", 5, "only where"
    ),
    "side with thin evidence missed for certain": Case(
        [_group(service=60.0, matched=_part(0.9))], ["service.p95<=50ms"], "fail", "service", 1, ""
    ),
    "side with thin evidence perhaps missed": Case(
        [_group(service=[60.0 if i % 20 == 0 else 20.0 for i in range(1000)], matched=_part(0.9))],
        ["service.p95<=50ms", "service.p94<=50ms"],
        "invalid",
        "evidence",
        5,
        "",
    ),
    "clients that nobody sees": Case(
        [_group(marked=_part(0.5), matched=_part(0.5))],
        ["generator.p95<=50ms"],
        "invalid",
        "evidence",
        5,
        "clients that trilat does not see",
    ),
    # Failures.
    "one failure": Case(
        [_group(failed=[True] + [False] * 999)],
        ["p95<=50ms"],
        "fail",
        "errors",
        1,
        "1 of 1,000 requests failed; none may (most at GET /items: 1)",
    ),
    "failures within the objective": Case(
        [_group(failed=_part(0.01))], ["fail_ratio<=1%"], "pass", None, 0, "The objective holds"
    ),
    "failures beyond the objective": Case(
        [_group(failed=_part(0.02))],
        ["fail_ratio<=1%"],
        "fail",
        "errors",
        1,
        "fail_ratio was 2 % against 1 %: 20 of 1,000 requests failed",
    ),
    "the objective rules over the option": Case(
        [_group(failed=_part(0.02))],
        ["fail_ratio<=1%"],
        "fail",
        "errors",
        1,
        "",
        {"fails_allowed": True},
    ),
    "failures allowed by the option": Case(
        [_group(failed=_part(0.5))], [], "pass", None, 0, "", {"fails_allowed": True}
    ),
    "an endpoint's objective rules there only": Case(
        [_group(failed=_part(0.01)), _group(name="/b", failed=_part(0.003))],
        ["fail_ratio<=1% @ /items"],
        "fail",
        "errors",
        1,
        "3 of 2,000 requests failed",
    ),
    # The rate.
    "rate reached": Case(
        [_group()], [], "pass", None, 0, "rate was reached (95.0 of 100", _scheduled(100.0, 95.0)
    ),
    "rate: the generator lost it between the requests": Case(
        [_group()],
        [],
        "invalid",
        "generator",
        3,
        "The rate was 50.0 requests/s of 100 wanted (50 %); each user had 1,000 ms for a request, "
        "and one took 21.0 ms on average",
        _scheduled(100.0, 50.0),
    ),
    "rate: the generator's delay": Case(
        [_GENERATOR],
        [],
        "invalid",
        "generator",
        3,
        "each user had 50.0 ms for a request, and one took 61.0 ms on average; without the "
        "generator's own delay",
        _scheduled(2000.0, 1500.0),
    ),
    "rate: the network": Case(
        [_NETWORK], [], "invalid", "network", 4, "", _scheduled(2000.0, 1500.0)
    ),
    "rate: the service": Case(
        [_SERVICE], [], "fail", "service", 1, "one took 61.0 ms", _scheduled(2000.0, 1500.0)
    ),
    "rate: no evidence": Case(
        [_BLIND_SLOW], [], "invalid", "evidence", 5, "", _scheduled(2000.0, 1500.0)
    ),
    "rate: users unknown": Case(
        [_SERVICE],
        [],
        "invalid",
        "evidence",
        5,
        "number of users unknown",
        _scheduled(2000.0, 1500.0, users=0),
    ),
    "rate objective, service": Case(
        [_SERVICE], ["rate>=2000/s"], "fail", "service", 1, "rate was 100/s against 2,000/s"
    ),
    "rate objective, generator": Case(
        [_GENERATOR], ["rate>=2000/s"], "invalid", "generator", 3, "load generator was the limit"
    ),
    "rate objective of one endpoint": Case(
        [_group(n=900), _group(n=100, name="/rare")],
        ["rate>=20/s @ /rare"],
        "invalid",
        "generator",
        3,
        "rate of /rare was 10.0/s against 20.0/s; each user had 500 ms",
    ),
    "rate too high": Case([_group()], ["rate<=50/s"], "invalid", "generator", 3, "more requests"),
    # Several causes at once: the gravest decides.
    "service before generator": Case(
        [_group(), _group(name="/slow", service=90.0, generator=40.0)],
        ["p95<=100ms @ /slow", "service.p95<=50ms @ /slow"],
        "fail",
        "service",
        1,
        "service.p95 of /slow",
    ),
    "service before a rate that the generator missed": Case(
        [_SERVICE], ["p95<=50ms"], "fail", "service", 1, "p95 was", _scheduled(100.0, 50.0)
    ),
    "errors before service": Case(
        [_group(service=60.0, failed=_part(0.1))], ["p95<=50ms"], "fail", "errors", 1, "failed"
    ),
    "generator before network": Case(
        [_NETWORK, _group(name="/b", generator=40.0)],
        ["p95<=50ms @ /items", "p95<=50ms @ /b"],
        "invalid",
        "generator",
        3,
        "p95 of /b was",
    ),
    "generator before evidence": Case(
        [_GENERATOR], ["p95<=50ms @ /nope", "p95<=50ms"], "invalid", "generator", 3, "p95 was"
    ),
    "network before evidence": Case(
        [_NETWORK], ["p95<=50ms @ /nope", "p95<=50ms"], "invalid", "network", 4, "p95 was"
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


def _judge(
    make_book: Callable[..., SketchBook],
    manifest: Manifest,
    *objectives: str,
    groups: Sequence[Group] = (),
) -> Verdict:
    return judge(make_book(*groups), [parse(text) for text in objectives], manifest)


def test_all_findings_are_told(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """The reasons of the causes that did not decide follow the one that did."""
    verdict = _judge(
        make_book,
        make_manifest(),
        "p95<=50ms",
        "p95<=50ms @ /nope",
        "service.p95<=70ms",
        groups=[_SERVICE],
    )
    assert len(verdict.reasons) == 2
    assert "/nope" in verdict.reasons[1]
    assert [each.holds for each in verdict.judgements] == [False, None, True]


@pytest.mark.parametrize(
    ("group", "objective", "holds", "value", "without"),
    [
        (_GENERATOR, "p95<=50ms", False, 61e6, 21e6),
        (_group(), "p95<=50ms", True, 21e6, 21e6),
        (_group(), "service.p95<=50ms", True, 20e6, None),
        (_BLIND, "service.p95<=50ms", None, None, None),
        (_group(failed=_part(0.02)), "fail_ratio<=1%", False, 0.02, None),
        (_group(), "rate>=90/s", True, 100.0, None),
    ],
)
def test_each_objective_is_told_with_its_figures(  # noqa: PLR0917
    group: Group,
    objective: str,
    holds: bool | None,
    value: float | None,
    without: float | None,
    make_book: Callable[..., SketchBook],
    make_manifest: Callable[..., Manifest],
) -> None:
    """Value, whether it holds, and the value with a perfect generator stand beside it."""
    (judged,) = _judge(make_book, make_manifest(), objective, groups=[group]).judgements
    assert judged.holds is holds
    assert judged.value == (None if value is None else pytest.approx(value, rel=0.01))
    given = judged.value_without_generator
    assert given == (None if without is None else pytest.approx(without, rel=0.01))


def test_a_pass_warns_of_a_large_generator_share(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """More than 15 % of the mean or of p95 is named, with what to do about it."""
    large = _judge(make_book, make_manifest(), "p95<=50ms", groups=[_group(generator=5.0)])
    assert large.exit_code == 0
    assert "generator made 19 % of the mean response time and 19 % of p95" in large.warnings[0]
    assert "FastHttpUser" in large.warnings[0]
    small = _judge(make_book, make_manifest(), "p95<=50ms", groups=[_group(generator=3.0)])
    assert not any("generator made" in warning for warning in small.warnings)
    tail = [_group(generator=[0.0] * 900 + [15.0] * 100)]
    assert "of p95" in _judge(make_book, make_manifest(), groups=tail).warnings[0]


def test_think_times_without_a_rate_are_told(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """A run that wanted no rate is labelled so, without a warning; one that did, is not."""
    verdict = _judge(make_book, make_manifest(), groups=[_group()])
    assert verdict.warnings == ()
    assert verdict.notes[0].startswith("100 users, no rate: ")
    assert "--trilat-target-rate" in verdict.notes[0]
    paced = _judge(make_book, make_manifest(**_scheduled(100.0, 100.0)), groups=[_group()])
    assert (paced.warnings, paced.notes) == ((), ())


def test_a_run_that_stopped_early_says_so_first(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """Less than 90 % of the time asked for is the first warning, more is none."""
    manifest = make_manifest(planned_s=60.0, measured_s=4.6)
    verdict = _judge(make_book, manifest, groups=[_group(generator=10.0)])
    assert verdict.warnings[0].startswith("The run stopped after 4.6 s of 60 s")
    assert len(verdict.warnings) == 2
    whole = _judge(make_book, make_manifest(planned_s=10.4), groups=[_group()])
    assert whole.warnings == ()


@pytest.mark.parametrize("cut", [{"notes": [REBUILT_NOTE]}, {"ended_wall_ns": None}])
def test_a_run_that_was_cut_off_does_not_pass(
    cut: dict[str, Any],
    make_book: Callable[..., SketchBook],
    make_manifest: Callable[..., Manifest],
) -> None:
    """What would be a pass is invalid for want of the rest; a failure stays what it is."""
    verdict = _judge(make_book, make_manifest(**cut), "p95<=50ms", groups=[_group()])
    assert (verdict.outcome, verdict.cause, verdict.exit_code) == ("invalid", "evidence", 5)
    assert verdict.reasons == (
        "The run was cut off after 10 s; what there is of it holds the objectives.",
    )
    for group, cause in ((_SERVICE, "service"), (_GENERATOR, "generator"), (_NETWORK, "network")):
        verdict = _judge(make_book, make_manifest(**cut), "p95<=50ms", groups=[group])
        assert verdict.cause == cause
        assert verdict.warnings[0] == "The run was cut off after 10 s."


def test_a_run_without_all_its_users_says_so(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """Users that never came are a warning with what to do."""
    verdict = _judge(make_book, make_manifest(users=8, users_wanted=20), groups=[_group()])
    assert "8 of 20 users" in verdict.warnings[0]
    assert "--spawn-rate" in verdict.warnings[0]
    full = _judge(make_book, make_manifest(users=20, users_wanted=20), groups=[_group()])
    assert full.warnings == ()


@pytest.mark.parametrize(
    ("n", "objective", "needed"),
    [
        (95, "p99.9<=50ms", "1,000"),
        (99, "p99<=50ms", "100"),
        (100, "p99<=50ms", None),
        (999, "p99.9<=50ms", "1,000"),
        (1000, "p99.9<=50ms", None),
        (3, "max<=50ms", None),
    ],
)
def test_a_percentile_of_few_requests_is_told(
    n: int,
    objective: str,
    needed: str | None,
    make_book: Callable[..., SketchBook],
    make_manifest: Callable[..., Manifest],
) -> None:
    """A percentile that no request lies above is named with the number that it needs."""
    warnings = _judge(make_book, make_manifest(), objective, groups=[_group(n=n)]).warnings
    if needed is None:
        assert warnings == ()
    else:
        assert f"rests on {n} requests" in warnings[0]
        assert f"needs at least {needed}" in warnings[0]


def test_reasons_do_not_contradict_each_other(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """Where the service misses an objective and the generator the rate, each is said of its own."""
    manifest = make_manifest(**_scheduled(1570.0, 784.0))
    verdict = _judge(make_book, manifest, "p95<=50ms", groups=[_group(service=60.0)])
    assert verdict.cause == "service"
    assert verdict.reasons[1].startswith("As to the rate: it was 784 requests/s of 1,570 wanted")
    assert "the users' own wait_time took the rest" in verdict.reasons[1]
    assert "not the service" not in " ".join(verdict.reasons)


def test_both_slow_says_what_decided(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """A service that failed under a slow generator is told from one that failed alone."""
    both = _judge(
        make_book, make_manifest(), "p95<=50ms", groups=[_group(service=60.0, generator=40.0)]
    )
    assert both.reasons[1].startswith("Both were slow: the generator made 40 % of the mean")
    alone = _judge(make_book, make_manifest(), "p95<=50ms", groups=[_SERVICE])
    assert len(alone.reasons) == 1


def test_failures_are_named_as_locust_names_them(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """The texts stand in the reason; where nothing answered, the host is what to look at."""
    down = [_group(failed=True, matched=False)]
    errors = [{"name": "/", "error": "connection refused\x1b[31m", "count": 1000}]
    verdict = _judge(make_book, make_manifest(failures=errors), groups=down)
    assert verdict.cause == "errors"
    assert verdict.reasons[0].startswith(
        "1,000 of 1,000 requests failed: connection refused\\x1b[31m (1,000\u00d7); nothing was "
        "answered: check that the service is up"
    )
    assert len(verdict.reasons) == 1
    allowed = _judge(
        make_book, make_manifest(failures=errors, fails_allowed=True), "p95<=50ms", groups=down
    )
    assert allowed.reasons[0].startswith("No request was answered: check that the service is up")
    errors = [{"name": "/", "error": "HTTPError('500 Server Error')", "count": 1000}]
    verdict = _judge(make_book, make_manifest(failures=errors), groups=down)
    assert "HTTPError('500 Server Error') (1,000\u00d7)" in verdict.reasons[0]
    assert "TrilatMiddleware" in " ".join(verdict.reasons)


def test_bursts_of_the_generator_are_told(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """A service that fails under users in step is told to be asked again without bursts."""
    groups = [_group(service=60.0, generator=40.0, together=50)]
    verdict = _judge(make_book, make_manifest(), "p95<=50ms", groups=groups)
    assert verdict.cause == "service"
    assert verdict.warnings[0].startswith("The users fire in the same instant")
    calm = _judge(make_book, make_manifest(), "p95<=50ms", groups=[_SERVICE])
    assert not any("instant" in warning for warning in calm.warnings)


def test_allowed_failures_are_told(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """Failures that change nothing are a warning."""
    manifest = make_manifest(fails_allowed=True)
    verdict = _judge(make_book, manifest, groups=[_group(failed=_part(0.02))])
    assert "20 of 1,000 requests failed (2 %), which this run allows." in verdict.warnings


def _paced(count: int, each_per_s: float) -> dict[str, Any]:
    return {
        "name": "Paced",
        "client": "FastHttpUser",
        "wait_time": f"constant_throughput({each_per_s:g})",
        "count": count,
        "target_rate_per_s": count * each_per_s,
    }


def test_a_schedule_counts_tasks(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """Five requests in a task share the user's period, whatever a ramp made of the average."""
    # 100 users with 10 tasks/s each: 100 ms for five requests, 20 ms for one, which takes 21 ms.
    manifest = make_manifest(
        user_classes=[_paced(100, 10.0)],
        target_rate_per_s=500.0,  # half of 1,000: the users came slowly
        reached_rate_per_s=20.0,
        target_rate_source="wait_time",
    )
    verdict = _judge(make_book, manifest, groups=[_group(service=20.5, network=0.5)])
    assert (
        "20.0 tasks/s of 500 wanted (4 %); each user had 20.0 ms for a request"
        in (verdict.reasons[0])
    )
    assert verdict.cause == "service"


def test_queue_that_may_hide_in_the_network(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """Where the clocks cannot tell network from queue and that decides, nobody is named."""
    for group in (
        _group(service=20.0, network=40.0, far=True),
        _group(service=20.0, network=40.0, generator=32.0, far=True),  # only both would do
    ):
        verdict = _judge(make_book, make_manifest(), "p95<=50ms", groups=[group])
        assert (verdict.outcome, verdict.cause) == ("invalid", "evidence")
        assert "may be the service's queue" in verdict.reasons[0]


_TIME = st.floats(0.0, 80.0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    service=st.lists(_TIME, min_size=1, max_size=30),
    network=_TIME,
    generator=_TIME,
    matched=st.floats(0.0, 1.0),
    objective=st.sampled_from(["p50<=40ms", "p95<=40ms", "mean<=40ms", "max<=40ms"]),
)
def test_every_miss_has_one_cause_that_can_be_proved(  # noqa: PLR0917
    service: list[float],
    network: float,
    generator: float,
    matched: float,
    objective: str,
    make_book: Callable[..., SketchBook],
    make_manifest: Callable[..., Manifest],
) -> None:
    """A miss that the generator made is its own; the service is named by its own time only."""
    n = len(service)
    group = {
        "n": n,
        "service": service,
        "network": network,
        "generator": generator,
        "matched": [i < matched * n for i in range(n)],
    }
    verdict = _judge(make_book, make_manifest(), objective, groups=[group])
    (judged,) = verdict.judgements
    assert judged.value is not None
    if judged.holds:
        assert verdict.outcome != "fail"
    else:
        assert judged.finding is not None
        assert judged.value_without_generator is not None
        if judged.objective.holds(judged.value_without_generator):
            assert judged.finding.cause == "generator"
    if verdict.cause == "service":
        assert max(service) > 40.0 * 0.99
