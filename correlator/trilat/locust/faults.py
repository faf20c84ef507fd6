"""Instrumentation fails open: an error inside it is counted, logged once, and the load goes on."""

from __future__ import annotations

import logging
from collections import Counter

__all__ = ["counts", "note"]

logger = logging.getLogger("trilat.locust")

counts: Counter[str] = Counter()
"""How often something of our own failed, by place."""


def note(place: str, error: BaseException) -> None:
    """Count an error of our own; the first one of each place is logged."""
    counts[place] += 1
    if counts[place] == 1:
        logger.warning("%s: %s: %s (counted, logged once)", place, type(error).__name__, error)
