"""What is shown of a run while it goes on: windows, rates, series, rows."""

from __future__ import annotations

import csv
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

import gevent
import numpy as np
import pytest

from trilat.agent.errors import UsageError
from trilat.agent.layout import Kind, MarkFlag
from trilat.correlator.attribution.align import Aligner
from trilat.correlator.attribution.attribute import attribute
from trilat.correlator.attribution.cuts import cut
from trilat.correlator.records.frames import EXCHANGE_DTYPE
from trilat.correlator.requests.request_columns import REQUEST_TYPES
from trilat.correlator.sketches.book import SketchBook
from trilat.correlator.sketches.sketch import Sketch
from trilat.correlator.sketches.tally import tally
from trilat.locust.live import csv_files, csv_rows
from trilat.locust.live.endpoint_rows import SHOWN_MAX, EndpointRows
from trilat.locust.live.figures import Rate, Recent, sides_ms
from trilat.locust.live.requests_option import RequestsFile
from trilat.locust.live.series import POINTS_MAX, Series
from trilat.locust.live.service_pulse import ServicePulse
from trilat.locust.live.watch import COLUMNS

MS = 1_000_000


def _requests(*responses_ms: float) -> Any:
    """Requests without a service's evidence."""
    rows = np.zeros(len(responses_ms), EXCHANGE_DTYPE)
    rows["kind"] = int(Kind.EXCHANGE)
    rows["flags"] = int(MarkFlag.SENT)
    rows["started_ns"] = rows["started_wall_ns"] = 10**9
    rows["response_ns"] = np.round(np.array(responses_ms) * MS)
    cuts = cut(rows)
    return attribute(cuts, Aligner(1).align(cuts))


def _book(*endpoints: tuple[str, str]) -> SketchBook:
    book = SketchBook()
    for number, endpoint in enumerate(endpoints, 1):
        book.add(endpoint, tally(_requests(*[10.0] * number), np.zeros(1, np.intp))[0])
    return book


def test_recent_requests_are_those_of_the_window() -> None:
    """What was counted more than ten seconds ago is not among them."""
    sketch, recent = Sketch(), Recent()
    sketch.update(_requests(100, 100))
    assert recent.look(sketch, 0.0).requests == 2
    sketch.update(_requests(1, 1, 1))
    found = recent.look(sketch, 5.0)
    assert found.requests == 3
    assert found.histogram("response").max_ns == pytest.approx(MS, rel=0.01)
    assert recent.look(sketch, 14.0).requests == 3
    assert recent.look(sketch, 16.0).requests == 0


def test_counting_anew_begins_a_new_window() -> None:
    """A reset leaves fewer requests than there were, or others: all there is is recent."""
    recent, before, after = Recent(), Sketch(), Sketch()
    before.update(_requests(10, 10, 10))
    recent.look(before, 0.0)
    after.update(_requests(20))
    assert recent.look(after, 1.0).requests == 1
    other = Sketch()
    other.update(_requests(30, 30, 30))
    assert recent.look(other, 2.0).requests == 3
    other.update(_requests(30))
    assert recent.look(other, 3.0).requests in {1, 4}


def test_a_rate_is_told_between_changes() -> None:
    """A count that grows every three seconds has the same rate whenever it is looked at."""
    rate = Rate()
    assert rate.look(0, 0.0) is None
    found = [rate.look(300 * (second // 3), float(second)) for second in range(1, 40)]
    assert found[1] is None
    assert all(each == pytest.approx(100) for each in found[2:])
    assert rate.look(300 * 13, 60.0) == 0.0


def test_sides_add_up_or_are_not_known() -> None:
    """Without a request there is nothing; else the parts are the mean."""
    sketch = Sketch()
    assert sides_ms(sketch, None) is None
    sketch.update(_requests(10, 20))
    parts = sides_ms(sketch, None)
    assert parts is not None
    assert sum(parts.values()) == pytest.approx(15)
    assert parts["unattributed"] == pytest.approx(15)


def test_a_series_stays_bounded_and_keeps_the_whole_run() -> None:
    """It thins itself out: the first and the last second stay in, and means stay means."""
    series = Series(["at", "known"])
    rows = 5 * POINTS_MAX
    for second in range(rows):
        series.add([float(second), None if second % 2 else 4.0])
        assert len(series.points) < POINTS_MAX
    width = 2**series.generation
    assert series.points[0] == [(width - 1) / 2, 4.0]
    covered = len(series.points) * width
    assert rows - covered < width
    assert series.points[-1][0] == covered - width + (width - 1) / 2
    with pytest.raises(ValueError, match="1 figures for 2 columns"):
        series.add([1.0])


def test_a_series_does_not_make_up_what_is_not_known() -> None:
    """None stays None."""
    series = Series(["at", "known"])
    for second in range(2 * POINTS_MAX):
        series.add([float(second), None])
    assert {point[1] for point in series.points} == {None}
    assert len(COLUMNS) == len(set(COLUMNS))


def test_the_csv_has_a_row_of_each_endpoint_and_no_formula() -> None:
    """Rows as wide as the header, in Locust's order, the total last; names are text."""
    book = _book(("GET", "=cmd|' /C calc'!A0"), ("POST", '/a,"b"\n'), ("GET", "@x"))
    text = csv_files.table(book, book.total())
    assert text.count("\r\n") == 5
    header, *rows = csv.reader(StringIO(text, newline=""))
    assert tuple(header) == csv_rows.COLUMNS
    assert len(set(header)) == len(header)
    assert {len(row) for row in rows} == {len(header)}
    assert [row[:3] for row in rows] == [
        ["POST", '/a,"b"\n', "2"],
        ["GET", "'=cmd|' /C calc'!A0", "1"],
        ["GET", "'@x", "3"],
        ["", "Aggregated", "6"],
    ]
    assert dict(zip(header, rows[-1], strict=True))["Service Average"] == "N/A"
    assert dict(zip(header, rows[-1], strict=True))["Unattributed Share"] == "1.0"


def test_an_empty_run_has_cells_without_values() -> None:
    """Nothing is NaN."""
    text = csv_files.table(SketchBook(), Sketch())
    assert text.splitlines()[1].startswith(",Aggregated,0,0,0,N/A")
    assert "nan" not in text.lower()


@pytest.mark.parametrize("name", ["requests.xlsx", "requests", "none/requests.csv"])
def test_a_file_that_cannot_be_written_is_refused_before_the_run(name: str, tmp_path: Path) -> None:
    """One line says what is wrong with it."""
    with pytest.raises(UsageError, match=r"ends in none of|cannot be written"):
        RequestsFile(tmp_path / name)


def test_rows_of_the_endpoints_with_the_most_requests() -> None:
    """As many as are shown, most first; made anew only where they are old or the run has ended."""
    endpoints = [("GET", f"/{number}") for number in range(SHOWN_MAX + 5)]
    book, rows = _book(*endpoints), EndpointRows()
    shown = rows.look(book, ended=False)
    assert rows.endpoints == len(endpoints)
    assert [row["name"] for row in shown] == [name for _, name in endpoints[:4:-1]]
    assert shown[0]["mean_ms"] == shown[0]["p95_ms"] == 10.0
    assert rows.look(book, ended=False) is shown
    final = rows.look(book, ended=True)
    assert final is not shown
    assert rows.look(book, ended=True) is final
    assert rows.version == 2


def test_the_page_of_the_documentation_has_every_column() -> None:
    """docs/web.md names all columns of the three tables."""
    page = (Path(__file__).parents[3] / "docs/web.md").read_text()
    columns = {*csv_rows.COLUMNS, *csv_files.HISTORY_COLUMNS, *REQUEST_TYPES}
    assert {column for column in columns if f"`{column}`" not in page} == set()


class _Odd(BaseHTTPRequestHandler):
    """Answers whatever it is asked with what the test wants."""

    answer: ClassVar[tuple[int, bytes]]

    def do_GET(self) -> None:
        """Answer."""
        status, body = self.answer
        self.send_response(status)
        self.send_header("Location", "http://127.0.0.1:9/")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    "answer",
    [
        (401, b""),
        (302, b""),
        (200, b"[" * 10_000),
        (200, b'{"schema": "trilat.files/1"}'),
        (200, b"x" * (5 * 2**20)),
    ],
)
def test_a_service_that_gives_no_samples(
    answer: tuple[int, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """There is no figure, and one line says why, however often it is asked."""
    _Odd.answer = answer
    with ThreadingHTTPServer(("127.0.0.1", 0), _Odd) as server:
        serving = gevent.spawn(server.serve_forever, 0.01)
        pulse = ServicePulse(f"http://127.0.0.1:{server.server_address[1]}/trilat", "of-a-test")
        with gevent.Timeout(30):
            while not caplog.messages:
                gevent.sleep(0.01)
        pulse._tell(pulse._told)
        assert pulse.cpu_percent is None
        assert len(caplog.messages) == 1
        assert caplog.messages[0].startswith("the service's samples cannot be shown: http://127")
        assert len(caplog.messages[0]) < 400
        pulse.stop()
        server.shutdown()
        serving.join()
