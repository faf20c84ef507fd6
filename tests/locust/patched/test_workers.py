"""Worker and master over a bad line: each request is counted once, or told of as missing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from locust import runners
from locust.rpc.protocol import Message

from trilat.agent.errors import InputError
from trilat.agent.layout import EXCHANGE, Kind, MarkFlag, name_layout
from trilat.correlator.records.frames import EXCHANGE_DTYPE
from trilat.correlator.requests.pipeline import Attributor
from trilat.correlator.run.crew import CrewFacts
from trilat.correlator.sketches.book import SketchBook
from trilat.locust.distribution.reports import KEY, Report, said_of
from trilat.locust.distribution.shipping import Shipper
from trilat.locust.distribution.workers import SILENT_S, Crew

RUN = "0123456789ab"
SECOND = 10**9
MS = 10**6


@pytest.fixture(autouse=True)
def _nobody_packs_by_himself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "WORKER_REPORT_INTERVAL", 3600)


class Part:
    """A worker's session, as far as reports need one: requests come when the test makes them."""

    def __init__(self, identity: str = "feed1") -> None:
        self.settings = SimpleNamespace(run_id=RUN)
        self.identity, self.pid, self.epoch = identity, 77, 0
        self.host = SimpleNamespace(name="generator-1", identity=7)
        self.active, self.recorded, self.left_out, self.users_now = True, 0, 0, 5
        self.pace = SimpleNamespace(wanted=0.0, run=0, missed=0)
        cpu = SimpleNamespace(total_s=0.5, elapsed_s=1.0, highest=60.0, latest=50.0)
        line = '{"kind": "vitals"}'
        self.pulse = SimpleNamespace(cpu=cpu, latest={}, take_fresh=lambda: [line])
        self.kernel_stamps, self.same_host, self.lost = True, None, {"unmarked": 1}
        self._new, self._whole = Attributor(7), Attributor(7)
        names = name_layout(EXCHANGE.size).struct
        for number in range(40):
            self._feed(names.pack(int(Kind.NAME), 0, number, f"GET\t/{number}".encode(), 0))

    @property
    def all(self) -> SketchBook:
        """All requests since the last reset."""
        return self._whole.book

    def make(self, requests: int) -> None:
        """So many requests, to one endpoint each."""
        rows = np.zeros(requests, EXCHANGE_DTYPE)
        rows["kind"], rows["flags"] = Kind.EXCHANGE, MarkFlag.SENT | MarkFlag.ANSWERED
        rows["name_id"] = np.arange(requests)
        rows["started_ns"] = rows["started_wall_ns"] = (self.recorded + 1) * SECOND
        rows["response_ns"] = rows["last_read_ns"] = (np.arange(requests) + 1) * MS
        self._feed(rows.tobytes())
        self.recorded += requests

    def _feed(self, raw: bytes) -> None:
        for attributor in (self._new, self._whole):
            attributor.feed(raw)
            attributor.flush()

    def take_book(self) -> SketchBook:
        """As a session's."""
        return self._new.take_book()

    def start_anew(self, epoch: int) -> None:
        """As a session's."""
        self.epoch, self.left_out = epoch, self.recorded
        self._new.take_book()
        self._whole.take_book()


class Line:
    """A worker and a master, and what gets through between them."""

    def __init__(self, part: Part | None = None) -> None:
        self.now = 1_000 * SECOND
        self.part = part or Part()
        self.shipper = Shipper(self.part, "/there/journals", shared=False)  # type: ignore[arg-type]
        self.master = SimpleNamespace(book=SketchBook(), epoch=0, ended_wall_ns=None)
        self.samples: list[str] = []
        self.answers: list[int] = []
        self.crew = Crew(
            self.master,  # type: ignore[arg-type]
            lambda _client, _session, number: self.answers.append(number),
            lambda report: self.samples.extend(report.samples),
            lambda: self.now,
        )

    def report(self, *, times: int = 1, answered: bool = True, locusts: int = 0) -> None:
        """A report, which arrives so many times; the master's answers arrive or do not."""
        wire = _message("stats", {KEY: [self.shipper.report()]}, "worker-1").serialize()
        for _ in range(times):
            self.answers.clear()
            data = _message.unserialize(wire).data
            self.crew.receive("worker-1", said_of(data, RUN), locusts)
        if answered and times:
            self.shipper.taken(self.answers[-1])

    def end(self) -> None:
        """The last report gets through."""
        self.part.active = False
        self.report()

    @property
    def facts(self) -> CrewFacts:
        """What a manifest would tell."""
        return self.crew.facts()


@pytest.fixture
def line() -> Iterator[Line]:
    """A line with one worker."""
    made = Line()
    yield made
    made.part.active = False
    made.shipper.report()


_message: Any = Message

STEP = st.one_of(
    st.tuples(st.just("make"), st.integers(1, 40)),
    st.tuples(st.just("pack"), st.none()),
    st.tuples(st.just("report"), st.tuples(st.integers(0, 2), st.booleans())),
)


@given(st.lists(STEP, max_size=20))
@settings(max_examples=60)
def test_whatever_the_line_loses_or_doubles_nothing_is_lost_or_doubled(steps: list[Any]) -> None:
    """Reports and answers may be lost, and reports come twice: the last report makes it whole."""
    line = Line()
    for what, value in steps:
        if what == "make":
            line.part.make(value)
        elif what == "pack":
            line.shipper.pack()
        else:
            line.report(times=value[0], answered=value[1])
    line.end()
    assert line.master.book.to_bytes() == line.part.all.to_bytes()
    assert line.crew.members["feed1"].book.to_bytes() == line.part.all.to_bytes()
    assert line.shipper.done
    assert line.facts["lost"] == []
    assert line.facts["missing_requests"] == 0
    assert line.crew.requests == line.part.recorded


def test_a_report_holds_one_parcel_however_long_the_master_is_away(line: Line) -> None:
    """Its size does not grow with the time."""
    for _ in range(10):
        line.part.make(40)
        line.shipper.pack()
        line.report(times=0)
    assert [parcel["requests"] for parcel in line.shipper.report()["parcels"]] == [40]
    line.report()
    line.shipper.pack()
    line.report()
    assert line.master.book.total().requests == 400


def test_who_dies_took_along_what_had_not_come(line: Line) -> None:
    """Told of and not received is missing; what came after the last report is estimated."""
    line.part.make(30)
    line.shipper.pack()
    line.report()
    line.now += 2 * SECOND
    line.part.make(20)
    line.report()  # tells of them; their histograms are not packed yet
    line.now += 3 * SECOND
    line.crew.heard("worker-1")
    line.now += round((SILENT_S + 1) * SECOND)
    line.crew.tick(1.0, users=0, wanted=5)
    (worker,) = line.facts["workers"]
    assert (worker["requests"], worker["received"]) == (50, 30)
    assert worker["estimate"] == 35  # 10 a second, for 3 seconds and half of a heartbeat's
    assert line.facts["lost"] == ["worker-1"]
    assert line.facts["missing_requests"] == 20
    assert line.facts["load_missing"] > 0
    assert line.crew.present == []
    assert not line.crew.is_awaiting
    assert worker["journals"] == "/there/journals"


def test_the_first_report_may_be_the_last(line: Line) -> None:
    """A master that has heard nothing of a run yet waits for those who took part, while they live.

    Not for those who have nothing to tell of it.
    """

    def waits() -> bool:
        return line.crew.is_awaiting

    line.crew.expect(["worker-1", "plain", "dead"])
    assert waits()
    line.crew.receive("plain", None, 0)
    line.part.make(3)
    line.end()
    assert waits()  # for the one that died
    line.now += round((SILENT_S - 1) * SECOND)
    line.crew.heard("dead")
    line.now += 2 * SECOND
    assert waits()
    line.now += round(SILENT_S * SECOND)
    assert not waits()
    assert line.master.book.total().requests == 3
    line.crew.expect(["worker-1"])
    assert not waits()


def test_who_was_away_and_comes_back_is_the_same_worker(line: Line) -> None:
    """Under another name at the master, too; nothing counts twice."""
    line.part.make(10)
    line.shipper.pack()
    line.report(answered=False)
    line.now += round((SILENT_S + 1) * SECOND)
    line.crew.tick(1.0, users=0, wanted=5)
    assert line.crew.present == []
    line.crew.receive("worker-2", line.shipper.report(), 0)
    assert [member.name for member in line.crew.present] == ["worker-2"]
    assert line.facts["load_missing"] == 0  # its users went on all the time
    assert len(line.crew) == 1
    assert line.master.book.total().requests == 10


def test_who_is_started_again_is_another_worker(line: Line) -> None:
    """With a name that was there before, too; at no time were there two."""
    line.part.make(10)
    line.shipper.pack()
    line.report()
    line.now += round((SILENT_S + 1) * SECOND)
    line.crew.tick(1.0, users=0, wanted=5)
    second = Part("feed2")
    second.make(7)
    shipper = Shipper(second, "/there/journals", shared=False)  # type: ignore[arg-type]
    second.active = False
    line.crew.receive("worker-1", shipper.report(), 0)
    assert line.master.book.total().requests == 17
    assert (line.facts["seen"], line.facts["at_once"]) == (2, 1)
    assert line.facts["lost"] == ["worker-1"]


def test_a_reset_leaves_out_what_came_before(line: Line) -> None:
    """Also what is on its way; what Locust counts all the same is told."""
    line.part.make(10)
    line.shipper.pack()
    line.report()
    line.part.make(5)
    line.shipper.pack()
    line.master.epoch, line.master.book = 1, SketchBook()
    line.crew.start_anew()
    line.report(locusts=5)  # was under way
    assert line.master.book.total().requests == 0
    assert (line.crew.left_out, line.crew.counted_late) == (15, 5)
    line.part.make(3)
    line.part.start_anew(1)
    line.shipper.start_anew(counted_late=True)
    line.part.make(2)
    line.end()
    assert line.master.book.to_bytes() == line.part.all.to_bytes()
    assert (line.crew.left_out, line.crew.counted_late) == (18, 8)
    assert line.facts["missing_requests"] == 0
    assert line.crew.requests == 20


def test_workers_without_trilat_or_of_another_form_are_named(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """Once in the log; their requests are counted as missing."""
    for _ in range(2):
        line.crew.receive("plain", None, 40)
        line.crew.receive("later", {**line.shipper.report(), "protocol": 99, "session": "x"}, 3)
    line.crew.receive("idle", None, 0)
    strangers = {each["name"]: each for each in line.facts["strangers"]}
    assert {name: each["requests"] for name, each in strangers.items()} == {"plain": 80, "later": 6}
    assert strangers["plain"]["why"] == "runs without trilat"
    assert "another release" in strangers["later"]["why"]
    assert line.facts["missing_requests"] == 86
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 2


def test_another_version_is_told_once(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    """In one line, and the worker takes part."""
    for _ in range(2):
        line.crew.receive("worker-1", {**line.shipper.report(), "trilat": "0.0.9"}, 0)
    (record,) = caplog.records
    assert "worker worker-1 runs trilat 0.0.9 and this master" in record.getMessage()
    assert line.facts["seen"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"session": "../../etc"},
        {"session": ""},
        {"requests": -1},
        {"requests": 2**70},
        {"requests": True},
        {"cpu_s": float("nan")},
        {"cpu_s": "much"},
        {"host": "x" * 2000},
        {"same_host": 1},
        {"lost": {"unmarked": "many"}},
        {"lost": {str(number): 1 for number in range(100)}},
        {"samples": [1]},
        {"samples": ["x" * 2**17]},
        {"parcels": {}},
        {"parcels": [{"number": 1, "epoch": 0, "requests": 1, "pages": ["text"]}]},
        {"parcels": [{"number": 1, "epoch": 0, "requests": 1}]},
        {"parcels": [{"number": -1, "epoch": 0, "requests": 1, "pages": []}]},
    ],
)
def test_a_report_that_is_none_is_refused(line: Line, change: dict[str, Any]) -> None:
    """With one kind of error; the master counts that worker's requests as missing."""
    said = {**line.shipper.report(), **change}
    with pytest.raises(InputError):
        Report.from_wire(said)
    line.crew.receive("odd", said, 9)
    assert line.facts["missing_requests"] == 9
    assert line.answers == []


@pytest.mark.parametrize("said", [None, [], "report", {"protocol": 1}, {}])
def test_what_is_no_report_at_all(said: Any) -> None:
    """Refused as well."""
    with pytest.raises(InputError):
        Report.from_wire(said)


def test_a_parcel_that_cannot_be_read_is_not_confirmed(line: Line) -> None:
    """It stays with the worker, and nothing of it is counted."""
    line.part.make(4)
    line.shipper.pack()
    said = line.shipper.report()
    said["parcels"][0]["pages"][0] = b"trilat-book 2\n" + b"\xff" * 50
    line.crew.receive("worker-1", said, 4)
    assert line.answers == []
    assert line.master.book.total().requests == 0
    line.report()
    assert line.master.book.total().requests == 4


def test_samples_come_along(line: Line) -> None:
    """For a master that cannot read the worker's own file of them."""
    line.report()
    assert line.samples == ['{"kind": "vitals"}']
