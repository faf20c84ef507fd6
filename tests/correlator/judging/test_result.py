"""``result.json``: valid against its schema, free of NaN, and with parts that add up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from trilat.agent.errors import InputError
from trilat.agent.records import COMPONENTS
from trilat.correlator.judge.objective import parse
from trilat.correlator.result import MAKEUP_PERCENTILES, build_result
from trilat.correlator.validate import check, result_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.sketches.book import SketchBook

_OBJECTIVES = [
    "p95<=40ms",
    "service.p99<20ms @ /items",
    "network.mean<=1ms",
    "generator.max<=5ms",
    "without_generator.p50<=30ms",
    "fail_ratio<=1%",
    "rate>=5/s",
    "p95<=1ms @ /nope",
]
_TIMES = st.floats(0.0, 500.0)


def _validate(result: dict[str, Any]) -> None:
    """Valid for the reference implementation and for ours, and JSON without NaN."""
    Draft202012Validator(result_schema()).validate(result)
    check(result, result_schema(), result_schema(), "result.json")
    assert json.loads(json.dumps(result, allow_nan=False)) == result


@st.composite
def groups(draw: st.DrawFn) -> dict[str, Any]:
    """Requests of one endpoint, of any times, with any evidence."""
    n = draw(st.integers(1, 40))

    def some(values: st.SearchStrategy[Any]) -> Any:
        return draw(st.lists(values, min_size=n, max_size=n))

    return {
        "n": n,
        "name": draw(st.sampled_from(["/items", "/a", "/b", ""])),
        "service": some(_TIMES),
        "network": some(_TIMES),
        "generator": draw(_TIMES),
        "read": draw(_TIMES),
        "matched": some(st.booleans()),
        "failed": some(st.booleans()),
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    st.lists(groups(), max_size=3),
    st.lists(st.sampled_from(_OBJECTIVES), max_size=4),
    st.sampled_from([None, 1.0, 1e9]),
    st.sampled_from([None, 10.0]),
)
def test_any_run_gives_a_valid_result_whose_parts_add_up(  # noqa: PLR0917
    make_book: Callable[..., SketchBook],
    make_manifest: Callable[..., Manifest],
    found: list[dict[str, Any]],
    objectives: list[str],
    target: float | None,
    measured_s: float | None,
) -> None:
    """Whatever was measured, the result fits its schema, and parts and shares add up."""
    manifest = make_manifest(target_rate_per_s=target, measured_s=measured_s)
    result = build_result(manifest, make_book(*found), [parse(text) for text in objectives])
    _validate(result)
    for entry in [result["total"], *result["endpoints"]]:
        for shares in entry["shares"].values():
            if shares["service"] is not None:
                assert sum(shares.values()) == pytest.approx(1.0, abs=3e-4)
        if entry["unattributed_share"] is not None:
            whole = [each["share"] for each in entry["components_ms"].values()]
            assert sum(whole) + entry["unattributed_share"] == pytest.approx(1.0, abs=6e-4)
        for point in entry["makeup"]:
            parts = sum(point["components_ms"].values()) + point["unattributed_ms"]
            assert parts == pytest.approx(point["response_ms"], abs=0.006)
    assert result["total"]["requests"] == sum(each["requests"] for each in result["endpoints"])


def test_a_run_without_requests_is_null_not_nan(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """Where nothing is known stands null."""
    result = build_result(make_manifest(measured_s=None), make_book(), [parse("p95<=50ms")])
    _validate(result)
    total = result["total"]
    assert total["rate_per_s"] is None
    assert set(total["response_time_ms"].values()) == {None}
    assert set(total["shares"]["p95"].values()) == {None}
    assert total["components_ms"]["service.app"] == dict.fromkeys(
        ("mean", "p50", "p95", "share", "grade")
    )
    assert total["makeup"] == []
    assert result["objectives"][0]["holds"] is None
    assert result["verdict"]["exit_code"] == 5


def test_figures_of_a_known_run(
    make_book: Callable[..., SketchBook], make_manifest: Callable[..., Manifest]
) -> None:
    """Milliseconds, fractions and rates are those of the requests that were made."""
    book = make_book(
        {"n": 1000, "service": 20.0, "network": 1.0, "generator": 40.0, "read": 3.0},
        {"n": 200, "name": "/b", "method": "POST", "service": 5.0, "network": 1.0},
        {"n": 200, "name": "/a", "service": 5.0, "network": 1.0, "failed": True},
    )
    objectives = [parse("p95<=0.05s @ /items"), parse("fail_ratio<=20%"), parse("rate>=200/s")]
    result = build_result(make_manifest(), book, objectives)
    _validate(result)
    names = [(each["method"], each["name"]) for each in result["endpoints"]]
    assert names == [("GET", "/items"), ("GET", "/a"), ("POST", "/b")]
    items = result["endpoints"][0]
    assert (items["requests"], items["failures"], items["matched"]) == (1000, 0, 1000)
    assert items["rate_per_s"] == 100.0
    assert items["response_time_ms"] == dict.fromkeys(
        ("mean", "p50", "p90", "p95", "p99", "max"), 64.0
    )
    assert items["without_generator_ms"]["p95"] == 21.0
    assert items["corrected_ms"]["p95"] is None
    assert items["shares"]["p50"] == {
        "service": 0.3125,
        "network": 0.0156,
        "generator": 0.6719,
        "unattributed": 0.0,
    }
    assert items["components_ms"]["generator.read"] == {
        "mean": 3.0,
        "p50": 3.0,
        "p95": 3.0,
        "share": 0.0469,
        "grade": "measured",
    }
    assert [point["q"] for point in items["makeup"]] == list(MAKEUP_PERCENTILES)
    assert list(items["components_ms"]) == [component.label for component in COMPONENTS]
    assert result["objectives"][0] == {
        "text": "p95<=0.05s @ /items",
        "value": 64.0,
        "unit": "ms",
        "holds": False,
        "value_without_generator": 21.0,
    }
    assert (result["objectives"][1]["value"], result["objectives"][1]["unit"]) == (14.286, "%")
    assert (result["objectives"][2]["value"], result["objectives"][2]["unit"]) == (140.0, "/s")
    assert result["run"]["schema"] == "trilat.run/1"
    assert result["stages"] == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("verdict", "outcome"), "perhaps"),
        (("verdict", "exit_code"), 2),
        (("verdict", "reasons"), []),
        (("total", "requests"), -1),
        (("total", "shares", "p95", "service"), 1.5),
        (("total", "surprise"), 1),
        (("total", "response_time_ms", "p95"), "50"),
        (("endpoints",), {}),
        (("checks", 0, "outcome"), "bad"),
        (("checks", 0, "id"), "first"),
        (("objectives",), [{"text": "p95<=50ms"}]),
        (("run", "run_id"), None),
        (("stages",), [{}]),
        (("surprise",), 1),
    ],
)
def test_the_schema_is_strict(
    place: tuple[str | int, ...],
    value: Any,
    make_book: Callable[..., SketchBook],
    make_manifest: Callable[..., Manifest],
) -> None:
    """A result with anything missing, wrong or added is refused."""
    result: Any = build_result(make_manifest(), make_book({"n": 10, "service": 5.0}), [])
    _validate(result)
    parent = result
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    assert not Draft202012Validator(result_schema()).is_valid(result)
    with pytest.raises(InputError, match=r"^result\.json"):
        check(result, result_schema(), result_schema(), "result.json")
