"""Records to write into journals, and a plain reader to read them with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from trilat.agent.layout import EXCHANGE, NAME, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

Record = tuple[Any, ...]
MakeRecord = Callable[..., Record]
ReadRecords = Callable[[bytes], tuple[list[Record], dict[int, str]]]


def _make_record(number: int, name_id: int = 0) -> Record:
    """The values of an exchange record that tell its number in several fields."""
    fields = [field.name for field in EXCHANGE.fields]
    values: dict[str, Any] = dict.fromkeys(fields, 0)
    values.update(kind=Kind.EXCHANGE, name_id=name_id, span=number, response_ns=number * 1_000)
    whole = [values[name] for name in fields if not name.startswith("service_")]
    stamp_at = next(at for at, name in enumerate(fields) if name.startswith("service_"))
    return (*whole[:stamp_at], number.to_bytes(48, "little"), *whole[stamp_at:-1])


def _read_records(raw: bytes) -> tuple[list[Record], dict[int, str]]:
    """The exchange records in raw bytes, and the texts that stood before them.

    Each exchange must point to a text that is complete by then.
    """
    assert len(raw) % EXCHANGE.size == 0
    exchanges: list[Record] = []
    parts: dict[int, dict[int, bytes]] = {}
    for start in range(0, len(raw), EXCHANGE.size):
        piece = raw[start : start + EXCHANGE.size]
        kind = int.from_bytes(piece[:2], "little")
        if kind == Kind.NAME:
            _, part, number, text, _ = NAME.struct.unpack(piece)
            parts.setdefault(number, {})[part] = text
            continue
        assert kind == Kind.EXCHANGE
        exchanges.append(EXCHANGE.packer.unpack(piece)[:-1])
        assert not parts or exchanges[-1][2] in parts
    return exchanges, {number: _joined(found.items()) for number, found in parts.items()}


def _joined(parts: Iterable[tuple[int, bytes]]) -> str:
    ordered = sorted(parts)
    assert [part for part, _ in ordered] == list(range(len(ordered)))
    return b"".join(text for _, text in ordered).rstrip(b"\0").decode()


@pytest.fixture(scope="session")
def make_record() -> MakeRecord:
    """``make_record(number, name_id)``: the values of an exchange record."""
    return _make_record


@pytest.fixture(scope="session")
def read_records() -> ReadRecords:
    """``read_records(raw)``: the exchanges in raw records, and their texts."""
    return _read_records
