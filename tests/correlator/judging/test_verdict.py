"""What a verdict tells beside its outcome: reasons, warnings, notes and the objectives' figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trilat.correlator.judge.objective import parse
from trilat.correlator.judge.verdict import Verdict, judge
from trilat.correlator.run.manifest import REBUILT_NOTE

from .groups import BLIND, GENERATOR, NETWORK, SERVICE, Group, part, requests, scheduled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.sketches.book import SketchBook


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
        groups=[SERVICE],
    )
    assert len(verdict.reasons) == 2
    assert "/nope" in verdict.reasons[1]
    assert [each.holds for each in verdict.judgements] == [False, None, True]


@pytest.mark.parametrize(
    ("group", "objective", "holds", "value", "without"),
    [
        (GENERATOR, "p95<=50ms", False, 61e6, 21e6),
        (requests(), "p95<=50ms", True, 21e6, 21e6),
        (requests(), "service.p95<=50ms", True, 20e6, None),
        (BLIND, "service.p95<=50ms", None, None, None),
        (requests(failed=part(0.02)), "fail_ratio<=1%", False, 0.02, None),
        (requests(), "rate>=90/s", True, 100.0, None),
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
    large = _judge(make_book, make_manifest(), "p95<=50ms", groups=[requests(generator=5.0)])
    assert large.exit_code == 0
    assert "generator made 19 % of the mean response time and 19 % of p95" in large.warnings[0]
    assert "FastHttpUser" in large.warnings[0]
    small = _judge(make_book, make_manifest(), "p95<=50ms", groups=[requests(generator=3.0)])
    assert not any("generator made" in warning for warning in small.warnings)
    tail = [requests(generator=[0.0] * 900 + [15.0] * 100)]
    assert "of p95" in _judge(make_book, make_manifest(), groups=tail).warnings[0]


def test_think_times_without_a_rate_are_told(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """A run that wanted no rate is labelled so, without a warning; one that did, is not."""
    verdict = _judge(make_book, make_manifest(), groups=[requests()])
    assert verdict.warnings == ()
    assert verdict.notes[0].startswith("100 users, no rate: ")
    assert "--trilat-target-rate" in verdict.notes[0]
    paced = _judge(make_book, make_manifest(**scheduled(100.0, 100.0)), groups=[requests()])
    assert (paced.warnings, paced.notes) == ((), ())


def test_a_run_that_stopped_early_says_so_first(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """Less than 90 % of the time asked for is the first warning, more is none."""
    manifest = make_manifest(planned_s=60.0, measured_s=4.6)
    verdict = _judge(make_book, manifest, groups=[requests(generator=10.0)])
    assert verdict.warnings[0].startswith("The run stopped after 4.6 s of 60 s")
    assert len(verdict.warnings) == 2
    whole = _judge(make_book, make_manifest(planned_s=10.4), groups=[requests()])
    assert whole.warnings == ()


@pytest.mark.parametrize("cut", [{"notes": [REBUILT_NOTE]}, {"ended_wall_ns": None}])
def test_a_run_that_was_cut_off_does_not_pass(
    cut: dict[str, Any],
    make_book: Callable[..., SketchBook],
    make_manifest: Callable[..., Manifest],
) -> None:
    """What would be a pass is invalid for want of the rest; a failure stays what it is."""
    verdict = _judge(make_book, make_manifest(**cut), "p95<=50ms", groups=[requests()])
    assert (verdict.outcome, verdict.cause, verdict.exit_code) == ("invalid", "evidence", 5)
    assert verdict.reasons == (
        "The run was cut off after 10 s; what there is of it holds the objectives.",
    )
    for group, cause in ((SERVICE, "service"), (GENERATOR, "generator"), (NETWORK, "network")):
        verdict = _judge(make_book, make_manifest(**cut), "p95<=50ms", groups=[group])
        assert verdict.cause == cause
        assert verdict.warnings[0] == "The run was cut off after 10 s."


def test_a_run_without_all_its_users_says_so(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """Users that never came are a warning with what to do."""
    verdict = _judge(make_book, make_manifest(users=8, users_wanted=20), groups=[requests()])
    assert "8 of 20 users" in verdict.warnings[0]
    assert "--spawn-rate" in verdict.warnings[0]
    full = _judge(make_book, make_manifest(users=20, users_wanted=20), groups=[requests()])
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
    warnings = _judge(make_book, make_manifest(), objective, groups=[requests(n=n)]).warnings
    if needed is None:
        assert warnings == ()
    else:
        assert f"rests on {n} requests" in warnings[0]
        assert f"needs at least {needed}" in warnings[0]


def test_reasons_do_not_contradict_each_other(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """Where the service misses an objective and the generator the rate, each is said of its own."""
    manifest = make_manifest(**scheduled(1570.0, 784.0))
    verdict = _judge(make_book, manifest, "p95<=50ms", groups=[requests(service=60.0)])
    assert verdict.cause == "service"
    assert verdict.reasons[1].startswith("As to the rate: it was 784 requests/s of 1,570 wanted")
    assert "the users' own wait_time took the rest" in verdict.reasons[1]
    assert "not the service" not in " ".join(verdict.reasons)


def test_both_slow_says_what_decided(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """A service that failed under a slow generator is told from one that failed alone."""
    both = _judge(
        make_book, make_manifest(), "p95<=50ms", groups=[requests(service=60.0, generator=40.0)]
    )
    assert both.reasons[1].startswith("Both were slow: the generator made 40 % of the mean")
    alone = _judge(make_book, make_manifest(), "p95<=50ms", groups=[SERVICE])
    assert len(alone.reasons) == 1


def test_failures_are_named_as_locust_names_them(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """The texts stand in the reason; where nothing answered, the host is what to look at."""
    down = [requests(failed=True, matched=False)]
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
    groups = [requests(service=60.0, generator=40.0, together=50)]
    verdict = _judge(make_book, make_manifest(), "p95<=50ms", groups=groups)
    assert verdict.cause == "service"
    assert verdict.warnings[0].startswith("The users fire in the same instant")
    calm = _judge(make_book, make_manifest(), "p95<=50ms", groups=[SERVICE])
    assert not any("instant" in warning for warning in calm.warnings)


def test_allowed_failures_are_told(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """Failures that change nothing are a warning."""
    manifest = make_manifest(fails_allowed=True)
    verdict = _judge(make_book, manifest, groups=[requests(failed=part(0.02))])
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
    verdict = _judge(make_book, manifest, groups=[requests(service=20.5, network=0.5)])
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
        requests(service=20.0, network=40.0, far=True),
        requests(service=20.0, network=40.0, generator=32.0, far=True),  # only both would do
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
