"""JSON from outside: only what the schema says comes in."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from trilat.agent.errors import InputError
from trilat.correlator.validate import check, load_json, result_schema

if TYPE_CHECKING:
    from pathlib import Path

_NAMES = st.sampled_from("abc")
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-5, 5).filter(lambda x: x != int(x))
    | st.sampled_from(["", "a", "A001", "x" * 50]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_TYPE = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    """A schema from the part of the language that the package's schemas keep to."""
    schema: dict[str, Any] = {}
    if draw(st.booleans()):
        schema["type"] = draw(_TYPE | st.lists(_TYPE, min_size=1, max_size=3, unique=True))
    if draw(st.integers(0, 5)) == 0:
        schema["enum"] = draw(st.lists(st.sampled_from(["a", None, 3, "A001"]), min_size=1))
    for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if draw(st.integers(0, 3)) == 0:
            schema[key] = draw(st.integers(-5, 5))
    if draw(st.integers(0, 3)) == 0:
        schema["pattern"] = "^[A-Z][0-9]{3}$"
    if depth:
        inner = schemas(depth=depth - 1)
        if draw(st.booleans()):
            schema["items"] = draw(inner)
            schema["maxItems"] = draw(st.integers(0, 3))
        if draw(st.booleans()):
            schema["properties"] = draw(st.dictionaries(_NAMES, inner, max_size=3))
            schema["required"] = draw(st.lists(_NAMES, max_size=2, unique=True))
            schema["additionalProperties"] = draw(st.booleans() | inner)
    return schema


@given(_JSON, schemas())
def test_agrees_with_the_reference_implementation(value: Any, schema: dict[str, Any]) -> None:
    """A value is refused exactly where the jsonschema package refuses it."""
    message = ""
    try:
        check(value, schema, schema, "file")
    except InputError as error:
        message = str(error)
    assert (message == "") == Draft202012Validator(schema).is_valid(value)
    assert not message or message.isprintable()


def _keywords(schema: Any) -> set[str]:
    """All keywords of a schema, not the names of properties."""
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            found |= set().union(*(_keywords(each) for each in value.values()))
        elif isinstance(value, dict):
            found |= _keywords(value)
    return found


def test_the_schema_keeps_to_what_is_checked() -> None:
    """Every keyword of the package's schema is one that is checked, or a remark."""
    known = {
        *("$ref", "$defs", "type", "const", "enum", "required", "properties"),
        *("additionalProperties", "items", "minItems", "maxItems", "minimum", "maximum"),
        *("exclusiveMinimum", "exclusiveMaximum", "pattern"),
    }
    remarks = {"$schema", "$id", "title", "description"}
    assert _keywords(result_schema()) <= known | remarks
    Draft202012Validator.check_schema(result_schema())


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "line 1, column 1"),
        (b'{"a": 1', "line 1, column 8"),
        (b'{"a":\n 1,}', "line 2, column "),
        (b"\xff\xfe", "byte 0: not UTF-8"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": -Infinity}', "-Infinity is no number"),
        (b'{"a": 1e999}', "1e999 is out of range"),
        (b"1" * 5000, "not JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b"\x00" * 100, "line 1, column 1"),
    ],
)
def test_damaged_json_is_an_input_error_with_its_place(
    tmp_path: Path, raw: bytes, says: str
) -> None:
    """Truncated, binary, endless or not finite: one line with the file and the place."""
    path = tmp_path / "result.json"
    path.write_bytes(raw)
    with pytest.raises(InputError) as caught:
        load_json(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    """A file larger than any result is refused; this one is a hole on disk."""
    path = tmp_path / "result.json"
    path.touch()
    os.truncate(path, 2**40)
    with pytest.raises(InputError, match="larger than 64 MiB"):
        load_json(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A missing file, a folder and a pipe are refused without waiting for anything."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path / "missing", tmp_path, pipe):
        with pytest.raises(InputError, match="no such file"):
            load_json(path)


def test_json_is_read_as_it_is(tmp_path: Path) -> None:
    """Sound JSON comes back as the values it stands for."""
    value = {"a": [1, 2.5, None, True, "ü"], "b": {}}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    assert load_json(path) == value


@pytest.mark.parametrize("digits", ["9223372036854775809", "-1" + "0" * 400, "1" + "0" * 5000])
def test_huge_integers_are_refused(digits: str, tmp_path: Path) -> None:
    """They fit no field, and arithmetic with floats fails on them."""
    path = tmp_path / "run.json"
    path.write_text(f'{{"users": {digits}}}')
    with pytest.raises(InputError, match="is out of range"):
        load_json(path)


@pytest.mark.parametrize("value", [2**63, -(2**63), 0])
def test_integers_of_64_bits_are_read(value: int, tmp_path: Path) -> None:
    """The bound is where no field comes near."""
    path = tmp_path / "run.json"
    path.write_text(str(value))
    assert load_json(path) == value
