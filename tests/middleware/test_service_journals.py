"""Journals of a real service under load: its workers are killed, its disk fills up.

``TRILAT_KILLS=50 pytest tests/middleware/test_service_journals.py`` kills 50 workers.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pytest

from trilat.agent.layout import SERVED, Kind, ServedFlag
from trilat.agent.samples import read_samples
from trilat.agent.segment import journal_files, read_segment

KILLS = int(os.environ.get("TRILAT_KILLS", "5"))
_USERS = 4
_BETWEEN_KILLS = 300  # answers
_WITHIN_S = 60.0


class Load:
    """A few users that send requests, each with a span of its own, until they are stopped.

    Attributes:
        asked: spans of the requests that were sent.
        answered: those whose answer came whole.
        pid: of the worker that answered last.
    """

    def __init__(self, port: int) -> None:
        self.asked: set[int] = set()
        self.answered: set[int] = set()
        self.pid = 0
        self._port = port
        self._spans = count(1)
        self._stop = Event()
        self._users = [Thread(target=self._use) for _ in range(_USERS)]

    @contextmanager
    def running(self) -> Iterator[Load]:
        """Load while the block lasts."""
        for user in self._users:
            user.start()
        try:
            yield self
        finally:
            self._stop.set()
            for user in self._users:
                user.join()

    def wait_for(self, answers: int) -> None:
        """Wait for so many answers more."""
        wanted = len(self.answered) + answers
        gives_up = time.monotonic() + _WITHIN_S
        while len(self.answered) < wanted:
            assert time.monotonic() < gives_up, f"{len(self.answered)} of {wanted} answers"
            time.sleep(0.005)

    def _use(self) -> None:
        while not self._stop.is_set():
            connection = HTTPConnection("127.0.0.1", self._port, timeout=_WITHIN_S)
            with suppress(OSError, HTTPException):
                self._use_connection(connection)
            connection.close()

    def _use_connection(self, connection: HTTPConnection) -> None:
        while not self._stop.is_set():
            span = next(self._spans)
            self.asked.add(span)
            connection.request("GET", "/", headers={"traceparent": f"00-{1:032x}-{span:016x}-01"})
            response = connection.getresponse()
            body = response.read()
            if response.status == 200:
                self.answered.add(span)
                self.pid = int(body)


def _journaled(folder: Path) -> list[int]:
    """The spans of all records in a folder, each file read as it is."""
    spans = []
    for path in journal_files(folder):
        raw = read_segment(path).records
        spans += [
            SERVED.struct.unpack_from(raw, at)[5]
            for at in range(0, len(raw), SERVED.size)
            if raw[at] == Kind.SERVED
        ]
    return spans


def _kill(parent: int, worker: int) -> None:
    """Kill a worker, unless it is gone already."""
    for child in psutil.Process(parent).children():
        if child.pid == worker:
            child.kill()


def test_killed_workers_leave_every_request_that_was_answered(
    served: Callable[..., AbstractContextManager[Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``kill -9`` in full flight, again and again: what a client has been told is on record."""
    monkeypatch.setenv("JOURNAL", str(tmp_path))
    with served("uvicorn", "journaling_app:app", "--workers", "2") as service:
        with Load(service.port).running() as load:
            for _ in range(KILLS):
                load.wait_for(_BETWEEN_KILLS)
                _kill(service.pid, load.pid)
                _journaled(tmp_path)  # can be read at any time
            load.wait_for(_BETWEEN_KILLS)
        spans = _journaled(tmp_path)
    assert len(load.answered) >= KILLS * _BETWEEN_KILLS
    assert not load.answered - set(spans)
    with_span = [span for span in spans if span]
    assert len(with_span) == len(set(with_span))
    assert len({path.name.rpartition("-")[0] for path in journal_files(tmp_path)}) > 2


def test_request_that_the_server_cancels_at_its_end_is_on_record(
    served: Callable[..., AbstractContextManager[Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server may leave by the signal that ended it: what was in flight is kept before that."""
    monkeypatch.setenv("JOURNAL", str(tmp_path))
    options = ("--timeout-graceful-shutdown", "1")
    with served("uvicorn", "journaling_app:app", *options) as service:
        connection = HTTPConnection("127.0.0.1", service.port, timeout=_WITHIN_S)
        connection.request("GET", "/forever", headers={"traceparent": f"00-{1:032x}-{7:016x}-01"})
        with connection.getresponse() as answer:
            assert answer.status == 200
            process = psutil.Process(service.pid)
            process.terminate()
            process.wait(_WITHIN_S)
        connection.close()
    (path,) = journal_files(tmp_path)
    record = SERVED.struct.unpack_from(read_segment(path).records, 2 * SERVED.size)
    found = dict(zip((field.name for field in SERVED.fields), record, strict=True))
    assert found["span"] == 7
    assert ServedFlag(found["flags"]) & ServedFlag.UNFINISHED
    (samples,) = tmp_path.glob("*.jsonl")
    assert read_samples(samples).lines[-1]["requests"] == found["commit"] - 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a few files of a journal."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "trilat-test", tmp_path],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting a file system needs more rights")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_full_disk_under_load_fails_no_request(
    start_service: Callable[..., AbstractContextManager[Any]],
    small_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every request is answered, one line says what happened, and what is on disk stays."""
    monkeypatch.setenv("JOURNAL", str(small_disk))
    app = Path(__file__).parent / "journaling_app.py"
    with start_service(app) as service:
        with Load(service.port).running() as load:
            load.wait_for(4_000)
        spans = _journaled(small_disk)
        log = service.log.read_text()
    assert load.asked == load.answered
    assert log.count("no journal on disk, going on in memory") == 1
    assert "Traceback" not in log
    assert 1_000 < len(spans) < len(load.answered)
    assert set(spans) <= load.answered
