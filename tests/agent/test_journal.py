"""The journal: what is written is read again, in order, and within its bounds."""

from __future__ import annotations

import json
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.errors import JournalError
from trilat.agent.journal import OTHER, JournalWriter
from trilat.agent.layout import EXCHANGE
from trilat.agent.segment import HEADER_SIZE, journal_files, read_segment

if TYPE_CHECKING:
    from tests.agent.conftest import MakeRecord, ReadRecords, Record

FACTS = {"run": "0123456789ab", "host": 1}
SMALL = HEADER_SIZE + 16 * EXCHANGE.size
"""Bytes of a file of 16 records, the fewest that a file holds."""


def all_records(folder: Path) -> bytes:
    """The records of all files in order."""
    return b"".join(read_segment(path).records for path in journal_files(folder))


def test_records_are_read_as_they_were_written(
    tmp_path: Path, make_record: MakeRecord, read_records: ReadRecords
) -> None:
    """A closed journal has the facts of its writer and all its records."""
    writer = JournalWriter(tmp_path, "generator-1", FACTS)
    name = writer.name_id("GET\t/item/[id]")
    for number in range(100):
        writer.append(*make_record(number, name))
    writer.close()
    (path,) = journal_files(tmp_path)
    segment = read_segment(path)
    exchanges, names = read_records(segment.records)
    assert exchanges == [make_record(number, name) for number in range(100)]
    assert names == {name: "GET\t/item/[id]"}
    assert segment.path == path
    assert {key: segment.facts[key] for key in FACTS} == FACTS
    assert segment.facts["segment"] == 1
    assert path.stat().st_size == HEADER_SIZE + 101 * EXCHANGE.size


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    """Endpoint names may be nobody else's business."""
    JournalWriter(tmp_path, "x", FACTS).close()
    (path,) = journal_files(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_journal_is_read_while_it_is_written(
    tmp_path: Path, make_record: MakeRecord, read_records: ReadRecords
) -> None:
    """A reader sees each record as soon as it is written, and nothing of the space behind."""
    writer = JournalWriter(tmp_path, "x", FACTS)
    for number in range(5):
        writer.append(*make_record(number))
        assert len(read_records(all_records(tmp_path))[0]) == number + 1
    writer.close()


NAMES = st.text(max_size=3).map(lambda text: f"GET\t/{text}") | st.integers(100, 400).map(
    lambda length: "GET\t/" + "é" * length
)
STEPS = st.lists(st.just("take") | NAMES, max_size=80)


@settings(deadline=None)
@given(STEPS)
def test_taken_pieces_are_what_the_files_hold(
    make_record: MakeRecord, read_records: ReadRecords, steps: list[str]
) -> None:
    """However writing and taking interleave, both ways out give the same records in order.

    And each file can be read by itself: every text stands before the records that point to it.
    """
    taken, expected = b"", []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        writer = JournalWriter(folder, "x", FACTS, segment_bytes=SMALL * 2)
        for number, step in enumerate(steps):
            if step == "take":
                taken += b"".join(writer.take_new())
            else:
                name_id = writer.name_id(step)
                writer.append(*make_record(number, name_id))
                expected.append((step, number))
        writer.close()
        taken += b"".join(writer.take_new())
        assert writer.take_new() == []
        segments = [read_segment(path).records for path in journal_files(folder)]
    assert taken == b"".join(segments)
    read = []
    for records in segments:
        exchanges, names = read_records(records)
        read += [(names[exchange[2]], exchange) for exchange in exchanges]
    assert [exchange[5] for _, exchange in read] == [number for _, number in expected]
    assert all(
        text.rstrip("\0") == wanted.rstrip("\0") or text == OTHER
        for (text, _), (wanted, _) in zip(read, expected, strict=True)
    )


def test_same_text_has_one_number(tmp_path: Path, read_records: ReadRecords) -> None:
    """A text is written once a file, and keeps its number."""
    writer = JournalWriter(tmp_path, "x", FACTS)
    numbers = [writer.name_id(text) for text in ("a", "b", "a", "")]
    writer.close()
    assert numbers == [0, 1, 0, 2]
    assert read_records(all_records(tmp_path))[1] == {0: "a", 1: "b", 2: ""}


def test_text_that_no_file_can_hold_as_it_is(tmp_path: Path, read_records: ReadRecords) -> None:
    """Half of a surrogate pair has no UTF-8 form and becomes a question mark."""
    writer = JournalWriter(tmp_path, "x", FACTS)
    number = writer.name_id("GET\t/\ud800")
    writer.close()
    assert read_records(all_records(tmp_path))[1] == {number: "GET\t/?"}


def test_too_many_texts_share_a_number(
    tmp_path: Path, make_record: MakeRecord, read_records: ReadRecords
) -> None:
    """A name for every request does not fill the files with names, nor stop the writing."""
    writer = JournalWriter(tmp_path, "x", FACTS, segment_bytes=SMALL, max_segments=1_000)
    for number in range(500):
        writer.append(*make_record(number, writer.name_id(f"GET\t/item/{number}")))
    writer.close()
    seen: list[Record] = []
    for path in journal_files(tmp_path):
        exchanges, names = read_records(read_segment(path).records)
        assert len(exchanges) >= 12 or path == journal_files(tmp_path)[-1]
        assert len(names) <= 4
        assert all(names[exchange[2]] for exchange in exchanges)
        seen += exchanges
    assert [exchange[5] for exchange in seen] == list(range(500))
    assert OTHER in names.values()


def test_long_text_does_not_tear_at_the_end_of_a_file(
    tmp_path: Path, make_record: MakeRecord, read_records: ReadRecords
) -> None:
    """A text of several records begins in a new file where the old one has no room for all."""
    writer = JournalWriter(tmp_path, "x", FACTS, segment_bytes=SMALL)
    for number in range(15):
        writer.append(*make_record(number))
    text = "GET\t/" + "x" * 400
    writer.append(*make_record(15, writer.name_id(text)))
    writer.close()
    first, second = (read_records(read_segment(path).records) for path in journal_files(tmp_path))
    assert (len(first[0]), first[1]) == (15, {})
    assert second == ([make_record(15)], {0: text})


def test_oldest_files_go_first(
    tmp_path: Path, make_record: MakeRecord, read_records: ReadRecords
) -> None:
    """The number of files is bounded; what went is counted, also in the headers that stay."""
    writer = JournalWriter(tmp_path, "x", FACTS, segment_bytes=SMALL, max_segments=3)
    for number in range(16 * 10):
        writer.append(*make_record(number))
        assert len(journal_files(tmp_path)) <= 3
    writer.close()
    exchanges, _ = read_records(all_records(tmp_path))
    assert [exchange[5] for exchange in exchanges] == list(range(16 * 7, 16 * 10))
    assert writer.dropped_segments == 7
    last = read_segment(journal_files(tmp_path)[-1])
    assert (last.facts["segment"], last.facts["dropped_segments"]) == (10, 7)
    assert writer.lost_to_disk == 0


def test_what_nobody_takes_is_bounded_too(
    tmp_path: Path, make_record: MakeRecord, read_records: ReadRecords
) -> None:
    """A writer whose records nobody takes keeps the newest, and counts what it let go."""
    writer = JournalWriter(tmp_path, "x", FACTS, segment_bytes=SMALL, max_segments=3)
    for number in range(16 * 10):
        writer.append(*make_record(number))
    exchanges, _ = read_records(b"".join(writer.take_new()))
    writer.close()
    assert [exchange[5] for exchange in exchanges] == list(range(16 * 6, 16 * 10))
    assert writer.dropped_untaken == 6


def test_files_are_listed_in_the_order_of_writing(tmp_path: Path, make_record: MakeRecord) -> None:
    """Also behind the ninth and the 9,999th file, and for each writer by itself."""
    for stem in ("worker-2", "worker-10"):
        writer = JournalWriter(tmp_path, stem, FACTS, segment_bytes=SMALL)
        for number in range(16 * 12):
            writer.append(*make_record(number))
        writer.close()
    for last in (9_999, 10_000):
        (tmp_path / f"worker-2-{last:06d}.trilat").write_bytes(b"begun")
    names = [path.name for path in journal_files(tmp_path)]
    ends = [int(name[-13:-7]) for name in names]
    assert ends == [*range(1, 13), *range(1, 13), 9_999, 10_000]
    assert all(name.startswith("worker-10-") for name in names[:12])


def test_file_that_was_never_begun_is_none(tmp_path: Path) -> None:
    """A writer killed between the making of a file and its header leaves it empty."""
    (tmp_path / "x-000001.trilat").touch()
    assert journal_files(tmp_path) == []


def test_facts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """A header has one page; more is a mistake that leaves no file behind."""
    with pytest.raises(JournalError, match="at most 4096"):
        JournalWriter(tmp_path, "x", {"command": "x" * 5_000})
    assert journal_files(tmp_path) == []


@pytest.fixture
def written(tmp_path: Path, make_record: MakeRecord) -> Path:
    """A journal file of 20 records."""
    writer = JournalWriter(tmp_path, "x", FACTS)
    for number in range(20):
        writer.append(*make_record(number))
    writer.close()
    return journal_files(tmp_path)[0]


def test_file_cut_anywhere_gives_its_whole_records(written: Path) -> None:
    """A copy that ends early, at any byte, is read up to its last whole record."""
    raw = written.read_bytes()
    for end in range(HEADER_SIZE, len(raw) + 1, 7):
        written.write_bytes(raw[:end])
        expected = (end - HEADER_SIZE) // EXCHANGE.size * EXCHANGE.size
        assert read_segment(written).records == raw[HEADER_SIZE:][:expected]


@pytest.mark.parametrize("torn_after", [0, 1, 100, EXCHANGE.size - 4, EXCHANGE.size - 1])
def test_record_cut_short_by_a_kill_is_none(written: Path, torn_after: int) -> None:
    """A last record whose bytes stop anywhere before its end is not read."""
    raw = bytearray(written.read_bytes())
    torn = HEADER_SIZE + 19 * EXCHANGE.size
    raw[torn + torn_after : torn + EXCHANGE.size] = bytes(EXCHANGE.size - torn_after)
    if torn_after == EXCHANGE.size - 1:  # a sequence number that is half written
        raw[torn + EXCHANGE.size - 4] = 0
    written.write_bytes(raw + bytes(10 * EXCHANGE.size))
    assert read_segment(written).records == raw[HEADER_SIZE:torn]


def test_missing_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    """What cannot be opened is named, with the reason."""
    with pytest.raises(JournalError, match=r"absent\.trilat: No such file or directory$"):
        read_segment(tmp_path / "absent.trilat")
    with pytest.raises(JournalError, match=r"not a file$"):
        read_segment(tmp_path)


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        (b"", "not a trilat journal"),
        (b"\0" * 5_000, "not a trilat journal"),
        (b"TRILAT-JOURNAL 2\n{}", "not a trilat journal"),
        (b"TRILAT-JOURNAL 1\n", "damaged header"),
        (b"TRILAT-JOURNAL 1\n{", "damaged header"),
        (b"TRILAT-JOURNAL 1\n\xff\xfe", "damaged header"),
        (b"TRILAT-JOURNAL 1\n[]", "damaged header"),
        (b"TRILAT-JOURNAL 1\n5", "damaged header"),
        (b"TRILAT-JOURNAL 1\nnull", "damaged header"),
        (b"TRILAT-JOURNAL 1\n{}", "damaged header"),
        (b"TRILAT-JOURNAL 1\n" + b"[" * 4_000, "damaged header"),
        (b'TRILAT-JOURNAL 1\n{"record_size": 192}', "damaged header"),
        (b'TRILAT-JOURNAL 1\n{"record_size": 64, "kinds": {}}', "does not know"),
        (b'TRILAT-JOURNAL 1\n{"record_size": 192, "kinds": {"9": []}}', "does not know"),
    ],
)
def test_foreign_file_is_an_error_of_one_line(
    tmp_path: Path, header: bytes, complaint: str
) -> None:
    """Whatever is not a journal of this release is named as what it is."""
    path = tmp_path / "x.trilat"
    path.write_bytes(header)
    with pytest.raises(JournalError, match=complaint) as caught:
        read_segment(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(deadline=None)
@given(st.binary(max_size=3_000))
def test_hostile_records_are_cut_to_whole_ones(tail: bytes) -> None:
    """Behind a sound header, any bytes give whole records or none."""
    with tempfile.TemporaryDirectory() as name:
        JournalWriter(Path(name), "x", FACTS).close()
        (path,) = journal_files(Path(name))
        path.write_bytes(path.read_bytes() + tail)
        assert len(read_segment(path).records) % EXCHANGE.size == 0


@given(st.binary(max_size=200))
def test_hostile_header_is_read_or_refused(header: bytes) -> None:
    """Any bytes in the place of a header are refused in one way."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "x.trilat"
        path.write_bytes(b"TRILAT-JOURNAL 1\n" + header)
        with pytest.raises(JournalError):
            read_segment(path)


def test_header_tells_how_to_read_the_file(written: Path) -> None:
    """A file of a year ago can be read from its own header alone."""
    text = written.read_bytes()[:HEADER_SIZE].split(b"\n")[1]
    facts = json.loads(text)
    assert facts["record_size"] == EXCHANGE.size
    assert facts["kinds"]["1"] == EXCHANGE.describe()
