"""Objectives: how they are written, what they mean, and what a wrong one is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.agent.errors import UsageError
from trilat.correlator.judge.objective import Objective, parse

_STATISTICS = st.one_of(
    st.sampled_from(["mean", "max"]),
    st.integers(1, 99).map(lambda p: f"p{p}"),
    st.tuples(st.integers(0, 99), st.integers(1, 999)).map(lambda p: f"p{p[0]}.{p[1]}"),
)
_TIMES = st.tuples(
    st.sampled_from(["", "service.", "network.", "generator.", "without_generator."]), _STATISTICS
).map("".join)
_NUMBERS = st.one_of(
    st.integers(0, 10**9).map(str),
    st.tuples(st.integers(0, 99), st.integers(0, 999)).map(lambda n: f"{n[0]}.{n[1]}"),
)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """An objective with all the spaces that may stand in it."""
    space = st.sampled_from(["", " ", "  "])
    metric, units = draw(
        st.one_of(
            st.tuples(_TIMES, st.just(["ms", "s"])),
            st.just(("fail_ratio", ["%"])),
            st.just(("rate", ["/s"])),
        )
    )
    number = draw(st.integers(0, 100).map(str)) if metric == "fail_ratio" else draw(_NUMBERS)
    operator = draw(st.sampled_from(["<=", "<", ">=", ">"]))
    parts = ["", metric, operator, number, draw(st.sampled_from(units))]
    name = draw(st.one_of(st.none(), st.text(min_size=1, max_size=30).filter(str.strip)))
    if name is not None:
        parts += ["@", name]
    return "".join(part + draw(space) for part in parts)


@given(expressions())
def test_text_reads_back_as_the_same_objective(text: str) -> None:
    """The plain form of any objective is read as that objective again."""
    objective = parse(text)
    assert parse(str(objective)) == objective
    assert str(objective) == objective.text


@given(st.text(max_size=60))
def test_any_text_is_an_objective_or_a_usage_error_of_one_line(text: str) -> None:
    """Nothing but a UsageError comes out of any text, and its message is one printable line."""
    message = ""
    try:
        parse(text)
    except UsageError as error:
        message = str(error)
    assert not message or message.isprintable()


@pytest.mark.parametrize(
    ("text", "metric", "variable", "quantile", "operator", "bound", "endpoint"),
    [
        ("p95<=50ms", "p95", "response", 0.95, "<=", 50e6, None),
        ("p99.9 < 0.2s", "p99.9", "response", 0.999, "<", 200e6, None),
        ("mean>1.5ms", "mean", "response", None, ">", 1.5e6, None),
        ("max>=3 s", "max", "response", None, ">=", 3e9, None),
        (
            "service.p95<=50ms @ GET /items/[id]",
            "service.p95",
            "service",
            0.95,
            "<=",
            50e6,
            "GET /items/[id]",
        ),
        ("network.mean<=1ms@/a", "network.mean", "network", None, "<=", 1e6, "/a"),
        ("generator.p50<5ms", "generator.p50", "generator", 0.5, "<", 5e6, None),
        (
            "without_generator.max<9ms",
            "without_generator.max",
            "without_generator",
            None,
            "<",
            9e6,
            None,
        ),
        ("fail_ratio<=1%", "fail_ratio", "", None, "<=", 0.01, None),
        ("rate>=100/s", "rate", "", None, ">=", 100.0, None),
        ("p50<=1ms @ mail a@b", "p50", "response", 0.5, "<=", 1e6, "mail a@b"),
    ],
)
def test_parts_of_an_objective(  # noqa: PLR0917
    text: str,
    metric: str,
    variable: str,
    quantile: float | None,
    operator: str,
    bound: float,
    endpoint: str | None,
) -> None:
    """Metric, comparison, bound and endpoint are what was written."""
    objective = parse(text)
    assert objective.metric == metric
    assert objective.variable == variable
    assert objective.quantile == (None if quantile is None else pytest.approx(quantile))
    assert objective.operator == operator
    assert objective.bound == pytest.approx(bound)
    assert objective.endpoint == endpoint


@pytest.mark.parametrize(
    ("text", "teaches"),
    [
        ("", "METRIC OP VALUE"),
        ("p95", "quotes"),
        ("<=50ms", "METRIC OP VALUE"),
        ("p95=50ms", "write <=, <, >= or >"),
        ("p95=<50ms", "write <=, <, >= or >"),
        ("p95<=50", "write 50ms or 0.05s, not 50"),
        ("p95<=", "write 50ms or 0.05s"),
        ("p95<=-5ms", "write 50ms or 0.05s, not -5ms"),
        ("p95<=nanms", "write 50ms or 0.05s"),
        ("p95<=1e3ms", "write 50ms or 0.05s"),
        ("p95<=1,000ms", "write 50ms or 0.05s"),
        ("p95<=5%", "a time"),
        ("p95<=\N{ARABIC-INDIC DIGIT FIVE}ms", "a time"),
        ("fail_ratio<=0.01", "write 1%"),
        ("fail_ratio<=101%", "at most 100%"),
        ("rate>=100", "write 100/s"),
        ("rate>=100ms", "write 100/s"),
        ("p0<=1ms", "above 0"),
        ("p100<=1ms", "p100 is max"),
        ("service.p100<=1ms", "p100 is max"),
        ("servce.p95<=50ms", "did you mean service.p95"),
        ("p9S<=50ms", "did you mean"),
        ("failratio<=1%", "did you mean fail_ratio?"),
        ("throughput>=1/s", "fail_ratio and rate"),
        ("service.rate>=1/s", "no metric is called service.rate"),
        ("p95<=50ms @", "name is missing"),
        ("x" * 2000, "at most 1000 characters"),
        ("p95\x1b[2J<=50ms", "no metric"),
    ],
)
def test_a_wrong_objective_is_told_what_to_write(text: str, teaches: str) -> None:
    """The error is one line that names the objective and teaches the right form."""
    with pytest.raises(UsageError) as caught:
        parse(text)
    message = str(caught.value)
    assert teaches in message
    assert message.isprintable()
    assert len(message) < 400


def test_values_are_shown_in_the_metrics_own_unit() -> None:
    """Times are shown in milliseconds, ratios in per cent, rates per second."""
    shown = {text: (parse(text).unit, parse(text).in_unit(parse(text).bound)) for text in _TEXTS}
    assert shown == {
        "p95<=0.05s": ("ms", pytest.approx(50.0)),
        "fail_ratio<=1%": ("%", pytest.approx(1.0)),
        "rate>=100/s": ("/s", 100.0),
    }


_TEXTS = ("p95<=0.05s", "fail_ratio<=1%", "rate>=100/s")


@pytest.mark.parametrize(
    ("operator", "below", "at", "above"),
    [
        ("<=", True, True, False),
        ("<", True, False, False),
        (">=", False, True, True),
        (">", False, False, True),
    ],
)
def test_comparisons(operator: str, *, below: bool, at: bool, above: bool) -> None:
    """Each comparison holds on the right side of its bound, and at it where it says so."""
    objective = parse(f"rate{operator}10/s")
    assert [objective.holds(value) for value in (9.99, 10.0, 10.01)] == [below, at, above]


def _keys(name: str) -> list[tuple[str, str]]:
    endpoints = [("GET", "/items"), ("POST", "/items"), ("GET", "/a"), ("GET", "GET /a")]
    objective: Objective = parse(f"p95<=1ms @ {name}")
    return objective.keys(endpoints)


def test_a_name_stands_for_its_endpoints() -> None:
    """A name alone means every method; with a method one; a name that looks like both is itself."""
    assert _keys("/items") == [("GET", "/items"), ("POST", "/items")]
    assert _keys("POST /items") == [("POST", "/items")]
    assert _keys("GET /a") == [("GET", "GET /a")]
    assert _keys("/b") == []
