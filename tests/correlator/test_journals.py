"""Records of journals as columns, and as files for other tools."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.errors import InputError, JournalError, UsageError
from trilat.agent.journal import JournalWriter
from trilat.agent.layout import SERVED, Kind, MarkFlag, ServedFlag
from trilat.agent.segment import journal_files
from trilat.agent.stamp import EMPTY, STAMP
from trilat.correlator.records.exporting import FORMATS, ExportFormat, export
from trilat.correlator.records.journal_columns import COLUMNS, LAYOUTS_BY_SIDE, Side
from trilat.correlator.records.journals import (
    Choice,
    JournalTable,
    find_journals,
    read_journal,
    side_of,
)

EPOCH = 1_700_000_000_000_000_000
RUN = "0123456789ab"
SMALL = 4096 + 100 * 120


def served(number: int = 0, name_id: int = 0, **fields: int) -> tuple[int, ...]:
    """The values of a service's record."""
    values = dict.fromkeys((field.name for field in SERVED.fields), 0)
    values.update(kind=Kind.SERVED, name_id=name_id, called_wall_ns=EPOCH + number, status=200)
    values.update(fields)
    return tuple(values.values())[:-1]


def exchange(name_id: int, flags: int, stamp: bytes) -> tuple[Any, ...]:
    """The values of a generator's record."""
    return (Kind.EXCHANGE, flags, name_id, 1, 2, 3, EPOCH, *[-1] * 12, 0, stamp, 200, 1)


def write(folder: Path, records: Sequence[tuple[int, ...]], names: Sequence[str] = ()) -> None:
    """Write a service's journal in small files."""
    writer = JournalWriter(
        folder,
        "service-a-1",
        {"side": "service", "host": 7, "pid": 8, "instance": 9},
        layout=SERVED,
        segment_bytes=SMALL,
        keep_new=False,
    )
    for name in names:
        writer.name_id(name)
    for record in records:
        writer.append(*record)
    writer.close()


def read(folder: Path, choice: Choice | None = None) -> list[dict[str, Any]]:
    """All records of a folder."""
    rows = []
    for path in find_journals([folder]):
        table = read_journal(path, choice or Choice())
        assert table is not None
        rows += table.rows(10_000)
    return rows


def test_service_s_record_says_all_it_knows(tmp_path: Path) -> None:
    """Ids as text, flags by name, the route's text, the file's facts, and nothing unknown."""
    record = served(
        flags=ServedFlag.MARKED | ServedFlag.STREAMED,
        trace_high=0x4BF92F3577B34DA6,
        trace_low=0xA3CE929D0E0E4736,
        span=0xF067AA0BA902B7,
        run=int(RUN, 16),
        called_ns=5,
        app_ns=1_000,
        end_ns=2_000,
        blocked_ns=10,
        thread_wait_ns=20,
        body_wait_ns=25,
        gap_ns=30,
        body_bytes=2**63,
        queue_ms=4,
        messages=3,
    )
    write(tmp_path, [record], ["GET\t/items/{id}"])
    assert read(tmp_path) == [
        {
            "called_wall_ns": EPOCH,
            "method": "GET",
            "name": "/items/{id}",
            "status": 200,
            "marked": True,
            "streamed": True,
            "disconnected": False,
            "raised": False,
            "unfinished": False,
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "span_id": "00f067aa0ba902b7",
            "run": RUN,
            "called_ns": 5,
            "app_ns": 1_000,
            "end_ns": 2_000,
            "blocked_ns": 10,
            "thread_wait_ns": 20,
            "body_wait_ns": 25,
            "gap_ns": 30,
            "body_bytes": 2**63,
            "queue_ms": 4,
            "messages": 3,
            "host": 7,
            "pid": 8,
            "instance": 9,
        }
    ]


def test_what_is_not_known_is_none(tmp_path: Path) -> None:
    """-1 where a field says so, ids of zero, and facts that the header does not give."""
    unknown = served(app_ns=-1, end_ns=-1, blocked_ns=-1, queue_ms=-1)
    JournalWriter(tmp_path, "x", {"host": "a", "pid": True, "instance": -5}, layout=SERVED).close()
    (path,) = journal_files(tmp_path)
    with path.open("ab") as file:
        file.write(SERVED.struct.pack(*unknown, 1))
    (row,) = read(tmp_path)
    known = {key: value for key, value in row.items() if value is not None}
    assert row.keys() - known.keys() == {
        *("app_ns", "end_ns", "blocked_ns", "queue_ms"),
        *("trace_id", "span_id", "run", "host", "pid", "instance"),
    }
    assert (row["method"], row["name"]) == ("?", "name 0")


def test_generator_s_record_knows_its_stamp_only_where_one_came(tmp_path: Path) -> None:
    """The stamp's fields are unknown together; of one that came, two may be by themselves."""
    writer = JournalWriter(tmp_path, "generator-1", {"side": "generator", "run": RUN, "host": 7})
    name = writer.name_id("GET\t/")
    writer.append(*exchange(name, MarkFlag.SENT, EMPTY))
    writer.append(
        *exchange(name, MarkFlag.FAILED, STAMP.pack(3, EPOCH, 5_000, -1, -1, 400, 0, 1, 2))
    )
    writer.close()
    without, with_ = read(tmp_path)
    fields = {key for key in without if key.startswith("service_")}
    assert len(fields) == 9
    assert all(without[key] is None for key in fields)
    assert {key for key in fields if with_[key] is None} == {
        "service_blocked_ns",
        "service_queue_ms",
    }
    assert (with_["service_span_id"], with_["service_app_ns"]) == ("0000000000000003", 5_000)
    assert (without["failed"], with_["failed"], with_["run"]) == (False, True, RUN)
    assert without["hub_lag_ns"] is without["lateness_ns"] is without["first_lay_ns"] is None
    assert without["response_ns"] == -1


@pytest.mark.parametrize("side", LAYOUTS_BY_SIDE)
def test_every_field_has_a_column_with_its_unit(side: Side) -> None:
    """None is left out but what only the format needs, and times and sizes name their units."""
    made = set(COLUMNS[side])
    renamed = {"flags", "name_id", "trace_high", "trace_low", "span", "service_span"}
    for field in LAYOUTS_BY_SIDE[side].fields:
        if field.name not in renamed | {"kind", "pad", "commit"}:
            assert field.name in made
        if field.unit.startswith(("ns", "ms", "bytes")):
            assert field.name.endswith(("_ns", "_ms", "_bytes"))
    assert len({name.lower() for name in made}) == len(made)


def test_choice_of_records(tmp_path: Path) -> None:
    """Those of one run, those that failed, those of one side."""
    records = [
        served(0, run=int(RUN, 16)),
        served(1, run=1, status=503),
        served(2, flags=ServedFlag.RAISED),
        served(3, flags=ServedFlag.UNFINISHED, run=int(RUN, 16)),
        served(4, status=404),
        served(5, status=499, flags=ServedFlag.DISCONNECTED),
    ]
    write(tmp_path, records)

    def chosen(choice: Choice) -> list[int]:
        return [row["called_wall_ns"] - EPOCH for row in read(tmp_path, choice)]

    assert chosen(Choice()) == [0, 1, 2, 3, 4, 5]
    assert chosen(Choice(failed=True)) == [1, 2, 3]
    assert chosen(Choice(run=RUN)) == chosen(Choice(run=RUN.upper())) == [0, 3]
    assert chosen(Choice(run=RUN, failed=True)) == [3]
    (path,) = journal_files(tmp_path)
    assert read_journal(path, Choice(side="generator")) is None


def test_run_of_a_generator_stands_in_its_header(tmp_path: Path) -> None:
    """All its records are of that run, or none."""
    writer = JournalWriter(tmp_path, "generator-1", {"run": RUN})
    writer.append(*exchange(0, MarkFlag.SENT, EMPTY))
    writer.close()
    assert len(read(tmp_path, Choice(run=RUN))) == 1
    assert read(tmp_path, Choice(run="000000000000")) == []


@pytest.mark.parametrize(
    "run", ["", "0123456789a", "0123456789abc", "0123456789ag", "+12345678901"]
)
def test_what_is_no_run_id_is_refused(run: str) -> None:
    """Before a file is read, by one line that says what one looks like."""
    with pytest.raises(UsageError, match="12 hexadecimal digits"):
        Choice(run=run)


def test_paths_are_files_folders_and_runs(tmp_path: Path) -> None:
    """Each file once, in the order of writing."""
    journals = tmp_path / "journals"
    journals.mkdir()
    write(journals, [served(number) for number in range(250)])
    files = journal_files(journals)
    assert len(files) == 3
    assert find_journals([tmp_path]) == find_journals([journals, files[1]]) == files
    assert find_journals([files[2], files[0]]) == [files[2], files[0]]
    with pytest.raises(InputError, match=r"absent: no such file"):
        find_journals([tmp_path / "absent"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: no journal in it"):
        find_journals([tmp_path / "empty"])


def test_file_that_goes_while_it_is_looked_for_is_passed_over(tmp_path: Path) -> None:
    """A service deletes its oldest file when it begins a new one; damage is damage still."""
    assert read_journal(tmp_path / "gone-000001.trilat", Choice()) is None
    assert side_of(tmp_path / "gone-000001.trilat") is None
    damaged = tmp_path / "x-000001.trilat"
    damaged.write_bytes(b"TRILAT")
    for look in (side_of, lambda path: read_journal(path, Choice())):
        with pytest.raises(JournalError, match="not a trilat journal"):
            look(damaged)


@given(numbers=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40), limit=st.integers(1, 10))
def test_newest_and_oldest_are_by_time(numbers: list[int], limit: int) -> None:
    """Whatever the order of writing and the clock."""
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), [served(called_wall_ns=number) for number in numbers])
        (path,) = journal_files(Path(name))
        table = read_journal(path, Choice())
    assert table is not None
    newest = [row["called_wall_ns"] for row in table.rows(limit)]
    oldest = [row["called_wall_ns"] for row in table.rows(limit, oldest=True)]
    assert newest == sorted(numbers)[-limit:]
    assert oldest == sorted(numbers)[:limit]
    assert table.size == table.records == len(numbers)


def _exported(folder: Path, kind: ExportFormat) -> list[dict[str, Any]]:
    """Export a folder, and read what came out with another reader."""
    out = folder / f"it's out.{kind}"
    tables = [read_journal(path, Choice()) for path in find_journals([folder])]
    written = export([table for table in tables if table is not None], "service", out, kind)
    assert [path.name for path in folder.iterdir() if not path.name.endswith(".trilat")] == [
        out.name
    ]
    if kind == "parquet":
        with duckdb.connect() as database:
            found = database.read_parquet(str(out))
            rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    elif kind == "jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    else:
        with out.open(newline="") as file:
            rows = [dict(row) for row in csv.DictReader(file)]
    assert len(rows) == written
    out.unlink()
    return rows


def _in_csv(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("kind", FORMATS)
def test_export_is_what_the_journal_holds(kind: ExportFormat, tmp_path: Path) -> None:
    """Over several files, in order, with every column, and names that need quoting."""
    names = ["GET\t/a,b\"c'd", "GET\t/é\n=1", "POST\t"]
    records = [
        served(number, number % 3, span=number, app_ns=-(number % 2), body_bytes=2**64 - 1)
        for number in range(250)
    ]
    write(tmp_path, records, names)
    expected = read(tmp_path)
    assert len(journal_files(tmp_path)) > 2
    found = _exported(tmp_path, kind)
    if kind == "csv":
        expected = [{key: _in_csv(value) for key, value in row.items()} for row in expected]
    assert found == expected


def test_generator_s_records_are_exported(tmp_path: Path) -> None:
    """With the stamp where one came, and the run of the file's header."""
    writer = JournalWriter(tmp_path, "generator-1", {"run": RUN, "host": 7})
    name = writer.name_id("GET\t/")
    writer.append(*exchange(name, MarkFlag.SENT, EMPTY))
    writer.append(
        *exchange(name, MarkFlag.FAILED, STAMP.pack(3, EPOCH, 5_000, -1, 4, 400, 0, 1, 2))
    )
    writer.close()
    table = read_journal(journal_files(tmp_path)[0], Choice())
    assert table is not None
    out = tmp_path / "out.jsonl"
    assert export([table], "generator", out, "jsonl") == 2
    assert [json.loads(line) for line in out.read_text().splitlines()] == table.rows(2)


@pytest.mark.parametrize("kind", FORMATS)
def test_export_of_nothing_has_the_columns(kind: ExportFormat, tmp_path: Path) -> None:
    """A tool that reads it finds the columns that it expects, and no row."""
    write(tmp_path, [])
    out = tmp_path / "out"
    assert export([], "generator", out, kind) == 0
    if kind == "csv":
        assert out.read_text() == ",".join(COLUMNS["generator"]) + "\n"
    elif kind == "jsonl":
        assert out.read_text() == ""
    else:
        with duckdb.connect() as database:
            assert database.read_parquet(str(out)).columns == list(COLUMNS["generator"])


@settings(max_examples=15)
@given(
    insides=st.lists(st.binary(min_size=SERVED.size - 6, max_size=SERVED.size - 6), max_size=8),
    kind=st.sampled_from(sorted(FORMATS)),
)
def test_hostile_records_can_be_exported(insides: list[bytes], kind: str) -> None:
    """Any bytes that pass for records, names included, come out as rows in every format."""
    kinds = [Kind.NAME if at % 2 else Kind.SERVED for at in range(len(insides))]
    records = b"".join(
        kinds[at].to_bytes(2, "little") + inside + (at + 1).to_bytes(4, "little")
        for at, inside in enumerate(insides)
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, [])
        (path,) = journal_files(folder)
        with path.open("ab") as file:
            file.write(records)
        rows = _exported(folder, cast("ExportFormat", kind))
    assert len(rows) == kinds.count(Kind.SERVED)


def test_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """The place is named, and nothing is left there."""
    with pytest.raises(InputError, match=r"absent/out\.csv: cannot be written: No such file"):
        export([], "service", tmp_path / "absent/out.csv", "csv")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/x").touch()
    with pytest.raises(InputError, match="folder: cannot be written"):
        export([], "service", tmp_path / "folder", "csv")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("error", [JournalError("x: damaged header"), KeyboardInterrupt()])
def test_output_stays_what_it_was_where_reading_ends(error: BaseException, tmp_path: Path) -> None:
    """A damaged journal or Ctrl-C halfway does not cost the file that is to be replaced."""
    out = tmp_path / "out.csv"
    out.write_text("mine")

    def tables() -> Iterator[JournalTable]:
        yield from ()
        raise error

    with pytest.raises(type(error)):
        export(tables(), "service", out, "csv")
    assert out.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_columns_of_no_rows_are_empty(tmp_path: Path) -> None:
    """A filter that leaves nothing leaves columns."""
    write(tmp_path, [served()])
    (path,) = journal_files(tmp_path)
    table = read_journal(path, Choice(failed=True))
    assert table is not None
    assert (table.size, table.records, table.rows(5)) == (0, 1, [])
    assert all(np.size(column) == 0 for column in table.columns.values())
