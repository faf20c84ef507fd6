"""Careful reading of a result that anybody may have written.

None of these raises: what is missing, of the wrong type or not finite reads as unknown or empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trilat.correlator.text import clean

__all__ = ["items", "mapping", "number", "text", "texts", "whole"]

_SENTENCE_MAX = 1000  # characters: a reason or a command line, not a name


def number(value: object) -> float | None:
    """`value` where it is a finite number, else `None`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        converted = float(value)
    except OverflowError:  # an integer of more than 308 digits is valid JSON
        return None
    return converted if math.isfinite(converted) else None


def whole(value: object) -> int:
    """`value` as a count: 0 where it is no number or below 0."""
    converted = number(value)
    return 0 if converted is None else max(int(converted), 0)


def mapping(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object at `key`, or an empty one."""
    value = parent.get(key)
    return value if isinstance(value, Mapping) else {}


def items(parent: Mapping[str, Any], key: str) -> list[Any]:
    """The array at `key`, or an empty one."""
    value = parent.get(key)
    return value if isinstance(value, list) else []


def text(parent: Mapping[str, Any], key: str) -> str:
    """The string at `key`, cleaned, or an empty one."""
    value = parent.get(key)
    return clean(value, limit=_SENTENCE_MAX) if isinstance(value, str) else ""


def texts(parent: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The strings in the array at `key`, cleaned."""
    return tuple(
        clean(item, limit=_SENTENCE_MAX) for item in items(parent, key) if isinstance(item, str)
    )
