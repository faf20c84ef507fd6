"""Single requests, split up, in one file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from trilat.agent.errors import InputError
from trilat.agent.journal import JournalWriter
from trilat.agent.layout import EXCHANGE, MarkFlag
from trilat.agent.records import COMPONENTS
from trilat.agent.segment import HEADER_SIZE, journal_files
from trilat.correlator.cli import run
from trilat.correlator.requests.pipeline import Attributor
from trilat.correlator.requests.request_columns import REQUEST_TYPES
from trilat.correlator.requests.requests_file import attributed_requests, export_requests
from trilat.correlator.sketches.book import SketchBook

RUN = "0123456789ab"
SMALL = HEADER_SIZE + 2_000 * EXCHANGE.size
NAMES = ("GET\t/items/[id]", "GET\t=1+2")


def _write(folder: Path, rows: Any, stem: str = "generator-a-1", **facts: Any) -> SketchBook:
    """Write rows as a journal of one process, in several files; the book that they make."""
    folder.mkdir(exist_ok=True)
    known = {"side": "generator", "run": RUN, "host": 1, "pid": 1} | facts
    journal = JournalWriter(folder, stem, known, segment_bytes=SMALL)
    names = [journal.name_id(name) for name in NAMES]
    attributor = Attributor(1)
    stamped = EXCHANGE.packer
    for number, row in enumerate(rows):
        row["name_id"] = names[number % 2]
        journal.append(*stamped.unpack(row.tobytes())[:-1])
    journal.close()
    for raw in journal.take_new():
        attributor.feed(raw)
    attributor.flush()
    return attributor.book


@pytest.fixture(scope="module")
def written(
    simulate: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, SketchBook]:
    """Journals of two processes, and the book of both."""
    folder = tmp_path_factory.mktemp("run") / "journals"
    rows = simulate(5_000, host=1, offset_ms=0, drift_ppm=0).rows.copy()
    rows["flags"][:10] |= int(MarkFlag.FAILED)
    rows["status"] = 200
    book = _write(folder, rows)
    book.merge(_write(folder, rows[:1_000].copy(), "generator-b-2", pid=2))
    return folder, book


def test_every_request_adds_up_and_all_make_the_book(
    written: tuple[Path, SketchBook], tmp_path: Path
) -> None:
    """The parts of each are its response time; sums are those of the run's histograms."""
    folder, book = written
    out = tmp_path / "requests.parquet"
    assert export_requests(journal_files(folder), out, "parquet", run=RUN) == 6_000
    parts = " + ".join(f"{each.label.replace('.', '_')}_ns" for each in COMPONENTS)
    found = duckdb.execute(
        f"SELECT count(*), sum(response_ns), count(DISTINCT pid), "
        f"max(abs({parts} + unattributed_ns - response_ns)), "
        f"max(abs(service_ns + network_ns + generator_ns + unattributed_ns - response_ns)), "
        f"sum(service_ns) FROM '{out}'"
    ).fetchall()
    total = book.total()
    response, service = total.histogram("response"), total.histogram("service")
    (row,) = found
    assert row[0] == total.requests
    assert row[1] == round(response.mean_ns * response.count)
    assert row[2] == 2
    assert row[3] == row[4] == 0
    assert row[5] == round(service.mean_ns * service.count)


def test_a_csv_file_tells_all_of_a_request(
    written: tuple[Path, SketchBook], tmp_path: Path
) -> None:
    """Columns in order; texts that look like formulas are texts; failed ones only, if wanted."""
    folder, _ = written
    out = tmp_path / "requests.csv"
    assert export_requests(journal_files(folder), out, "csv", failed=True) == 20
    header, first, *_ = out.read_text().splitlines()
    assert header == ",".join(REQUEST_TYPES)
    values = dict(zip(header.split(","), first.split(","), strict=True))
    assert values["failed"] == values["matched"] == values["marked"] == "true"
    assert values["status"] == "200"
    assert values["generator_send_grade"] == "measured"
    assert values["lateness_ns"] == ""
    assert values["run"] == RUN
    assert {line.split(",")[2] for line in out.read_text().splitlines()[1:]} == {
        "/items/[id]",
        "'=1+2",
    }


def test_pieces_are_bounded(written: tuple[Path, SketchBook]) -> None:
    """However long a journal is, no piece has more requests than a batch or two."""
    folder, _ = written
    sizes = [len(table["name"]) for table in attributed_requests(journal_files(folder))]
    assert sum(sizes) == 6_000
    assert max(sizes) < 6_000 / 3


def test_other_runs_and_services_are_left_out(
    written: tuple[Path, SketchBook], tmp_path: Path
) -> None:
    """No request of another run; a file without requests has its columns all the same."""
    folder, _ = written
    out = tmp_path / "requests.parquet"
    assert export_requests(journal_files(folder), out, "parquet", run="0" * 12) == 0
    found = duckdb.execute(f"DESCRIBE SELECT * FROM '{out}'").fetchall()
    assert [(name, kind) for name, kind, *_ in found] == list(REQUEST_TYPES.items())


def test_damaged_and_unwritable_files(written: tuple[Path, SketchBook], tmp_path: Path) -> None:
    """One line says what is wrong, and what was there stays."""
    folder, _ = written
    bad = tmp_path / "bad-000001.trilat"
    bad.write_bytes(b"TRILAT-JOURNAL 1\n" + bytes(8_000))
    out = tmp_path / "requests.csv"
    out.write_text("before")
    with pytest.raises(InputError, match="bad-000001"):
        export_requests([*journal_files(folder), bad], out, "csv")
    assert out.read_text() == "before"
    with pytest.raises(InputError, match="cannot be written"):
        export_requests(journal_files(folder), tmp_path / "no" / "requests.csv", "csv")


def test_the_command_writes_the_same_file(
    written: tuple[Path, SketchBook],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``trilat journal export --attributed``; a service's records have nothing to attribute."""
    folder, _ = written
    out = tmp_path / "requests.jsonl"
    command = ["journal", "export", str(folder), "--attributed", "-o", str(out)]
    assert run(command) == 0
    assert capsys.readouterr().out.endswith("requests.jsonl: 6,000 requests\n")
    assert len(out.read_text().splitlines()) == 6_000
    assert run([*command, "--force", "--side", "service"]) == 2
    assert "--attributed is of generators" in capsys.readouterr().err


def test_garbage_adds_up_too(garbage: Callable[[int, int], Any], tmp_path: Path) -> None:
    """Whatever a record holds, the parts that are written are its response time."""
    folder = tmp_path / "journals"
    _write(folder, garbage(500, 3))
    for table in attributed_requests(journal_files(folder)):
        parts = sum(table[f"{each.label.replace('.', '_')}_ns"] for each in COMPONENTS)
        np.testing.assert_array_equal(parts + table["unattributed_ns"], table["response_ns"])
