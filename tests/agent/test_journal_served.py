"""The journal of a service: its own records, an age, and nobody who takes them."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.agent.clock import Clock
from trilat.agent.errors import JournalError
from trilat.agent.journal import OTHER, JournalWriter
from trilat.agent.layout import EXCHANGE, SERVED, Kind, describe_kinds, name_layout
from trilat.agent.segment import (
    HEADER_SIZE,
    MAGIC,
    SEGMENT_BYTES_MAX,
    journal_files,
    read_head,
    read_segment,
)

SMALL = HEADER_SIZE + 128 * SERVED.size
"""Bytes of a file of 128 records: the clock is looked at within it."""
NAME = name_layout(SERVED.size)
S = 1_000_000_000


def record(number: int, name_id: int = 0) -> tuple[int, ...]:
    """The values of a service's record that tell its number in several fields."""
    values = dict.fromkeys((field.name for field in SERVED.fields), 0)
    values.update(
        kind=Kind.SERVED, name_id=name_id, span=number, end_ns=-1, body_bytes=number * 1_000
    )
    return tuple(values.values())[:-1]


def read(folder: Path) -> list[tuple[str, int]]:
    """Text and number of each record in a folder, file by file, each read by itself."""
    found = []
    for path in journal_files(folder):
        texts: dict[int, bytes] = {}
        segment = read_segment(path)
        assert segment.layout is SERVED
        for at in range(0, len(segment.records), SERVED.size):
            piece = segment.records[at : at + SERVED.size]
            if piece[0] == Kind.NAME:
                _, part, name_id, text, _ = NAME.struct.unpack(piece)
                texts[name_id] = (texts[name_id] if part else b"") + text.rstrip(b"\0")
                continue
            values = SERVED.struct.unpack(piece)
            assert values[:-1] == record(values[5], values[2])
            found.append((texts[values[2]].decode() if texts else "", values[5]))
    return found


class HeldClock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.clock = Clock(lambda: self.now_ns, lambda: self.now_ns)


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=90), max_size=300
    )
)
def test_what_a_service_writes_is_read_again(names: list[str]) -> None:
    """Records of their own size, with texts of that size, over as many files as it takes."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        writer = JournalWriter(
            directory, "service-1", {}, layout=SERVED, segment_bytes=SMALL, keep_new=False
        )
        for number, name in enumerate(names):
            writer.append(*record(number, writer.name_id(f"GET\t/{name}")))
        writer.close()
        found = read(directory)
    assert [number for _, number in found] == list(range(len(names)))
    assert all(
        text in {f"GET\t/{name}", OTHER} for (text, _), name in zip(found, names, strict=True)
    )


def test_nothing_is_set_aside_where_nobody_takes(tmp_path: Path) -> None:
    """Full files stay on disk alone, and none counts as let go."""
    writer = JournalWriter(
        tmp_path, "x", {}, layout=SERVED, segment_bytes=SMALL, keep_new=False, max_segments=4
    )
    for number in range(128 * 3 + 5):
        writer.append(*record(number))
    assert len(b"".join(writer.take_new())) == 5 * SERVED.size
    assert writer.dropped_untaken == 0
    writer.close()
    assert len(read(tmp_path)) == 128 * 3 + 5


def test_old_records_go_though_there_is_room(tmp_path: Path) -> None:
    """While records come, each stays for seven eighths of the age at least, and not beyond it."""
    held = HeldClock()
    writer = JournalWriter(
        tmp_path, "x", {}, layout=SERVED, segment_bytes=SMALL, max_age_s=800, clock=held.clock
    )
    for number in range(12_000):  # ten a second
        held.now_ns = number * S // 10
        writer.append(*record(number))
        if number % 1_000 == 999:
            kept = [at for _, at in read(tmp_path)]
            assert kept == list(range(kept[0], number + 1))
            oldest_s = (number - kept[0]) / 10
            slack_s = 64 / 10  # between two looks at the clock
            assert oldest_s <= 800 + 2 * slack_s
            assert oldest_s >= min(number / 10, 700 - slack_s)
    writer.close()
    assert writer.dropped_segments > 5
    assert read_head(journal_files(tmp_path)[-1]).facts["dropped_segments"] > 5


def test_slow_service_begins_a_new_file_by_age(tmp_path: Path) -> None:
    """A file that would never be full is closed, so that its records can grow old."""
    held = HeldClock()
    writer = JournalWriter(
        tmp_path, "x", {}, layout=SERVED, segment_bytes=2**20, max_age_s=800, clock=held.clock
    )
    name = writer.name_id("GET\t/")
    for number in range(640):
        held.now_ns = number * 10 * S
        writer.append(*record(number, name))
        assert len(journal_files(tmp_path)) <= 3
    assert 60 <= len(read(tmp_path)) <= 64 * 3
    assert {text for text, _ in read(tmp_path)} == {"GET\t/"}
    writer.close()


def test_files_can_be_deleted_by_a_thread(tmp_path: Path) -> None:
    """The writer goes on at once; the files go, and are counted, all the same."""
    writer = JournalWriter(
        tmp_path,
        *("x", {}),
        layout=SERVED,
        segment_bytes=SMALL,
        max_segments=2,
        keep_new=False,
        delete_in_thread=True,
    )
    for number in range(128 * 6):
        writer.append(*record(number))
    assert writer.dropped_segments == 4
    gives_up = time.monotonic() + 30
    while len(journal_files(tmp_path)) > 2 and time.monotonic() < gives_up:
        time.sleep(0.01)
    writer.close()
    assert [number for _, number in read(tmp_path)] == list(range(128 * 4, 128 * 6))


def test_files_are_deleted_where_no_thread_can_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may have run out of threads; the bound holds still."""

    def no_thread(run: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("trilat.agent.journal.start_thread", no_thread)
    writer = JournalWriter(
        tmp_path, "x", {}, layout=SERVED, segment_bytes=SMALL, max_segments=2, delete_in_thread=True
    )
    for number in range(128 * 6):
        writer.append(*record(number))
        assert len(journal_files(tmp_path)) <= 2
    writer.close()


def test_without_an_age_time_changes_nothing(tmp_path: Path) -> None:
    """The clock is not even asked for how old a file is."""
    held = HeldClock()
    writer = JournalWriter(tmp_path, "x", {}, layout=SERVED, clock=held.clock)
    for number in range(200):
        held.now_ns += 10**6 * S
        writer.append(*record(number))
    writer.close()
    assert len(journal_files(tmp_path)) == 1
    assert writer.dropped_segments == 0


def test_head_says_how_far_a_file_is_written(tmp_path: Path) -> None:
    """Without reading its records: what a copy of the file has to hold."""
    writer = JournalWriter(tmp_path, "x", {"pid": 7}, layout=SERVED)
    (path,) = journal_files(tmp_path)
    for number in range(100):
        head = read_head(path)
        assert (head.count, head.layout, head.facts["pid"]) == (number, SERVED, 7)
        assert head.written_bytes == HEADER_SIZE + number * SERVED.size
        writer.append(*record(number))
    writer.close()
    assert read_head(path).written_bytes == path.stat().st_size


def test_header_cannot_be_overwritten_by_facts(tmp_path: Path) -> None:
    """A fact with the name of something that a reader needs does not take its place."""
    JournalWriter(tmp_path, "x", {"record_size": 1, "kinds": {}}, layout=SERVED).close()
    assert read_segment(journal_files(tmp_path)[0]).layout is SERVED


def _header(record_size: object, kinds: object) -> bytes:
    text = json.dumps({"record_size": record_size, "kinds": kinds}).encode()
    return (MAGIC + text).ljust(HEADER_SIZE)


@pytest.mark.parametrize(
    ("record_size", "kinds"),
    [
        (SERVED.size, describe_kinds(EXCHANGE)),
        (EXCHANGE.size, describe_kinds(SERVED)),
        (SERVED.size, {"3": SERVED.describe()}),
        (SERVED.size, {**describe_kinds(SERVED), "4": []}),
        (SERVED.size, []),
        (SERVED.size, {"3": 3}),
        (SERVED.size, {"3": [3], "2": [{}]}),
        (SERVED.size, {"3": None}),
        ([SERVED.size], describe_kinds(SERVED)),
        (0, {}),
        (-1, {}),
    ],
)
def test_layout_that_is_none_of_ours_is_refused(
    tmp_path: Path, record_size: object, kinds: Any
) -> None:
    """A size and kinds that do not belong together, or are not even lists of fields."""
    path = tmp_path / "x.trilat"
    path.write_bytes(_header(record_size, kinds) + bytes(1_000))
    for look in (read_segment, read_head):
        with pytest.raises(JournalError, match=r"damaged header|does not know"):
            look(path)


def test_units_are_for_people(tmp_path: Path) -> None:
    """Another writer may word them in its own way."""
    kinds = {
        kind: [[name, format_, "?"] for name, format_, _ in fields]
        for kind, fields in describe_kinds(SERVED).items()
    }
    path = tmp_path / "x.trilat"
    path.write_bytes(_header(SERVED.size, kinds) + SERVED.struct.pack(*record(1), 1))
    assert read_head(path).count == 1


def test_file_larger_than_any_journal_is_refused(tmp_path: Path) -> None:
    """A sparse file of a terabyte costs its sender nothing; reading it would cost all memory."""
    path = tmp_path / "x.trilat"
    path.write_bytes(_header(SERVED.size, describe_kinds(SERVED)))
    with path.open("r+b") as file:
        file.truncate(SEGMENT_BYTES_MAX + 1)
    with pytest.raises(JournalError, match=r"x\.trilat: 67108865 bytes; no journal file has more"):
        read_segment(path)


def test_writer_makes_no_file_that_a_reader_refuses(tmp_path: Path) -> None:
    """Whatever size was asked for."""
    JournalWriter(tmp_path, "x", {}, layout=SERVED, segment_bytes=2**40).close()
    writer = JournalWriter(tmp_path, "y", {}, segment_bytes=2**40)
    assert all(path.stat().st_size <= SEGMENT_BYTES_MAX for path in journal_files(tmp_path))
    writer.close()
