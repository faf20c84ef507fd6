"""What the reports show of the service's own evidence."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from trilat.agent.records import Side
from trilat.correlator.report.chart import chart_data
from trilat.correlator.report.html import render as page_of
from trilat.correlator.report.service_facts import facts
from trilat.correlator.report.service_rows import blocked, blocked_in_app, over_time
from trilat.correlator.report.terminal import render

PROCESSES = 3
SECONDS = 400


def printed(result: dict[str, Any], width: int) -> str:
    """What the terminal shows, in one line a paragraph."""
    stream = io.StringIO()
    render(result, Console(file=stream, width=width, color_system=None))
    return re.sub(r"\s+", " ", stream.getvalue())


@pytest.mark.parametrize("width", [80, 160])
def test_the_terminal_names_the_line(sampled: dict[str, Any], width: int) -> None:
    """With how often and how long; the loop's part of service.app and the facts follow."""
    text = printed(sampled, width)
    assert "shop/app.py:12 pay 8 1,680" in text
    assert "(not seen) 8 420" in text
    assert "the event loop was blocked for 12.3 ms on average" in text
    assert "Memory: 100 MB at first, 140 MB at last, limit 512 MB" in text
    assert "Event loop: blocked for 12 % of the time" in text
    assert "1 sample files could not be read" in text


def test_the_page_names_the_line_and_opens_its_stack(sampled: dict[str, Any]) -> None:
    """The stack is one look away, innermost frame last, and the figures stand in tables."""
    page = page_of(sampled)
    assert "What blocked the service's event loop" in page.replace("&#x27;", "'")
    assert "<pre>shop/app.py:40 route\nshop/app.py:12 pay</pre>" in page
    assert "3 more lines are not shown." in page
    assert page.count("data-time=") == len(over_time(sampled))
    assert "<caption>Memory of the service, MB</caption>" in page
    assert len(page.encode()) < 450_000


def test_the_page_of_a_result_without_samples(result: dict[str, Any]) -> None:
    """Has neither of the sections."""
    page = page_of(result)
    assert "Over time" not in page
    assert "What blocked the service" not in page
    assert "data-time=" not in page


def test_curves_are_told_apart(sampled: dict[str, Any]) -> None:
    """Each process by its name and its own shade; what is all zeros has no chart."""
    charts = {chart.title: chart for chart in over_time(sampled)}
    memory = charts["Memory of the service"]
    assert [curve.label for curve in memory.curves] == [
        f"service web-1:{100 + number}" for number in range(PROCESSES)
    ]
    assert len({(curve.shade, curve.dash) for curve in memory.curves}) == PROCESSES
    assert "Held back by a CPU limit" not in charts
    assert [curve.side for curve in charts["Requests per second"].curves] == [Side.GENERATOR]
    lag = charts["Longest lag of the event loop"].curves[0]
    assert len(lag.values) <= SECONDS // 4
    assert max(value or 0.0 for value in lag.values) == pytest.approx(210.0)
    assert lag.elapsed_s[-1] == SECONDS


def test_shares_are_of_all_blocks(sampled: dict[str, Any]) -> None:
    """Also of those in lines that are not shown."""
    first, second = blocked(sampled)
    assert first.share == pytest.approx(0.8)
    assert first.place == "shop/app.py:12"
    assert second.place == "(not seen)"


def test_places_that_are_no_lines_are_explained(sampled: dict[str, Any]) -> None:
    """Whoever looks for the line that is to blame learns that there is none; others do not."""
    sampled["service"]["blocked"][0] |= {"file": "(no callback)", "line": 0, "function": ""}
    for text in (page_of(sampled), printed(sampled, 120)):
        assert "(no callback): no line blocked the loop." in text
        assert "(not seen): the line is not known" in text
    del sampled["service"]["blocked"][1]
    for text in (page_of(sampled), printed(sampled, 120)):
        assert "(no callback): no line blocked the loop." in text
        assert "(not seen)" not in text


def test_hostile_texts_are_only_text(sampled: dict[str, Any]) -> None:
    """A path, a function and a frame that hold markup and escapes."""
    hostile = "</script><img src=x>\x1b[2J\u202e"
    for place in sampled["service"]["blocked"]:
        place |= {"file": hostile, "function": hostile, "stack": [hostile]}
    for side in ("service", "generator"):
        for series in sampled[side]["series"]:
            series["host_name"] = hostile
    sampled["service"]["remarks"] = [hostile]
    page = page_of(sampled)
    assert "<img" not in page
    for text in (page, printed(sampled, 120)):
        assert "\x1b" not in text
        assert "\u202e" not in text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("series", "elapsed_s", "rss_mb", "p95_ms", "blocked", "blocks", "memory"),
                    *("total_ms", "places", "stack", "file", "line", "loop_lag_ms", "max"),
                    *("first_mb", "last_mb", "instances", "remarks", "mean", "cpu_percent"),
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=30,
)


@given(JSON, JSON)
@settings(deadline=None, max_examples=40)
def test_any_sections_are_read(service: Any, generator: Any) -> None:
    """Nothing raises, and what is drawn is JSON."""
    result = {"service": service, "generator": generator, "total": {"loop_blocked_ms": service}}
    json.dumps(chart_data(result), allow_nan=False)
    facts(result)
    blocked(result)
    blocked_in_app({"loop_blocked_ms": service})
    printed(result, 80)
    page_of(result)
