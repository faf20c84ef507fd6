"""Workers: processes that are one service, and the sum of what they counted."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from trilat.agent.counters import Counters
from trilat.agent.families import HTTP
from trilat.agent.processes import ProcessId, find_process
from trilat.agent.series import read_counters
from trilat.agent.statedir import is_held
from trilat.agent.workers import WorkerGroup, parent_of_workers, service_group

SCRIPT = Path(__file__).with_name("worker_process.py")


class Worker:
    """A process of the service."""

    def __init__(self, base: Path, parent: ProcessId) -> None:
        command = [sys.executable, str(SCRIPT), str(base), *map(str, parent)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.path = Path(self.process.stdout.readline().split()[1])

    def tell(self, command: str) -> str:
        """Its answer to a command."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def sum(self) -> tuple[int, int, int]:
        """Requests, workers and requests in flight of the whole service."""
        requests, workers, in_flight = map(int, self.tell("sum").split())
        return requests, workers, in_flight

    def kill(self) -> None:
        """`kill -9`, and wait for the end."""
        self.process.kill()
        self.process.communicate()


Start = Callable[[], Worker]


@pytest.fixture
def parent() -> ProcessId:
    """The parent of the workers: these tests."""
    found = find_process(os.getpid())
    assert found is not None
    return found


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Where processes find each other."""
    return tmp_path / "state"


@pytest.fixture
def start(base: Path, parent: ProcessId) -> Iterator[Start]:
    """Starts workers, and ends them after the test."""
    started: list[Worker] = []

    def start_one() -> Worker:
        started.append(Worker(base, parent))
        return started[-1]

    yield start_one
    for worker in started:
        worker.kill()


def files(worker: Worker) -> list[str]:
    """What the service keeps on disk, without the numbers in the names."""
    return sorted(path.name.split("-")[0] for path in worker.path.parent.iterdir())


def test_any_worker_tells_the_sum(start: Start) -> None:
    """Counts and gauges of living workers add up, whichever is asked."""
    first, second = start(), start()
    first.tell("3")
    second.tell("4")
    first.tell("gauge")
    assert first.sum() == second.sum() == (7, 2, 1)


def test_counts_of_the_killed_stay(start: Start) -> None:
    """After `kill -9` counts are kept, gauges forgotten, and the file is folded into one."""
    workers = [start() for _ in range(3)]
    for worker in workers:
        worker.tell("5")
        worker.tell("gauge")
    assert workers[0].sum() == (15, 3, 3)
    workers[1].kill()
    workers[2].kill()
    assert workers[0].sum() == (15, 1, 1)
    assert files(workers[0]) == ["departed.counters", "lock", "worker"]
    workers[0].kill()
    successor = start()
    successor.tell("1")
    assert successor.sum() == (16, 1, 0)
    assert files(successor) == ["departed.counters", "lock", "worker"]


def test_asking_costs_the_same_after_many_have_ended(
    base: Path, parent: ProcessId, start: Start
) -> None:
    """However many workers there were, two files are read."""
    worker = start()
    worker.tell("1")
    name = worker.path.name.split("-")
    for number in range(150):
        name[2:] = ["4194305", str(number), f"{number:08x}.counters"]  # a number never given out
        counters = Counters(worker.path.with_name("-".join(name)), size=64 * 1024)
        counters.view[counters.block(HTTP, ("GET", f"/{number % 7}", "200"))] += 2
    assert worker.sum() == (301, 1, 0)
    assert files(worker) == ["departed.counters", "lock", "worker"]
    assert worker.sum() == (301, 1, 0)


@pytest.mark.parametrize("moment", ["die-writing", "die-folding"])
def test_a_kill_while_folding_counts_nothing_twice(start: Start, moment: str) -> None:
    """One is killed before the new sum is in its place, or before files that are in it are gone."""
    first, second, third = start(), start(), start()
    for worker in (first, second, third):
        worker.tell("10")
    first.kill()
    second.tell(moment)
    assert second.process.wait() == -signal.SIGKILL
    assert first.path.exists()
    assert ("departed.counters" in files(third)) == (moment == "die-folding")
    assert third.sum() == (30, 1, 0)
    assert files(third) == ["departed.counters", "lock", "worker"]
    assert third.sum() == (30, 1, 0)


def test_what_was_folded_is_never_read_again(start: Start) -> None:
    """A file that could not be removed is known to be counted, however often one asks."""
    first, second = start(), start()
    first.tell("10")
    first.kill()
    raw = first.path.read_bytes()
    assert second.sum() == (10, 1, 0)
    first.path.write_bytes(raw)
    third = start()
    third.kill()
    assert second.sum() == (10, 1, 0)


def test_the_sum_never_goes_backwards_while_workers_come_and_go(start: Start) -> None:
    """Asked again and again by two while others are killed, the sum only grows."""
    asked = [start(), start()]
    counted = seen = 0
    for number in range(6):
        worker = start()
        worker.tell(str(number))
        counted += number
        worker.process.kill()
        for one in asked:
            requests, _, _ = one.sum()
            assert seen <= requests == counted
            seen = requests
        worker.kill()


def test_services_do_not_mix(base: Path, start: Start) -> None:
    """Workers of another parent are another service."""
    mine = start()
    mine.tell("3")
    other = Worker(base, ProcessId(1, 0))
    other.tell("4")
    assert mine.sum() == (3, 1, 0)
    assert other.sum() == (4, 1, 0)
    other.kill()


def test_a_service_that_has_ended_is_removed(base: Path, start: Start) -> None:
    """The directory of a service goes when parent and workers have ended, not before."""
    gone = ProcessId(4_194_305, 7)
    ended = Worker(base, gone)
    ended.tell("1")
    alive = start()
    assert ended.path.exists()
    ended.kill()
    start()
    assert not ended.path.parent.exists()
    assert alive.path.exists()


def test_workers_are_kept_while_their_parent_lives(start: Start) -> None:
    """Between the end of the last worker and the start of the next one nothing is lost."""
    first = start()
    first.tell("2")
    first.kill()
    assert start().sum() == (2, 1, 0)


def test_another_container_is_judged_by_its_locks(base: Path, start: Start) -> None:
    """Numbers of processes mean nothing there: what is held lives, what is old has ended."""
    worker = start()
    parts = worker.path.parent.name.split("-")
    theirs = base / "-".join([parts[0], "1", *parts[2:]])
    worker.path.parent.rename(theirs)
    moved = theirs / worker.path.name
    moved = moved.rename(theirs / worker.path.name.replace(f"-{parts[1]}-", "-1-"))
    os.utime(theirs, (0, 0))
    start()
    assert moved.exists()
    worker.kill()
    os.utime(theirs, (0, 0))
    start()
    assert not theirs.exists()


def test_a_file_without_a_header_is_cleared_away(start: Start) -> None:
    """One that was killed while it made its file counted nothing."""
    first, second = start(), start()
    second.tell("1")
    first.kill()
    first.path.write_bytes(b"\0" * 4096)
    assert second.sum() == (1, 1, 0)
    assert not first.path.exists()


def test_damaged_counts_of_the_ended_are_given_up(start: Start) -> None:
    """Where the file of the ended cannot be read, the living are still counted."""
    first, second = start(), start()
    second.tell("1")
    (second.path.parent / "departed.counters").write_bytes(b"damaged")
    assert second.sum() == (1, 2, 0)
    first.tell("5")
    first.kill()
    assert second.sum() == (6, 1, 0)


def test_enter_gives_the_same_counters(base: Path) -> None:
    """A process has one file, which says whose it is; it is the process' service from then on."""
    group = WorkerGroup(base)
    before = group.counters, service_group()
    counters = group.enter({"instance": 5})
    assert before[0] is None
    assert before[1] is not group
    assert group.enter() is counters
    assert group.counters is counters
    assert service_group() is group
    assert counters.path is not None
    facts = read_counters(counters.path).facts
    assert facts["pid"] == os.getpid()
    assert facts["instance"] == 5
    assert group.snapshot().workers == 1


def test_a_child_does_not_live_for_its_parent(base: Path) -> None:
    """After a fork the child has no counters, and no lock, until it enters itself."""
    code = """
import os, sys
from pathlib import Path
from trilat.agent.workers import WorkerGroup, service_group
group = WorkerGroup(Path(sys.argv[1]))
counters = group.enter()
reader, writer = os.pipe()
if not os.fork():
    print(group.counters is None, service_group() is not group, flush=True)
    print(group.enter().path != counters.path, group.snapshot().workers, flush=True)
    os.write(writer, b"x")
    sys.stdin.read()
    os._exit(0)
os.read(reader, 1)
print(group.counters is counters, service_group() is group, flush=True)
"""
    command = [sys.executable, "-c", code, str(base)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(3)]
        assert told == ["True True\n", "True 1\n", "True True\n"]
        process.wait()
        (path,) = base.glob(f"*/worker-*-{process.pid}-*")
        assert not is_held(path)  # though its child lives on


def test_own_counts_survive_those_who_clear_up(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that somebody removed still counts here; what is used is dated once an hour."""
    group = WorkerGroup(base)
    counters = group.enter()
    counters.view[counters.block(HTTP, ("GET", "/", "200"))] += 9
    assert counters.path is not None
    os.utime(counters.path, (0, 0))
    group.snapshot()
    assert counters.path.stat().st_mtime == 0
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + 4000)
    group.snapshot()
    assert counters.path.stat().st_mtime > 0
    counters.path.unlink()
    series, workers = group.snapshot()
    assert workers == 1
    assert sum(one.numbers[0] for one in series) == 9


def test_without_a_directory_a_worker_tells_of_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the directory is refused there is one warning, and the counts of one process."""
    (tmp_path / "file").touch()
    group = WorkerGroup(tmp_path / "file")
    with caplog.at_level(logging.WARNING):
        counters = group.enter()
        assert not counters.shared
        assert len(caplog.records) == 1
        counters.view[counters.block(HTTP, ("GET", "/", "200"))] += 1
        series, workers = group.snapshot()
    assert (sum(one.numbers[0] for one in series), workers) == (1, 1)


def test_a_lock_that_nobody_frees_does_not_stop_a_service(
    base: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that was stopped while it held the lock costs others their sum, no more."""
    code = (
        "import sys; from pathlib import Path; from trilat.agent.statedir import hold;"
        " hold(Path(sys.argv[1])); print('held', flush=True); input()"
    )
    base.mkdir(mode=0o700)
    (base / "lock").touch()
    command = [sys.executable, "-c", code, str(base / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with caplog.at_level(logging.WARNING):
            assert not WorkerGroup(base).enter().shared
        holder.kill()
    assert len(caplog.records) == 1


def test_before_entering_one_can_ask(base: Path, start: Start, parent: ProcessId) -> None:
    """A process of the service that counts nothing itself tells the others' sum."""
    assert WorkerGroup(base, parent=parent).snapshot() == ([], 0)
    start().tell("2")
    series, workers = WorkerGroup(base, parent=parent).snapshot()
    assert (sum(one.numbers[0] for one in series), workers) == (2, 1)


def test_workers_of_gunicorn_are_one_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of gunicorn goes by its parent; a process alone by itself."""
    assert parent_of_workers() == find_process(os.getpid())
    monkeypatch.setitem(sys.modules, "gunicorn.arbiter", ModuleType("gunicorn.arbiter"))
    assert parent_of_workers() == find_process(os.getppid())


def test_children_of_multiprocessing_are_one_service(tmp_path: Path) -> None:
    """Children that `multiprocessing` started, forked or spawned, go by the same parent."""
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, os\n"
        "from trilat.agent.workers import parent_of_workers\n"
        "def tell(queue):\n"
        "    queue.put(parent_of_workers().pid)\n"
        "if __name__ == '__main__':\n"
        "    found = [parent_of_workers().pid]\n"
        "    for method in ('fork', 'spawn'):\n"
        "        context = multiprocessing.get_context(method)\n"
        "        queue = context.Queue()\n"
        "        child = context.Process(target=tell, args=(queue,))\n"
        "        child.start()\n"
        "        found.append(queue.get())\n"
        "        child.join()\n"
        "    print(set(found) == {os.getpid()})\n",
        encoding="utf-8",
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\n"
