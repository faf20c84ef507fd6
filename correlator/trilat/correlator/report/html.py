"""The report as one page that needs nothing beside it: no server, no network, no other file."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from trilat.correlator.reading import mapping, text
from trilat.correlator.report import figures
from trilat.correlator.report.chart import chart_data
from trilat.correlator.report.markup import element
from trilat.correlator.report.sections import body

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["render"]


def render(result: Mapping[str, Any]) -> str:
    """The page of a result, complete in itself, to be written as UTF-8.

    Its policy lets the scripts and the style in it run, each by its hash, and nothing else: the
    page loads nothing, and markup that came in with a name could not run.

    Args:
        result: the content of ``result.json``; figures it does not hold are shown as unknown.
    """
    style, library = _asset("report.css"), _library()
    script = _asset("report.js") + _asset("over_time.js")
    policy = (
        "default-src 'none'",
        f"script-src {_source_hash(library)} {_source_hash(script)}",
        f"style-src {_source_hash(style)}",
        "base-uri 'none'",
        "form-action 'none'",
    )
    target = text(mapping(result, "run"), "target_host")
    title = " - ".join(part for part in (figures.headline(result).label, target, "trilat") if part)
    return Template(_asset("template.html")).substitute(
        policy="; ".join(policy),
        title=element("title", title),
        style=style,
        body=body(result),
        data=_json(chart_data(result)),
        library=library,
        script=script,
    )


@cache
def _asset(path: str) -> str:
    return files(__package__).joinpath(path).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """The chart library as it stands in a page: under its licences, without its source map.

    A source map's address would make a browser's developer tools look for the file.
    """
    licences = "\n".join(
        _asset(f"vendor/LICENSE-{name}.md").strip() for name in ("chart.js", "kurkle-color")
    )
    code = _asset("vendor/chart.umd.min.js").partition("\n//# sourceMappingURL=")[0]
    return f"/*\n{licences}\n*/\n{code}\n"


def _source_hash(source: str) -> str:
    """The name of an inline script or style in a Content Security Policy, level 2 and later."""
    return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'"


def _json(data: object) -> str:
    """JSON that cannot end the element it stands in, whatever its strings hold."""
    written = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for char in "<>&":
        written = written.replace(char, f"\\u{ord(char):04x}")
    return written
