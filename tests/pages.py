"""The pages of the documentation, and the blocks that they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PAGES", "ROOT", "blocks"]

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for folder in (
        ".",
        "docs",
        "agent",
        "middleware",
        "correlator",
        "examples/fastapi",
        "benchmarks",
    )
    for page in (ROOT / folder).glob("*.md")
)


def blocks(language: str) -> Iterator[tuple[Path, str]]:
    """The blocks of a language, each with its page."""
    for page in PAGES:
        for block in re.findall(
            rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE
        ):
            yield page, block
