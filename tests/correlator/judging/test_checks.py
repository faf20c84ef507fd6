"""The checks: what each sees, how grave it is, and what it says to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from trilat.correlator.judge.checks import run_checks
from trilat.correlator.judge.objective import parse
from trilat.correlator.judge.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilat.correlator.judge.checking import Check
    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.sketches.book import SketchBook

_FAST = {
    "name": "Shopper",
    "client": "FastHttpUser",
    "wait_time": "constant_throughput(1)",
    "count": 100,
    "target_rate_per_s": 100.0,
}

_BUSY: dict[str, Any] = {"generator_cpu_percent": {"mean": 98.0, "max": 100.0}}
_REFUSED = {"name": "/items", "error": "ConnectionRefusedError(111, 'refused')", "count": 1000}
_ERROR_500 = {"name": "/items", "error": "HTTPError('500 Server Error')", "count": 1000}


@pytest.fixture
def checks(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> Callable[..., dict[str, Check]]:
    """Check a run of one endpoint: ``group`` is about its requests, ``manifest`` about the run."""

    def check(group: dict[str, Any] | None, *objectives: str, **manifest: Any) -> dict[str, Check]:
        book = make_book(*([] if group is None else [{"n": 1000, "service": 20.0} | group]))
        facts = make_manifest(**manifest)
        verdict = judge(book, [parse(text) for text in objectives], facts)
        return {each["id"]: each for each in run_checks(facts, book.total(), verdict)}

    return check


def test_a_sound_run(checks: Callable[..., dict[str, Check]]) -> None:
    """Every check of a sound run is ok or has nothing to look at, and none asks for anything."""
    found = checks({}, "p95<=50ms")
    assert list(found) == [
        *("E001", "E002", "E003", "E004", "G001", "G002", "G003", "G004", "L001", "L002"),
        *("S001", "S002", "S003"),
    ]
    assert {each["outcome"] for each in found.values()} == {"ok", "skipped"}
    assert {each["remedy"] for each in found.values()} == {""}
    assert all(each["title"] and each["evidence"] for each in found.values())


def test_a_run_without_requests(checks: Callable[..., dict[str, Check]]) -> None:
    """Nothing but the missing requests is said of it."""
    (check,) = checks(None).values()
    assert (check["outcome"], check["evidence"]) == ("fail", "no request was counted")


@pytest.mark.parametrize(("objective", "outcome"), [("p95<=100ms", "warn"), ("p95<=50ms", "fail")])
def test_generator_share(
    objective: str, outcome: str, checks: Callable[..., dict[str, Check]]
) -> None:
    """A large share warns on a pass and fails where it decided."""
    check = checks({"generator": 40.0}, objective)["G001"]
    assert check["outcome"] == outcome
    assert check["evidence"] == "67 % of the mean, 67 % of p95"


@pytest.mark.parametrize(
    ("manifest", "says", "says_not"),
    [
        ({}, ["lower --spawn-rate", "FastHttpUser"], ["--processes", "periods"]),
        ({"user_classes": [_FAST]}, ["of its periods in on_start"], ["FastHttpUser", "spawn-rate"]),
        (_BUSY, ["FastHttpUser", "--processes 4"], ["on_start", "spawn-rate"]),
        (_BUSY | {"user_classes": [_FAST]}, ["--processes 4"], ["FastHttpUser"]),
        (_BUSY | {"processes": 4}, ["another host than the service"], ["--processes"]),
        (
            _BUSY | {"processes": 4, "same_host": False},
            ["workers on further hosts"],
            ["--processes"],
        ),
        ({"generator_cpu_percent": None}, ["FastHttpUser", "--processes 4"], ["on_start"]),
    ],
)
def test_remedies_fit_the_run(
    manifest: dict[str, Any],
    says: list[str],
    says_not: list[str],
    checks: Callable[..., dict[str, Check]],
) -> None:
    """Only what the run has not done yet is asked for, and only for a cause that it shows."""
    remedy = checks({"generator": 40.0, "together": 50}, **manifest)["G001"]["remedy"]
    assert all(text in remedy for text in says)
    assert not any(text in remedy for text in says_not)


@pytest.mark.parametrize(
    ("cpu", "generator", "outcome"),
    [
        (None, 0.0, "skipped"),
        ({"mean": 40.0, "max": 79.0}, 0.0, "ok"),
        ({"mean": 40.0, "max": 90.0}, 0.0, "warn"),
        ({"mean": 90.0, "max": 99.0}, 0.0, "warn"),
        ({"mean": 90.0, "max": 99.0}, 40.0, "fail"),
    ],
)
def test_generator_cpu(
    cpu: dict[str, float] | None,
    generator: float,
    outcome: str,
    checks: Callable[..., dict[str, Check]],
) -> None:
    """A saturated processor warns, and fails where the generator made the run invalid."""
    found = checks({"generator": generator}, "p95<=50ms", generator_cpu_percent=cpu)
    assert found["G002"]["outcome"] == outcome


@pytest.mark.parametrize(
    ("group", "target", "reached", "outcome", "says"),
    [
        ({}, None, None, "skipped", ""),
        ({}, 100.0, 96.0, "ok", ""),
        ({}, 100.0, 60.0, "fail", "more users share the rate"),
        ({"generator": 40.0, "together": 50}, 2000.0, 1000.0, "fail", "FastHttpUser"),
        ({"service": 60.0}, 2000.0, 1000.0, "fail", "why the service is slow"),
    ],
)
def test_rate(  # noqa: PLR0917
    group: dict[str, Any],
    target: float | None,
    reached: float | None,
    outcome: str,
    says: str,
    checks: Callable[..., dict[str, Check]],
) -> None:
    """A rate that was missed fails, with what to do for the side that missed it."""
    found = checks(
        group,
        target_rate_per_s=target,
        reached_rate_per_s=reached,
        target_rate_source=None if target is None else "option",
    )
    assert found["G003"]["outcome"] == outcome
    assert says in found["G003"]["remedy"]


def test_rate_of_unknown_users(checks: Callable[..., dict[str, Check]]) -> None:
    """Without the number of users the rate is told, and nobody is blamed for it."""
    rates = {"target_rate_per_s": 100.0, "target_rate_source": "option", "users": 0}
    check = checks({}, reached_rate_per_s=50.0, **rates)["G003"]
    assert (check["outcome"], check["evidence"]) == ("fail", "50.0 of 100 requests/s (50 %)")


@pytest.mark.parametrize(
    ("generator", "cpu", "outcome"),
    [
        (40.0, 14.0, "warn"),
        (40.0, 98.0, "ok"),
        (1.0, 14.0, "ok"),
        (40.0, None, "skipped"),
    ],
)
def test_users_in_step(
    generator: float, cpu: float | None, outcome: str, checks: Callable[..., dict[str, Check]]
) -> None:
    """A long wait before sending on an idle processor is users that fire together."""
    facts = None if cpu is None else {"mean": cpu, "max": cpu}
    group = {"generator": generator, "together": 50}
    check = checks(group, generator_cpu_percent=facts)["G004"]
    assert check["outcome"] == outcome
    if outcome != "skipped":
        assert "48.5 more start than with independent users" in check["evidence"]


@pytest.mark.parametrize(
    ("matched", "outcome", "says"),
    [
        ([True] * 950 + [False] * 50, "ok", ""),
        ([True] * 900 + [False] * 100, "fail", "TrilatMiddleware"),
        (False, "fail", "Server-Timing"),
    ],
)
def test_coverage(
    matched: bool | list[bool],
    outcome: str,
    says: str,
    checks: Callable[..., dict[str, Check]],
) -> None:
    """Evidence for less than 95 % of the requests fails, with where to look."""
    check = checks({"matched": matched})["E001"]
    assert check["outcome"] == outcome
    assert says in check["remedy"]


def test_kernel_stamps(checks: Callable[..., dict[str, Check]]) -> None:
    """Without the kernel's stamps, generator.read is said to be estimated."""
    check = checks({}, kernel_stamps=False)["E002"]
    assert check["outcome"] == "warn"
    assert "generator.read is estimated" in check["evidence"]
    check = checks({"stamped": False})["E002"]
    assert check["evidence"].startswith("some answers came without the kernel's stamp")
    assert checks({"marked": False, "matched": False})["E002"]["outcome"] == "skipped"


def test_clocks(checks: Callable[..., dict[str, Check]]) -> None:
    """A queue that cannot be told from the network is a warning with its size."""
    check = checks({"network": 40.0, "far": True}, same_host=False)["E003"]
    assert check["outcome"] == "warn"
    assert "may be the service's queue" in check["evidence"]
    assert checks({"matched": False})["E003"]["outcome"] == "skipped"


def test_lost_records(checks: Callable[..., dict[str, Check]]) -> None:
    """Each counter of lost evidence is named with what to do, an unknown one as it is."""
    lost = {"unmarked": 3, "errors_inside": 0, "gone_astray": 2}
    check = checks({}, lost=lost)["E004"]
    assert check["outcome"] == "warn"
    assert check["evidence"] == "3 requests of clients that trilat does not see, 2 gone astray"
    assert check["remedy"] == "make them with HttpUser or FastHttpUser to have them attributed"


@pytest.mark.parametrize(("objective", "outcome"), [("fail_ratio<=5%", "warn"), ("p50<1s", "fail")])
def test_failures(objective: str, outcome: str, checks: Callable[..., dict[str, Check]]) -> None:
    """Failures that are allowed warn, others fail."""
    check = checks({"failed": [True] * 20 + [False] * 980}, objective)["S001"]
    assert (check["outcome"], check["evidence"]) == (outcome, "20 of 1,000 (2 %)")


def test_an_idle_generator_is_not_asked_for_more_processes(
    checks: Callable[..., dict[str, Check]],
) -> None:
    """A delay after the answer on an idle processor has another cause than CPU time or steps."""
    remedy = checks({"read": 40.0})["G001"]["remedy"]
    assert "what blocks the generator" in remedy
    assert "--processes" not in remedy
    assert "FastHttpUser" not in remedy


def test_a_service_that_is_down(checks: Callable[..., dict[str, Check]]) -> None:
    """Where nothing answered, nobody is told of the middleware or of users in step."""
    down = {"failed": True, "matched": False, "service": 0.0, "generator": 40.0}
    found = checks(down, failures=[_REFUSED])
    assert found["E001"]["remedy"] == "check that the service is up and that --host is right"
    assert found["S001"]["remedy"] == found["E001"]["remedy"]
    assert "ConnectionRefusedError(111, 'refused') (1,000" in found["S001"]["evidence"]
    assert found["G001"]["outcome"] == found["G004"]["outcome"] == "skipped"
    assert found["S002"]["outcome"] == "skipped"


def test_a_service_that_answers_with_errors(checks: Callable[..., dict[str, Check]]) -> None:
    """Where answers came back without evidence, the middleware is what is missing."""
    found = checks({"failed": True, "matched": False}, failures=[_ERROR_500])
    assert "TrilatMiddleware" in found["E001"]["remedy"]
    assert "locust.log" in found["S001"]["remedy"]


@pytest.mark.parametrize(
    ("failed", "says"),
    [
        ([False] * 700 + [True] * 300, "find out why requests failed"),
        (False, "the other requests have it"),
    ],
)
def test_coverage_of_a_part(
    failed: bool | list[bool], says: str, checks: Callable[..., dict[str, Check]]
) -> None:
    """Where some requests have evidence the middleware is there, and what differs is asked for."""
    check = checks({"matched": [True] * 700 + [False] * 300, "failed": failed})["E001"]
    assert says in check["remedy"]


def test_a_slow_service_gets_something_to_do(checks: Callable[..., dict[str, Check]]) -> None:
    """The check of the service's own time fails where it is the cause, with its largest part."""
    check = checks({"service": 60.0}, "p95<=50ms")["S002"]
    assert check["outcome"] == "fail"
    assert check["evidence"].startswith("service.queue 0 %, service.app 100 %")
    assert check["remedy"].startswith("look at service.app (100 % of the service's time)")
    assert checks({}, "p95<=50ms")["S002"]["outcome"] == "ok"
