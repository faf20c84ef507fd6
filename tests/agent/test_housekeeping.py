"""What is cleared up after processes of a service that ended, and what is left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trilat.agent import housekeeping
from trilat.agent.files import open_regular, try_lock, unlock
from trilat.agent.housekeeping import process_facts, tidy, tidy_beside
from trilat.agent.journal import JournalWriter
from trilat.agent.layout import SERVED
from trilat.agent.samples import SampleWriter, read_samples
from trilat.agent.segment import HEADER_SIZE, read_head, read_segment

MUCH = 2**40
RESERVED = 20_000
WHOLE = HEADER_SIZE + 5 * SERVED.size
DAY_S = 24 * 3600
NOW = time.time_ns()

BEGINS_AND_WAITS = """
import os, sys
from pathlib import Path
from trilat.agent.housekeeping import process_facts
from trilat.agent.journal import JournalWriter
from trilat.agent.layout import SERVED
from trilat.agent.samples import SampleWriter

directory = Path(sys.argv[1])
facts = {"side": "service", **process_facts()}
writer = JournalWriter(
    directory, "service-x", facts, layout=SERVED, segment_bytes=20_000, keep_new=False
)
for number in range(300):
    writer.append(3, 0, 0, number, number, number, 0, *[number] * 8, number, 0, 1, 200, 0)
samples = SampleWriter(directory / "service-x.jsonl", facts)
samples.write("vitals", {})
print("begun", flush=True)
sys.stdin.read()
for number in range(300):
    writer.append(3, 0, 0, number, number, number, 0, *[number] * 8, number, 0, 1, 200, 0)
samples.write("vitals", {})
print("written", flush=True)
sys.stdin.close()
os._exit(0)
"""


@contextmanager
def _process(directory: Path, *before: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has begun files and goes on writing when its stdin is closed."""
    command = [*before, sys.executable, "-c", BEGINS_AND_WAITS, str(directory)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "begun\n"
            yield process
        finally:
            process.kill()


def _goes_on(process: subprocess.Popen[str]) -> None:
    """The process writes again, into what it has mapped."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdin = None
    assert process.stdout.readline() == "written\n"


def _state(directory: Path) -> dict[str, tuple[int, int]]:
    """Size and time of the last change of each file."""
    found = {path.name: path.lstat() for path in directory.iterdir()}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in found.items()}


@pytest.fixture(scope="module")
def ended() -> Mapping[str, Any]:
    """Facts of a process of this host that has ended."""
    code = (
        "import json; from trilat.agent.housekeeping import process_facts;"
        " print(json.dumps({'side': 'service', **process_facts()}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    facts: Mapping[str, Any] = json.loads(ran.stdout)
    return facts


def _leave(directory: Path, stem: str, facts: Mapping[str, Any], age_s: float = 0.0) -> Path:
    """A journal of five records at its reserved length, as a killed process leaves it."""
    writer = JournalWriter(
        directory, stem, facts, layout=SERVED, segment_bytes=RESERVED, keep_new=False
    )
    for _ in range(5):
        writer.append(3, *[0] * 19)
    writer.close()
    path = directory / f"{stem}-000001.trilat"
    os.truncate(path, RESERVED)
    _date(path, age_s)
    return path


def _date(path: Path, age_s: float) -> None:
    changed_ns = NOW - round(age_s * 1e9)
    os.utime(path, ns=(changed_ns, changed_ns), follow_symlinks=False)


def _tidy(directory: Path, max_bytes: int = MUCH, max_age_s: float = DAY_S) -> None:
    tidy(directory, max_bytes=max_bytes, max_age_s=max_age_s)


def test_files_of_a_killed_process_are_cut_and_keep_their_age(tmp_path: Path) -> None:
    """After ``kill -9``: not a record less, no reserved room, and none younger than it was."""
    with _process(tmp_path) as process:
        process.kill()
        process.wait()
    path = max(tmp_path.glob("*.trilat"))
    records, before = read_segment(path).records, path.stat()
    assert HEADER_SIZE + len(records) < before.st_size
    _tidy(tmp_path)
    assert read_segment(path).records == records
    assert path.stat().st_size == HEADER_SIZE + len(records)
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert len(read_samples(tmp_path / "service-x.jsonl").lines) == 1
    _tidy(tmp_path, max_bytes=0)
    assert not list(tmp_path.iterdir())


def test_files_of_a_living_process_stay_whatever_the_bounds(tmp_path: Path) -> None:
    """Neither too old nor too many: its open file, its full ones and its samples."""
    with _process(tmp_path) as process:
        for path in tmp_path.iterdir():
            _date(path, 10 * DAY_S)
        before = _state(tmp_path)
        assert len(before) > 2
        _tidy(tmp_path, max_bytes=0, max_age_s=0)
        assert _state(tmp_path) == before
        _goes_on(process)


def _has_namespaces() -> bool:
    try:
        ran = subprocess.run(
            ["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False
        )
    except FileNotFoundError:
        return False
    return ran.returncode == 0


def test_files_of_a_process_of_another_container_stay_while_it_lives(tmp_path: Path) -> None:
    """Its number means nothing here, and cutting what it has mapped would end it."""
    if not _has_namespaces():
        pytest.skip("making a namespace needs more rights")
    container = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    with _process(tmp_path, *container) as process:
        facts = read_head(min(tmp_path.glob("*.trilat"))).facts
        assert facts["pid"] == 1
        before = _state(tmp_path)
        _tidy(tmp_path, max_bytes=0, max_age_s=0)
        assert _state(tmp_path) == before
        _goes_on(process)
        process.wait()
    _tidy(tmp_path)
    for path in tmp_path.glob("*.trilat"):
        assert path.stat().st_size == read_head(path).written_bytes
    _tidy(tmp_path, max_bytes=0)
    assert not list(tmp_path.iterdir())


def test_a_number_that_was_given_out_again_is_another_process(
    tmp_path: Path, ended: Mapping[str, Any]
) -> None:
    """This process has the number of the one that wrote, but began at another time."""
    mine = process_facts()
    assert mine["process_start"]
    path = _leave(tmp_path, "service-a", {**ended, **mine, "process_start": 1})
    living = _leave(tmp_path, "service-b", {**ended, **mine})
    unsure = _leave(tmp_path, "service-c", {**ended, **mine, "process_start": None})
    _tidy(tmp_path)
    assert [p.stat().st_size for p in (path, living, unsure)] == [WHOLE, RESERVED, RESERVED]


def test_what_is_too_old_goes(tmp_path: Path, ended: Mapping[str, Any]) -> None:
    """By the time of the last change; a cut is none."""
    old = _leave(tmp_path, "service-a", ended, age_s=DAY_S + 3600)
    young = _leave(tmp_path, "service-b", ended, age_s=DAY_S - 3600)
    _tidy(tmp_path)
    assert not old.exists()
    assert young.stat().st_size == WHOLE


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(ages=st.lists(st.integers(0, 1000), max_size=5), files=st.integers(0, 6))
def test_the_oldest_go_until_the_rest_fits(
    tmp_path_factory: pytest.TempPathFactory,
    ended: Mapping[str, Any],
    ages: list[int],
    files: int,
) -> None:
    """As few as it takes, and none that is younger than one that stays; living ones count."""
    folder = tmp_path_factory.mktemp("journals")
    living = _leave(folder, "service-living", {**ended, **process_facts()}, age_s=2000)
    paths = [_leave(folder, f"service-{at}", ended, age) for at, age in enumerate(ages)]
    _tidy(folder, max_bytes=RESERVED + files * WHOLE)
    assert living.stat().st_size == RESERVED
    left = [age for path, age in zip(paths, ages, strict=True) if path.exists()]
    assert sorted(left) == sorted(ages)[:files]


def test_files_of_another_host_wait_an_hour(tmp_path: Path, ended: Mapping[str, Any]) -> None:
    """Nobody here can tell whether it runs, but it would have written samples."""
    host = ended["host"] ^ 1
    fresh = _leave(tmp_path, "service-a", {**ended, "host": host}, age_s=3000)
    quiet = _leave(tmp_path, "service-b", {**ended, "host": host}, age_s=4000)
    sampled = _leave(tmp_path, "service-c", {**ended, "host": host}, age_s=4000)
    SampleWriter(tmp_path / "service-c.jsonl", {**ended, "host": host}).close()
    held = _leave(tmp_path, "service-d", {**ended, "host": host}, age_s=4000)
    with open_regular(held) as file:
        assert try_lock(file.fileno())
        _tidy(tmp_path)
    assert [p.stat().st_size for p in (fresh, quiet, sampled, held)] == [
        RESERVED,
        WHOLE,
        RESERVED,
        RESERVED,
    ]


def test_without_locks_numbers_decide_and_else_the_hour(
    tmp_path: Path, ended: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are file systems without them."""

    def refuse(_: int, *, shared: bool = False) -> bool:
        raise OSError(f"no locks available, shared: {shared}")

    monkeypatch.setattr(housekeeping, "try_lock", refuse)
    here = _leave(tmp_path, "service-a", ended)
    elsewhere = {**ended, "process_namespace": 1}
    fresh = _leave(tmp_path, "service-b", elsewhere, age_s=3000)
    quiet = _leave(tmp_path, "service-c", elsewhere, age_s=4000)
    _tidy(tmp_path)
    assert [p.stat().st_size for p in (here, fresh, quiet)] == [WHOLE, RESERVED, WHOLE]


def test_a_file_is_locked_as_long_as_it_is_written(tmp_path: Path) -> None:
    """The mapping keeps the lock, though the file was closed when it was made."""
    facts = {"side": "service", **process_facts()}
    writer = JournalWriter(tmp_path, "service-x", facts, layout=SERVED)
    samples = SampleWriter(tmp_path / "service-x.jsonl", facts)

    def free() -> list[bool]:
        free = []
        for path in sorted(tmp_path.iterdir()):
            with open_regular(path) as file:
                free.append(try_lock(file.fileno()))
        return free

    assert free() == [False, False]
    writer.close()
    samples.close()
    assert free() == [True, True]


def test_foreign_files_are_left_alone(tmp_path: Path, ended: Mapping[str, Any]) -> None:
    """Other names, other kinds of file, other sides, damaged headers: whatever their age."""
    _leave(tmp_path, "generator-a", ended)
    _leave(tmp_path, "service-b", {**ended, "side": "generator"})
    _leave(tmp_path, "service-c", {**ended, "pid": 0})
    _leave(tmp_path, "service-d", {**ended, "host": "web-1"})
    (tmp_path / "service-e-000001.trilat").write_bytes(b"notes of mine")
    (tmp_path / "service-f.jsonl").write_bytes(b'{"schema": "other/1"}\n')
    (tmp_path / "service-g-000001.trilat").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"mine")
    os.mkfifo(tmp_path / "service-h-000001.trilat")
    (tmp_path / "service-i-000001.trilat").mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    target = _leave(outside, "service-j", ended)
    (tmp_path / target.name).symlink_to(target)
    for path in tmp_path.iterdir():
        _date(path, 10 * DAY_S)
    before = _state(tmp_path), _state(outside)
    _tidy(tmp_path, max_bytes=0, max_age_s=0)
    assert (_state(tmp_path), _state(outside)) == before


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=4,
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    facts=st.dictionaries(
        st.sampled_from(["host", "pid", "process_start", "process_namespace", "side"]), _JSON
    ),
    tail=st.binary(max_size=50),
)
def test_hostile_headers_raise_nothing_and_end_nobody(
    tmp_path_factory: pytest.TempPathFactory, facts: dict[str, Any], tail: bytes
) -> None:
    """Any facts and any bytes; the files of this living process beside them stay."""
    folder = tmp_path_factory.mktemp("hostile")
    own = _leave(folder, "service-own", {"side": "service", **process_facts()})
    line = json.dumps({"schema": "trilat.samples/1", "side": "service", **facts}).encode()
    (folder / "service-x.jsonl").write_bytes(line + b"\n" + tail)
    (folder / "service-y.jsonl").write_bytes(tail)
    _leave(folder, "service-z", {"side": "service", **facts})
    _tidy(folder, max_bytes=0, max_age_s=0)
    assert own.stat().st_size == RESERVED


def test_a_directory_that_is_missing_or_locked_away_raises_nothing(
    tmp_path: Path, ended: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever begins says by himself what is wrong with his directory."""
    _tidy(tmp_path / "missing")
    path = _leave(tmp_path, "service-a", ended)
    _tidy(path)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "unlink", refuse)
    monkeypatch.setattr(os, "ftruncate", refuse)
    _tidy(tmp_path, max_bytes=0)
    assert path.stat().st_size == RESERVED


def test_nobody_waits_for_it(
    tmp_path: Path, ended: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event loop goes on while a full directory is looked through."""
    path = _leave(tmp_path, "service-a", ended)
    goes_on, done = threading.Event(), threading.Event()

    def waiting(directory: Path, **bounds: Any) -> None:
        goes_on.wait()
        tidy(directory, **bounds)
        done.set()

    monkeypatch.setattr(housekeeping, "tidy", waiting)
    tidy_beside(tmp_path, max_bytes=MUCH, max_age_s=DAY_S)
    assert path.stat().st_size == RESERVED
    goes_on.set()
    assert done.wait(60)
    assert path.stat().st_size == WHOLE


def test_a_failure_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of whatever kind: nothing reaches who began, and the log tells of it."""

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    def run_here(run: Callable[[], None]) -> None:
        run()

    monkeypatch.setattr(housekeeping, "tidy", fail)
    with monkeypatch.context() as patch:
        patch.setattr("trilat.agent.native.start_thread", run_here)
        tidy_beside(tmp_path, max_bytes=MUCH, max_age_s=DAY_S)

    def refuse(_: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("trilat.agent.native.start_thread", refuse)
    tidy_beside(tmp_path, max_bytes=MUCH, max_age_s=DAY_S)
    assert [record.message for record in caplog.records] == [
        f"{tmp_path}: old files stay: clearing up failed",
        f"{tmp_path}: old files stay: can't start new thread",
    ]


def test_a_lock_that_is_given_back_is_free_in_forks_too(tmp_path: Path) -> None:
    """A fork has a copy of the descriptor, and would hold the lock as long as it lives."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    copy, other = os.dup(descriptor), os.open(tmp_path, os.O_RDONLY)
    try:
        assert try_lock(descriptor)
        assert not try_lock(other)
        unlock(descriptor)
        assert try_lock(other)
    finally:
        for each in (descriptor, copy, other):
            os.close(each)


def test_workers_that_begin_at_once_clear_up_together(
    tmp_path: Path, ended: Mapping[str, Any]
) -> None:
    """None fails because another was quicker, and together they do what one would."""
    for number in range(20):
        _leave(tmp_path, f"service-{number:02}", ended, age_s=1000 - number)
    with ThreadPoolExecutor(4) as pool:
        for begun in [pool.submit(_tidy, tmp_path, 5 * WHOLE) for _ in range(4)]:
            begun.result()
    _tidy(tmp_path, 5 * WHOLE)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [f"service-{number}-000001.trilat" for number in range(15, 20)]
