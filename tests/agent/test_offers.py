"""Offers: which files of a directory are given away, how much of them, and of what time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.agent.journal import JournalWriter
from trilat.agent.layout import EXCHANGE, SERVED, Kind
from trilat.agent.offers import (
    FileTag,
    Offer,
    Window,
    head_identity,
    kind_of,
    list_offers,
    open_offer,
)
from trilat.agent.samples import SampleWriter
from trilat.agent.segment import HEADER_SIZE

STEM = "service-web-1-4711-0badcafe"
SECOND = 10**9


def keep_journal(directory: Path, stem: str = STEM, **facts: Any) -> JournalWriter:
    """A journal of a service in which requests can be put."""
    return JournalWriter(
        directory,
        stem,
        {"side": "service", **facts},
        layout=SERVED,
        segment_bytes=2**20,
        keep_new=False,
    )


def put(writer: JournalWriter, called_wall_ns: int, end_ns: int) -> None:
    """Record one request."""
    name = writer.name_id("GET\t/")
    times = (called_wall_ns, 5, 1, end_ns)
    writer.append(int(Kind.SERVED), 0, name, 1, 2, 3, 0, *times, -1, 0, 0, 0, 10, -1, 1, 200, 0)


def keep_samples(directory: Path, seconds: tuple[float, ...], stem: str = STEM) -> Path:
    """A file with a sample at each of these times."""
    path = directory / f"{stem}.jsonl"
    writer = SampleWriter(path, {"side": "service"})
    for second in seconds:
        writer.write("vitals", {"wall_s": second})
    writer.close()
    return path


def test_files_are_offered_with_their_times(tmp_path: Path) -> None:
    """Of a journal that is being written, whole records count; of samples, whole lines."""
    writer = keep_journal(tmp_path)
    put(writer, 10 * SECOND, 250)
    put(writer, 11 * SECOND, 2 * SECOND)
    path = keep_samples(tmp_path, (5.5, 6.5, 7.5))
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(b'{"kind": "vita')
    journal, samples = list_offers(tmp_path, Window())
    assert samples.name == path.name
    assert (samples.tag.bytes, samples.kind) == (whole, "samples")
    assert (samples.first_wall_ns, samples.last_wall_ns) == (5_500_000_000, 7_500_000_000)
    assert journal.name == f"{STEM}-000001.trilat"
    assert journal.tag.bytes == HEADER_SIZE + 3 * SERVED.size
    assert (journal.first_wall_ns, journal.last_wall_ns) == (10 * SECOND, 13 * SECOND)
    writer.close()


@pytest.mark.parametrize(
    ("window", "met"),
    [
        (Window(), True),
        (Window(0, 9 * SECOND), False),
        (Window(0, 10 * SECOND), True),
        (Window(13 * SECOND, None), True),
        (Window(13 * SECOND + 1, None), False),
        (Window(11 * SECOND, 12 * SECOND), True),
    ],
)
def test_only_files_of_the_window_are_listed(window: Window, met: bool, tmp_path: Path) -> None:
    """A file counts from its first request to the end of its last answer."""
    writer = keep_journal(tmp_path)
    put(writer, 10 * SECOND, 250)
    put(writer, 11 * SECOND, 2 * SECOND)
    assert bool(list_offers(tmp_path, window)) is met
    writer.close()


def test_texts_around_the_records_are_passed_over(tmp_path: Path) -> None:
    """Files begin with the texts that are known, and may end with one."""
    writer = keep_journal(tmp_path)
    for number in range(1500):  # more than are read at once
        writer.name_id(f"GET\t/{number}")
    put(writer, 10 * SECOND, 250)
    for number in range(500):
        writer.name_id(f"PUT\t/{number}")
    (offer,) = list_offers(tmp_path, Window())
    assert (offer.first_wall_ns, offer.last_wall_ns) == (10 * SECOND, 10 * SECOND + 250)
    writer.close()


def make_nothing(path: Path) -> None:
    """An empty file."""
    path.touch()


def make_link(path: Path) -> None:
    """A link to a good file elsewhere."""
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    if path.suffix == ".jsonl":
        path.symlink_to(keep_samples(elsewhere, (1.0,)))
        return
    writer = keep_journal(elsewhere)
    put(writer, 1, 1)
    writer.close()
    path.symlink_to(next(elsewhere.iterdir()))


def make_header_only(path: Path) -> None:
    """A file in which nothing was recorded yet."""
    if path.suffix == ".jsonl":
        keep_samples(path.parent, (), path.stem)
    else:
        keep_journal(path.parent, path.stem.removesuffix("-000001")).close()


def make_garbage(path: Path) -> None:
    """Bytes without meaning, among them ends of lines."""
    path.write_bytes(bytes(range(256)) * 1000)


@pytest.mark.parametrize("name", [f"{STEM}-000001.trilat", f"{STEM}.jsonl"])
@pytest.mark.parametrize(
    "make", [Path.mkdir, os.mkfifo, make_nothing, make_link, make_header_only, make_garbage]
)
def test_what_is_no_file_of_a_service_is_not_offered(
    make: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    """Directories, FIFOs, links, empty files and damaged ones: neither listed nor opened."""
    make(tmp_path / name)
    assert list_offers(tmp_path, Window()) == []
    assert open_offer(tmp_path, name) is None


def test_a_generators_journal_is_not_offered(tmp_path: Path) -> None:
    """Whatever its name is."""
    JournalWriter(tmp_path, STEM, {"side": "service"}, layout=EXCHANGE).close()
    assert list_offers(tmp_path, Window()) == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        "service-",
        "service-.trilat",
        "service-a.txt",
        "service-a.trilat\n",
        "service-../a.trilat",
        "../service-a.trilat",
        "service-a\0.trilat",
        "service-é.trilat",
        "generator-a.trilat",
        f"service-{'a' * 200}.trilat",
    ],
)
def test_other_names_are_no_files(name: str, tmp_path: Path) -> None:
    """Only what a service calls its files."""
    assert kind_of(name) is None
    assert open_offer(tmp_path, name) is None


def test_there_may_be_no_directory(tmp_path: Path) -> None:
    """A service may keep nothing, or not yet."""
    assert list_offers(None, Window()) == list_offers(tmp_path / "missing", Window()) == []
    assert open_offer(None, f"{STEM}.jsonl") is None


def test_an_opened_file_is_the_offer(tmp_path: Path) -> None:
    """What is read to the offer's size is what the writer had written."""
    path = keep_samples(tmp_path, (1.0, 2.0))
    opened = open_offer(tmp_path, path.name)
    assert opened is not None
    file, offer = opened
    with file:
        file.seek(0)
        assert file.read(offer.tag.bytes) == path.read_bytes()
    assert [offer] == list_offers(tmp_path, Window())


def test_a_grown_file_covers_what_it_was(tmp_path: Path) -> None:
    """The identity stays, and the size tells how much is new; another file has another one."""
    writer = keep_journal(tmp_path, instance=1)
    other = keep_journal(tmp_path, f"{STEM}x", instance=2)
    put(writer, 1, 1)
    put(other, 1, 1)
    before, another = (offer.tag for offer in list_offers(tmp_path, Window()))
    put(writer, 2, 1)
    after = list_offers(tmp_path, Window())[0].tag
    assert after.covers(before)
    assert not before.covers(after)
    assert not another.covers(before)
    writer.close()
    other.close()


@given(st.binary(max_size=200))
def test_the_first_line_makes_the_identity_of_samples(rest: bytes) -> None:
    """Whatever follows it, and nothing before it is whole."""
    line = b'{"schema": "trilat.samples/1"}\n'
    assert head_identity("samples", line + rest) == head_identity("samples", line)
    assert head_identity("samples", line[:-1]) is None
    assert head_identity("journal", line + rest) is None


@given(st.text(alphabet='"0123456789abcdef-W/', max_size=30) | st.text(max_size=30))
def test_tags_are_texts_that_come_back(text: str) -> None:
    """A text is a tag only if it is the tag's text."""
    tag = FileTag.parse(text)
    assert tag is None or str(tag) == text
    made = FileTag("0123456789abcdef", 42)
    assert FileTag.parse(str(made)) == made


def test_offers_sort_by_name() -> None:
    """Listings are in the order in which files were written."""
    tag = FileTag("0" * 16, 1)
    assert Offer("a", "journal", tag, 9, 9) < Offer("b", "journal", tag, 1, 1)
