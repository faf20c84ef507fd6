"""Checks JSON values from outside against the schemas of the package.

The package's schemas keep to a part of JSON Schema draft 2020-12 that is small enough to be checked
here, so reading a file needs no further dependency, and what is read is what the schema says.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from trilat.agent.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["check", "load_json", "parse_json", "result_schema"]

_BYTES_MAX = 64 * 2**20
_INTEGER_MAX = 2**63
_DIGITS_MAX = 20  # of 2**63 with a sign; JSON has no leading zeros
_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


@cache
def result_schema() -> dict[str, Any]:
    """The JSON Schema of ``result.json``, version 1; not to be changed by the caller."""
    file = resources.files(__package__) / "schema" / "result-1.json"
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def load_json(path: Path) -> Any:
    """Read a JSON file that may have been damaged or made to do harm.

    Raises:
        InputError: no such file, not a regular file, larger than 64 MiB, or not JSON in UTF-8;
            also for NaN and infinite numbers, which JSON does not have, and for integers beyond
            2**63 either way, which no field has and which cannot become floats.
    """
    try:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        with path.open("rb") as file:
            raw = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    if len(raw) > _BYTES_MAX:
        raise InputError(f"{path}: larger than {_BYTES_MAX // 2**20} MiB")
    return parse_json(raw, str(path))


def parse_json(raw: bytes, where: str) -> Any:
    """Read JSON that came from outside.

    Args:
        raw: its bytes.
        where: what they are, for the error's text.

    Raises:
        InputError: as `load_json`, for what the bytes hold.
    """
    try:
        return json.loads(
            raw.decode("utf-8"),
            parse_constant=_refuse_number,
            parse_float=_finite_number,
            parse_int=_bounded_integer,
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{where}: {place}: not JSON ({error.msg})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: byte {error.start}: not UTF-8") from error
    except (ValueError, RecursionError) as error:
        text = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{where}: not JSON ({text})") from error


def _refuse_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _finite_number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is out of range")
    return value


def _bounded_integer(text: str) -> int:
    value = int(text) if len(text) <= _DIGITS_MAX else _INTEGER_MAX + 1
    if abs(value) > _INTEGER_MAX:
        raise ValueError(f"{text[:20]} is out of range")
    return value


def check(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], where: str) -> None:
    """Hold a JSON value against a schema.

    Known are ``$ref`` into the root's ``$defs``, ``type``, ``const``, ``enum``, ``required``,
    ``properties``, ``additionalProperties``, ``items``, ``minItems``, ``maxItems``, ``minimum``,
    ``maximum``, ``exclusiveMinimum``, ``exclusiveMaximum`` and ``pattern``.

    Args:
        value: what was read.
        schema: the schema, or a part of it.
        root: the whole schema, where ``$ref`` points into.
        where: file and place of the value, for the error's text.

    Raises:
        InputError: the first place that does not fit.
    """
    if (reference := schema.get("$ref")) is not None:
        check(value, root["$defs"][reference.removeprefix("#/$defs/")], root, where)
        return
    if "const" in schema and value != schema["const"]:
        raise InputError(f"{where}: {_shown(value)} in place of {schema['const']}")
    if "enum" in schema and value not in schema["enum"]:
        known = ", ".join(str(known) for known in schema["enum"])
        raise InputError(f"{where}: {_shown(value)} is none of {known}")
    _check_type(value, schema, where)
    if isinstance(value, dict):
        _check_object(value, schema, root, where)
    elif isinstance(value, list):
        _check_array(value, schema, root, where)
    elif isinstance(value, str):
        if "pattern" in schema and re.search(schema["pattern"], value) is None:
            raise InputError(f"{where}: {_shown(value)} does not have the form it must have")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_range(value, schema, where)


def _check_type(value: Any, schema: Mapping[str, Any], where: str) -> None:
    names = schema.get("type")
    if names is None:
        return
    allowed = [names] if isinstance(names, str) else names
    for name in allowed:
        if isinstance(value, _TYPES[name]) and not (
            isinstance(value, bool) and name in ("integer", "number")
        ):
            return
    raise InputError(f"{where}: {_shown(value)} is not of type {' or '.join(allowed)}")


def _check_object(
    value: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], where: str
) -> None:
    missing = [key for key in schema.get("required", ()) if key not in value]
    if missing:
        raise InputError(f"{where}: {missing[0]} is missing")
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for key, item in value.items():
        place = f"{where}.{_shown(key)}"
        if key in properties:
            check(item, properties[key], root, place)
        elif others is False:
            raise InputError(f"{place}: not known here")
        elif others is not True:
            check(item, others, root, place)


def _check_array(
    value: list[Any], schema: Mapping[str, Any], root: Mapping[str, Any], where: str
) -> None:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", math.inf):
        raise InputError(f"{where}: a list of {len(value)} items")
    if "items" in schema:
        for index, item in enumerate(value):
            check(item, schema["items"], root, f"{where}[{index}]")


def _check_range(value: float, schema: Mapping[str, Any], where: str) -> None:
    if (
        value < schema.get("minimum", -math.inf)
        or value > schema.get("maximum", math.inf)
        or value <= schema.get("exclusiveMinimum", -math.inf)
        or value >= schema.get("exclusiveMaximum", math.inf)
    ):
        raise InputError(f"{where}: {_shown(value)} is out of range")


def _shown(value: Any) -> str:
    """A foreign value, short and on one line."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    text = repr(value) if not isinstance(value, str) else value
    shown = text if len(text) <= 40 else f"{text[:39]}…"
    return shown if shown.isprintable() else ascii(shown)
