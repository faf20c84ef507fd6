"""The page as text: what may stand in it and what may not."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trilat.correlator.report.chart import chart_data
from trilat.correlator.report.html import render
from trilat.correlator.report.markup import Html, element

HOSTILE = "</script><img src=x onerror=alert(1)><!--\u2028&amp;'\""


class Reader(HTMLParser):
    """Collects the elements of a page with their attributes, and the text in each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember an element."""
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Remember text with the element that was opened last."""
        self.texts.append((self.elements[-1][0] if self.elements else "", data))


def read(page: str) -> Reader:
    """A page, parsed."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def sources(page: str, tag: str) -> Iterator[str]:
    """The content of each script or style of a page, data left out."""
    for attributes, content in re.findall(rf"<{tag}([^>]*)>(.*?)</{tag}>", page, re.DOTALL):
        if "json" not in attributes:
            yield content


def test_the_page_is_small_and_asks_for_nothing(result: dict[str, Any]) -> None:
    """No attribute of any element points out of the page, and it is below 400 KB."""
    page = render(result)
    assert len(page.encode()) < 400_000
    pointing = {"src", "href", "srcset", "action", "poster", "style"}
    for tag, attributes in read(page).elements:
        assert not pointing & attributes.keys(), tag
        assert not any(name.startswith("on") for name in attributes)
    style = next(sources(page, "style"))
    assert "url(" not in style
    assert "@import" not in style
    assert "sourceMappingURL" not in page


def test_the_policy_names_exactly_what_is_in_the_page(result: dict[str, Any]) -> None:
    """The hashes in the policy are those of the two scripts and the style; all else is none."""

    def named(source: str) -> str:
        return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'"

    page = render(result)
    policy = next(
        attributes["content"] or ""
        for tag, attributes in read(page).elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    scripts, styles = list(sources(page, "script")), list(sources(page, "style"))
    assert len(scripts) == 2
    assert rules == {
        "default-src": "'none'",
        "script-src": " ".join(named(source) for source in scripts),
        "style-src": named(styles[0]),
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_hostile_texts_are_only_text(result: dict[str, Any]) -> None:
    """Markup in any text of the result makes no element, and the data survive it."""
    harmless = [tag for tag, _ in read(render(result)).elements]
    for entry in result["endpoints"]:
        entry["name"] = f"/{HOSTILE}"
    result["run"]["target_host"] = HOSTILE
    result["run"]["user_classes"][0]["name"] = HOSTILE
    result["verdict"]["reasons"] = [HOSTILE, HOSTILE]
    result["objectives"][0]["text"] = HOSTILE
    result["checks"][0]["evidence"] = HOSTILE
    page = render(result)
    tags = [tag for tag, _ in read(page).elements]
    assert [tag for tag in tags if tag != "wbr"] == [tag for tag in harmless if tag != "wbr"]
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert not set("<>&\u2028") & set(data[1])
    assert json.loads(data[1]) == json.loads(json.dumps(chart_data(result)))


def test_the_figures_stand_in_tables(result: dict[str, Any]) -> None:
    """Without the script every figure of the chart is there, in tables with headed columns."""
    reader = read(render(result))
    cells = [text for tag, text in reader.texts if tag in {"td", "th"}]
    assert "55.7" in cells
    assert "POST /orders" not in cells  # broken after the slash
    assert {"p99.9", "Made of at p95", "unattributed"} <= set(cells)
    scopes = [attributes.get("scope") for tag, attributes in reader.elements if tag == "th"]
    assert set(scopes) == {"col", "row"}


def test_an_empty_result_makes_a_page() -> None:
    """A result without figures is shown as unknown."""
    page = render({})
    assert "UNKNOWN" in page
    assert '"percentiles":[]' in page


def test_a_thousand_endpoints_stay_readable(result: dict[str, Any]) -> None:
    """Many endpoints are cut to the heaviest, and the page says how many are left out."""
    result["endpoints"] = result["endpoints"] * 400
    page = render(result)
    assert len(page.encode()) < 400_000
    assert "1,150 endpoints with less load are in result.json only." in page


@given(st.text(), st.text())
def test_only_built_markup_is_taken_as_markup(text: str, value: str) -> None:
    """Text and attribute values are escaped; what was built is nested as it is."""
    built = element("p", text, element("b", text), title=value, hidden=True, lang=None)
    assert isinstance(built, Html)
    reader = read(str(built))
    assert [tag for tag, _ in reader.elements] == ["p", "b"]
    assert set(reader.elements[0][1]) == {"title", "hidden"}
    assert built.count("<") == 4


def test_the_vendored_library_is_the_pinned_one() -> None:
    """The library's own banner, the pin and the lock name one version, and the lock no registry."""
    vendor = files("trilat.correlator.report") / "vendor"
    pinned = json.loads((vendor / "package.json").read_text())["dependencies"]["chart.js"]
    lock = (vendor / "package-lock.json").read_text()
    assert f"Chart.js v{pinned}\n" in (vendor / "chart.umd.min.js").read_text()
    assert json.loads(lock)["packages"]["node_modules/chart.js"]["version"] == pinned
    assert "resolved" not in lock
    assert "://" not in lock
