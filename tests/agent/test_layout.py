"""The layout of journal records."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.agent.layout import EXCHANGE, NAME, SERVED, Field, RecordLayout, name_layout
from trilat.agent.stamp import STAMP

SERVED_NAME = name_layout(SERVED.size)
LAYOUTS = pytest.mark.parametrize(
    ("layout", "size"),
    [
        (EXCHANGE, EXCHANGE.size),
        (NAME, EXCHANGE.size),
        (SERVED, SERVED.size),
        (SERVED_NAME, SERVED.size),
    ],
    ids=["exchange", "exchange-name", "served", "served-name"],
)


def _values(field: Field) -> st.SearchStrategy[Any]:
    if field.format.endswith("s"):
        return st.binary(max_size=int(field.format[:-1]))
    bits = struct.calcsize(f"<{field.format}") * 8
    low = -(2 ** (bits - 1)) if field.format.islower() else 0
    return st.integers(low, low + 2**bits - 1)


@LAYOUTS
def test_records_of_a_file_have_one_size(layout: RecordLayout, size: int) -> None:
    """A journal is an array: one size, whole words, the kind first and the commit last."""
    assert layout.size == size == layout.packer.size
    assert layout.size % 8 == 0
    assert layout.fields[0] == Field("kind", "H")
    assert layout.fields[-1] == Field("commit", "I")
    assert len({field.name for field in layout.fields}) == len(layout.fields)


@given(st.tuples(*(_values(field) for field in EXCHANGE.fields)))
def test_stamp_goes_into_the_record_as_it_came(values: tuple[Any, ...]) -> None:
    """Writing 48 bytes of a stamp whole is the same as writing its fields one by one."""
    names = [field.name for field in EXCHANGE.fields]
    first = next(at for at, name in enumerate(names) if name.startswith("service_"))
    last = first + sum(name.startswith("service_") for name in names)
    stamp = STAMP.pack(*values[first:last])
    whole = EXCHANGE.packer.pack(*values[:first], stamp, *values[last:])
    assert whole == EXCHANGE.struct.pack(*values)
    assert EXCHANGE.struct.unpack(whole) == values


@LAYOUTS
def test_description_is_enough_to_read_a_record(layout: RecordLayout, size: int) -> None:
    """The names, formats and units in a file's header make the same structure again."""
    described = layout.describe()
    assert struct.Struct("<" + "".join(format_ for _, format_, _ in described)).size == size
    assert all(isinstance(text, str) for field in described for text in field)
    assert [name for name, _, unit in described if name.endswith("_ns") and not unit] == [
        name for name, _, _ in described if name.startswith("service_") and name.endswith("_ns")
    ]
