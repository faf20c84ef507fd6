"""Rows and series that reports draw, from a result."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.records import COMPONENTS, Side
from trilat.correlator.report import figures
from trilat.correlator.report.chart import chart_data
from trilat.correlator.report.conditions import conditions
from trilat.correlator.report.rows import SIDES, STACK

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.just(10**400),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=8), children, max_size=4)
    ),
    max_leaves=15,
)


def test_the_verdict_reads_as_a_sentence(result: dict[str, Any]) -> None:
    """The first reason leads, the rest follow, and each remedy is named once."""
    headline = figures.headline(result)
    assert headline.label == "INVALID (generator)"
    assert headline.sentence.startswith("p95 was ")
    assert headline.reasons == ("The generator made 1,520 requests/s of the 3,000/s wanted.",)
    assert headline.warnings == ("12 requests were not marked; they are all unattributed",)
    assert headline.remedies == (
        "Use FastHttpUser, or spread the users over processes with --processes -1.",
        "Raise the number of processes until the rate is reached.",
    )


def test_a_result_without_a_verdict_says_so() -> None:
    """An unknown outcome is never shown as a pass."""
    headline = figures.headline({"verdict": {"outcome": "splendid"}})
    assert headline.label == "UNKNOWN"
    assert headline.sentence == "The result holds no verdict."


def test_checks_come_worst_first(result: dict[str, Any]) -> None:
    """Failed checks stand before warnings, those before skipped and passed ones."""
    outcomes = [row.outcome for row in figures.checks(result)]
    assert outcomes == ["fail", "fail", "fail", "warn", "skipped", "ok", "ok"]


def test_an_endpoint_row_holds_the_results_figures(result: dict[str, Any]) -> None:
    """Figures are carried over, not computed anew."""
    entry = result["endpoints"][0]
    row = figures.endpoints(result, limit=10)[0]
    assert row.title == "GET /items/[id]"
    assert row.requests == entry["requests"]
    assert row.p95_ms == entry["response_time_ms"]["p95"]
    assert row.without_generator_p95_ms == entry["without_generator_ms"]["p95"]
    assert row.corrected_p95_ms == entry["corrected_ms"]["p95"]
    assert row.shares_p95 is not None
    assert row.shares_p95.generator == pytest.approx(entry["shares"]["p95"]["generator"])


def test_the_heaviest_endpoints_stay_in_their_order() -> None:
    """Over the limit, the endpoints that took most time remain, in the result's order."""
    entries = [
        {"name": f"/{index}", "requests": requests, "response_time_ms": {"mean": mean_ms}}
        for index, (requests, mean_ms) in enumerate([(10, 1.0), (1, 500.0), (1, 1.0), (100, 2.0)])
    ]
    rows = figures.endpoints({"endpoints": entries}, limit=2)
    assert [row.title for row in rows] == ["/1", "/3"]


@given(st.lists(st.floats(min_value=0, max_value=1e308), min_size=4, max_size=4))
def test_shares_add_up_to_one(values: list[float]) -> None:
    """Shares are scaled to 1 whatever stands in the file; all zero is unknown."""
    shares = {side.value: value for side, value in zip(SIDES, values, strict=True)}
    row = figures.total({"total": {"shares": {"p95": shares}}})
    if row.shares_p95 is None:
        assert not any(values)
    else:
        assert sum(share for _, share in row.shares_p95.parts()) == pytest.approx(1.0)


def test_components_keep_the_order_of_a_requests_life(result: dict[str, Any]) -> None:
    """Nine rows, each with its grade; their shares of the mean add up to 1."""
    rows = figures.components(result["total"])
    assert [row.label for row in rows] == [component.label for component in COMPONENTS]
    assert {row.label for row in rows if row.grade == "bounded"} == {
        "network.out",
        "service.queue",
    }
    assert sum(row.share or 0.0 for row in rows) == pytest.approx(1.0)


def test_the_stack_is_grouped_by_side_and_adds_up(result: dict[str, Any]) -> None:
    """Layers stand side by side, percentiles ascend, and layers add up to the response time."""
    entry = result["total"]
    entry["makeup"].reverse()
    makeup = figures.makeup(entry)
    assert makeup.percentiles[0] == "p1"
    assert makeup.percentiles[-1] == "p99.9"
    labels = [series.label for series in makeup.series]
    assert labels == [*(component.label for component in STACK), "unattributed"]
    sides = [series.side for series in makeup.series]
    assert sides == sorted(sides, key=SIDES.index)
    for point, response_ms in enumerate(makeup.response_ms):
        layers_ms = sum(series.values_ms[point] for series in makeup.series)
        assert layers_ms == pytest.approx(response_ms)


def test_only_limits_of_client_percentiles_are_drawn() -> None:
    """A line needs a percentile of the response time and an upper limit."""
    texts = {
        "p95<=50ms": ("p95", 50.0, ""),
        "p99.9<0.25s @ GET /items/[id]": ("p99.9", 250.0, "GET /items/[id]"),
        "service.p95<=30ms": (None, None, ""),
        "p95>=50ms": (None, None, ""),
        "mean<=50ms": (None, None, ""),
        "rate>=10/s": (None, None, ""),
        "nonsense": (None, None, ""),
    }
    rows = figures.objectives({"objectives": [{"text": text} for text in texts]})
    assert [(row.percentile, row.limit_ms, row.name) for row in rows] == list(texts.values())


def test_values_of_objectives_carry_their_unit() -> None:
    """A reached value is written with the unit of its objective, an unknown one as missing."""
    given_objectives = [
        {"text": "p95<=50ms", "value": 57.04, "unit": "ms", "holds": False},
        {"text": "rate>=10/s", "value": 9.5, "unit": "/s", "holds": False},
        {"text": "fail_ratio<=1%", "value": 0.25, "unit": "%", "holds": True},
        {"text": "max<=1s", "value": None, "unit": "ms", "holds": None},
    ]
    rows = figures.objectives({"objectives": given_objectives})
    assert [row.reached for row in rows] == ["57.0 ms", "9.50/s", "0.250 %", "-"]
    assert [row.holds for row in rows] == [False, False, True, None]


def test_the_chart_opens_at_the_endpoint_that_missed(result: dict[str, Any]) -> None:
    """A missed objective chooses its endpoint; objectives about all stand at the total."""
    result["objectives"] = [
        {"text": "p95<=90ms", "holds": True},
        {"text": "p95<=40ms @ /orders", "holds": False},
        {"text": "service.p95<=1ms @ GET /items/[id]", "holds": True},
    ]
    data = chart_data(result)
    assert data["chosen"] == 2
    assert [endpoint["lines"] for endpoint in data["endpoints"]] == [
        [{"text": "p95<=90ms", "percentile": "p95", "limit_ms": 90.0}],
        [],
        [{"text": "p95<=40ms", "percentile": "p95", "limit_ms": 40.0}],
        [],
    ]
    result["objectives"][2]["holds"] = False
    assert chart_data(result)["chosen"] == 1
    result["objectives"][0]["holds"] = False
    assert chart_data(result)["chosen"] == 0


def test_a_single_endpoint_stands_for_all(result: dict[str, Any]) -> None:
    """With one endpoint there is one chart, with the objectives about all requests in it."""
    result["endpoints"] = result["endpoints"][:1]
    data = chart_data(result)
    assert [endpoint["title"] for endpoint in data["endpoints"]] == ["GET /items/[id]"]
    assert data["endpoints"][0]["lines"] == [
        {"text": "p95<=50ms", "percentile": "p95", "limit_ms": 50.0}
    ]


def test_conditions_name_what_is_known(result: dict[str, Any]) -> None:
    """Load, generator and versions are told in words; losses only where there were any."""
    groups = {title: dict(pairs) for title, pairs in conditions(result)}
    assert groups["Load"]["Duration"] == "1 min 0 s"
    assert groups["Load"]["Service and generator"] == "on different hosts"
    assert groups["Load"]["User class"] == (
        "ShopUser, 100 users; HttpUser; constant_throughput(30); 3,000/s wanted"
    )
    assert groups["Load"]["Rate"] == "1,520/s of 3,000/s wanted"
    assert groups["Generator"]["CPU"] == "97 % of a core on average, 99 % at most"
    assert groups["Generator"]["Lost: unmarked"] == "12"
    assert "Lost: journal dropped" not in groups["Generator"]
    assert groups["Versions"]["Command"] == "trilat run -f locustfile.py --slo 'p95<=50ms'"
    assert conditions({}) == []


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            key: JSON_VALUES | st.lists(st.dictionaries(st.sampled_from(inner), JSON_VALUES))
            for key, inner in {
                "verdict": ["outcome"],
                "run": ["host"],
                "total": ["makeup"],
                "endpoints": ["method", "name", "requests", "shares", "makeup", "components_ms"],
                "objectives": ["text", "value", "unit", "holds"],
                "checks": ["id", "title", "outcome", "evidence", "remedy"],
            }.items()
        },
    )
)
def test_no_file_breaks_the_figures(anything: dict[str, Any]) -> None:
    """Whatever JSON stands in place of a result, rows come out and nothing is raised."""
    figures.headline(anything)
    figures.checks(anything)
    figures.total(anything)
    figures.endpoints(anything, limit=2)
    figures.objectives(anything)
    conditions(anything)
    for _, entry in figures.charted(anything):
        assert len(figures.components(entry)) == len(COMPONENTS)
        assert figures.makeup(entry).series[-1].side is Side.UNATTRIBUTED
    chart_data(anything)


@pytest.mark.parametrize(("requests", "last"), [(5, "p80"), (95, "p98"), (100, "p99"), (1, None)])
def test_percentiles_of_few_requests_are_not_drawn(
    requests: int, last: str | None, result: dict[str, Any]
) -> None:
    """The chart ends where no request lies above a percentile."""
    drawn = figures.makeup({**result["total"], "requests": requests}).percentiles
    assert (drawn[-1] if drawn else None) == last


def test_what_decided_is_to_be_done_first(result: dict[str, Any]) -> None:
    """Where the service is the cause, its remedy comes before those for the generator."""
    service = {"id": "S002", "title": "t", "outcome": "fail", "evidence": "e", "remedy": "look"}
    result["checks"].append(service)
    result["verdict"]["cause"] = "service"
    assert figures.headline(result).remedies[0] == "look"
