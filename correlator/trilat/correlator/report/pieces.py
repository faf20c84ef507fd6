"""What the sections of the page are put together from: tables, bars, badges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.correlator.report.markup import Html, element, joined
from trilat.correlator.text import MISSING, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilat.correlator.report.rows import Shares

__all__ = [
    "GRADES",
    "badge",
    "breakable",
    "grade",
    "section",
    "sentence",
    "share_bar",
    "swatch",
    "table",
]

GRADES = {
    "measured": "read off one clock, or off clocks that are the same",
    "bounded": "the estimate inside an interval that holds",
    "estimated": "inferred from something near it; no interval is claimed",
}
"""The grades of evidence in words."""


def share_bar(shares: Shares | None) -> Html:
    """Shares as a bar with their figures under it.

    It is drawn as a picture, since a page's policy may forbid style attributes and printers leave
    backgrounds out.
    """
    if shares is None:
        return element("span", MISSING)
    drawn, left = [], 0.0
    for side, share in shares.parts():
        width = share * 100
        drawn.append(
            element(
                "rect", x=f"{left:.2f}", width=f"{width:.2f}", height="8", class_=f"fill-{side}"
            )
        )
        left += width
    words = [f"{side} {percent(share)}" for side, share in shares.parts() if share > 0]
    picture = element(
        "svg",
        *drawn,
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        class_="bar",
        aria_hidden="true",
    )
    return joined((picture, element("small", " · ".join(words))))


def section(title: str, *children: str | None) -> Html:
    """A part of the page under its heading."""
    return element("section", element("h2", title), *children)


def table(
    caption: str,
    headings: Sequence[str],
    lines: Iterable[Sequence[str]],
    text_columns: Sequence[int],
    class_: str | None = None,
) -> Html:
    """A table that scrolls in itself where the page is narrow; the first column heads its row."""

    def kind(column: int) -> str | None:
        return "text" if column in text_columns else None

    head = (
        element("th", heading, scope="col", class_=kind(column))
        for column, heading in enumerate(headings)
    )
    rows = (
        element(
            "tr",
            element("th", line[0], scope="row"),
            *(
                element("td", cell, class_=kind(column))
                for column, cell in enumerate(line[1:], start=1)
            ),
        )
        for line in lines
    )
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *head)),
        element("tbody", *rows),
        class_=class_,
    )
    return element("div", table, class_="scroll", role="region", aria_label=caption, tabindex="0")


def breakable(name: str) -> Html:
    """A name that may be broken after each slash."""
    return Html("/<wbr>".join(joined((part,)) for part in name.split("/")))


def sentence(text: str) -> str:
    """Text with a capital where it starts with a plain word; ``p95`` and names stay as they are."""
    first = text.partition(" ")[0]
    return text[0].upper() + text[1:] if first.isalpha() else text


def badge(words: str, kind: str) -> Html:
    """A word in a frame; `kind` sets its colour."""
    return element("span", words, class_=f"badge {kind}")


def grade(name: str) -> Html:
    """The badge of a grade of evidence, one of `GRADES`."""
    return element("span", name, class_=f"badge {name}")


def swatch(name: str) -> Html:
    """A spot in the colour of a side (``service``) or a component (``service-app``)."""
    return element("i", class_=f"swatch fill-{name}", aria_hidden="true")
