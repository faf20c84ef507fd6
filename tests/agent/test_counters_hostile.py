"""Counters files that are cut, damaged, or none at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trilat.agent.counters import Counters
from trilat.agent.errors import InputError
from trilat.agent.families import HTTP
from trilat.agent.series import HEADER_SIZE, MAGIC, CountersSnapshot, read_counters

ANY_FILE = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a file with a few blocks."""
    path = tmp_path_factory.mktemp("good") / "a.counters"
    counters = Counters(path, {"pid": 1}, size=64 * 1024)
    for number in range(10):
        at = counters.block(HTTP, ("GET", f"/{number}", "200"))
        counters.view[at] = number
        counters.exemplify(at, 23, 0, 1, number + 1, b"0" * 32)
    return path.read_bytes()


def read(path: Path, raw: bytes) -> CountersSnapshot | None:
    """What is read from bytes; None where they are refused in one line."""
    path.write_bytes(raw)
    try:
        return read_counters(path)
    except InputError as error:
        message = str(error)
    assert str(path) in message
    assert "\n" not in message
    return None


@ANY_FILE
@given(st.integers(0, 64 * 1024))
def test_a_file_cut_anywhere_is_read_up_to_there(tmp_path: Path, good: bytes, cut: int) -> None:
    """What stands whole before the cut is read; without a whole header nothing is."""
    whole = read(tmp_path / "whole", good)
    part = read(tmp_path / "part", good[:cut])
    assert whole is not None
    if cut < HEADER_SIZE:
        assert part is None
    else:
        assert part is not None
        assert part.series == whole.series[: len(part.series)]


@ANY_FILE
@given(st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 255)), min_size=1, max_size=20))
def test_damaged_bytes_never_break_the_reader(
    tmp_path: Path, good: bytes, damage: list[tuple[int, int]]
) -> None:
    """Whatever bytes are changed, the reader reads or refuses."""
    raw = bytearray(good)
    for at, byte in damage:
        raw[at] = byte
    read(tmp_path / "a", bytes(raw))


@ANY_FILE
@given(st.binary(max_size=500), st.binary(max_size=500), st.integers(0, 2**64 - 1))
def test_random_bytes_never_break_the_reader(
    tmp_path: Path, good: bytes, start: bytes, entries: bytes, used: int
) -> None:
    """Random headers and entries are refused or read as nothing."""
    assert read(tmp_path / "a", start) is None
    assert read(tmp_path / "b", MAGIC + start) is None
    read(tmp_path / "c", good[: HEADER_SIZE - 8] + used.to_bytes(8, "little") + entries)
    read(tmp_path / "d", good[:HEADER_SIZE] + entries)


@pytest.mark.parametrize(
    "change",
    [{"byteorder": "middle"}, {"blocks": []}, {"blocks": None}, {"facts": 3}, {"facts": "no"}],
)
def test_another_layout_is_refused(tmp_path: Path, good: bytes, change: dict[str, object]) -> None:
    """A file of another release, or of another machine, is not misread."""
    described = json.loads(good[len(MAGIC) : HEADER_SIZE].split(b"\n", 1)[0])
    header = MAGIC + json.dumps({**described, **change}).encode() + b"\n"
    raw = header.ljust(HEADER_SIZE - 8, b"\0") + good[HEADER_SIZE - 8 :]
    assert read(tmp_path / "a", raw) is None


def test_what_is_no_file_is_refused(tmp_path: Path, good: bytes) -> None:
    """Directories, links and FIFOs are refused at once, as is what is not there."""
    (tmp_path / "good").write_bytes(good)
    (tmp_path / "link").symlink_to("good")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "directory", "fifo", "missing"):
        with pytest.raises(InputError, match=name):
            read_counters(tmp_path / name)
