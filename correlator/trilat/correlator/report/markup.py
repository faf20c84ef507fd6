"""A small builder of HTML in which text is escaped unless it was built here.

Only `element` and `joined` make `Html`, so foreign text cannot become markup by an oversight.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Html", "element", "joined"]


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *children: str | None, **attributes: str | bool | None) -> Html:
    """An element with its children, in order.

    Args:
        tag: the element's name.
        children: `Html` is taken as it is, other text is escaped, `None` is left out.
        attributes: a trailing underscore is dropped and others become hyphens (``class_``,
            ``aria_label``); True writes the bare name; `None` and False leave it out.
    """
    written = "".join(
        f" {_name(name)}" if value is True else f' {_name(name)}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{tag}{written}>{joined(children)}</{tag}>")


def joined(children: Iterable[str | None]) -> Html:
    """Children one after another, escaped where they are no `Html`."""
    return Html(
        "".join(
            child if isinstance(child, Html) else escape(child)
            for child in children
            if child is not None
        )
    )


def _name(keyword: str) -> str:
    return keyword.rstrip("_").replace("_", "-")
