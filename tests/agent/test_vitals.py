"""The figures of a process, its control group and its host."""

from __future__ import annotations

import gc
import os
import resource
import shutil
import socket
import threading
import time
from pathlib import Path

import psutil
import pytest

from trilat.agent.clock import Clock
from trilat.agent.process import KernelProcess, PortableProcess
from trilat.agent.procfs import Paced, read_file, whole
from trilat.agent.vitals import VITALS, Vitals

FAKE = Path(__file__).with_name("fake_proc")
S = 1_000_000_000


class Hands:
    """A clock that stands still until it is turned."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.clock = Clock(lambda: self.now_ns, lambda: self.now_ns)

    def turn(self, seconds: float) -> None:
        """Go on by this much."""
        self.now_ns += round(seconds * S)


@pytest.fixture
def hands() -> Hands:
    """A clock in the test's hands."""
    return Hands()


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A made-up ``proc`` and ``cgroup2`` that may be changed."""
    shutil.copytree(FAKE, tmp_path / "system")
    (tmp_path / "system/proc/self/fd").mkdir()
    for number in range(5):
        (tmp_path / f"system/proc/self/fd/{number}").symlink_to("/dev/null")
    return tmp_path / "system"


def test_figures_of_a_made_up_system(system: Path, hands: Hands) -> None:
    """Each figure stands under its key, in its unit."""
    vitals = Vitals(system / "proc", system / "cgroup2", clock=hands.clock)
    hands.turn(1)
    figures = vitals.read()
    vitals.close()
    assert figures.keys() == VITALS.keys()
    assert vitals.failures == 0
    assert figures["rss_bytes"] == 60_000 * 1024
    assert figures["rss_peak_bytes"] == 61_000 * 1024
    assert figures["uss_bytes"] == 41_000 * 1024
    assert figures["threads"] == 7
    assert figures["fds"] == 4  # a listing of them is one itself
    assert figures["steal_s"] == 9.0
    assert figures["host_cpu_percent"] == [None, None]  # nothing has moved
    assert figures["throttled_s"] == 1.5
    assert figures["throttled_ms"] == 0
    assert figures["memory_limit_bytes"] == 512 * 2**20
    assert figures["listeners"] == []


def test_what_is_relative_is_relative_to_the_last_reading(system: Path, hands: Hands) -> None:
    """Processors and throttling tell what happened since then, totals go on."""
    vitals = Vitals(system / "proc", system / "cgroup2", clock=hands.clock)
    hands.turn(60)
    vitals.read()
    hands.turn(60)
    (system / "proc/stat").write_text(
        "cpu0 1050 100 500 8050 400\ncpu1 2000 0 1000 10090 0 50 50 910\n"
    )
    inner = system / "cgroup2/app.slice/web.service/cpu.stat"
    inner.write_text("throttled_usec 1750000\n")
    figures = vitals.read()
    vitals.close()
    assert figures["host_cpu_percent"] == [50.0, 10.0]
    assert figures["steal_percent"] == 5.0
    assert (figures["throttled_ms"], figures["throttled_s"]) == (250.0, 1.75)


def test_the_process_is_this_one() -> None:
    """On this system the figures are those that psutil and getrusage tell."""
    vitals = Vitals()
    figures = vitals.read()
    vitals.close()
    assert figures["rss_bytes"] == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    assert figures["rss_peak_bytes"] >= 0.9 * figures["rss_bytes"]
    assert figures["threads"] >= 1
    assert figures["fds_limit"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert len(figures["host_cpu_percent"]) >= len(os.sched_getaffinity(0))
    used = resource.getrusage(resource.RUSAGE_SELF)
    assert 0 < figures["cpu_user_s"] <= round(used.ru_utime, 6)
    assert 0 <= figures["switches_involuntary"] <= used.ru_nivcsw
    assert vitals.failures == 0


def test_a_process_that_computes_uses_cpu() -> None:
    """CPU time of a thread that is not the main one counts too."""
    vitals = Vitals()
    began = time.process_time()

    def compute() -> None:
        while time.process_time() < began + 0.05:
            pass

    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    figures = vitals.read()
    vitals.close()
    assert figures["cpu_percent"] > 0


def test_open_files_are_counted() -> None:
    """One more open file is one more, however this kernel tells it."""
    process = KernelProcess()
    gc.collect()  # which may close what other tests left open
    gc.disable()
    try:
        before = process.read().fds
        with Path(os.devnull).open("rb"):
            during = process.read().fds
        after = process.read().fds
    finally:
        gc.enable()
    assert before is not None
    assert (during, after) == (before + 1, before)


def test_collections_since_the_last_reading() -> None:
    """Garbage collections are told once, and added up."""
    vitals = Vitals()
    gc.disable()
    try:
        vitals.read()
        gc.collect()
        gc.collect()
        figures, after = vitals.read(), vitals.read()
    finally:
        gc.enable()
        vitals.close()
    assert (figures["gc_pauses"], after["gc_pauses"]) == (2, 0)
    assert 0 < figures["gc_pause_max_ms"] <= figures["gc_pause_ms"]
    assert (after["gc_pause_ms"], after["gc_pause_max_ms"]) == (0, 0)
    assert after["gc_pauses_total"] >= 2
    assert after["gc_pause_total_ns"] >= figures["gc_pause_ms"] * 1e6 - 1000


def test_what_is_slow_to_read_is_left_out_where_asked() -> None:
    """A service's listening sockets are told; a generator does not look for any."""
    with socket.create_server(("127.0.0.1", 0), backlog=9) as server:
        asking, other = Vitals(), Vitals(thorough=False)
        told, less = asking.read()["listeners"], other.read()
        assert (less["listeners"], less["uss_bytes"]) == (None, None)
        asking.close()
        other.close()
        address = f"127.0.0.1:{server.getsockname()[1]}"
    assert {"address": address, "queue": 0, "limit": 9} in told


def test_without_proc_psutil_is_asked(tmp_path: Path) -> None:
    """As on macOS: what psutil knows is there, the rest is None, and nothing fails."""
    vitals = Vitals(tmp_path, tmp_path)
    figures = vitals.read()
    vitals.close()
    assert figures.keys() == VITALS.keys()
    assert vitals.failures == 0
    for name in ("cpu_user_s", "rss_bytes", "threads", "fds"):
        assert figures[name] > 0
    assert figures["switches_voluntary"] >= 0
    assert len(figures["host_cpu_percent"]) >= 1
    for name in ("uss_bytes", "throttled_s", "throttled_ms", "memory_limit_bytes", "listeners"):
        assert figures[name] is None


def test_both_ways_agree_on_this_process() -> None:
    """The figures of psutil and the kernel's are the same ones."""
    one, other = KernelProcess().read(), PortableProcess().read()
    assert one.threads == pytest.approx(other.threads, abs=3)  # another test's may end
    assert one.user_s == pytest.approx(other.user_s, abs=1)
    assert one.rss_bytes == pytest.approx(other.rss_bytes, rel=0.2)


@pytest.mark.parametrize("content", [b"", b"\xff\0\n", b"VmRSS: -5 kB\n", b"VmRSS:\n", b"9" * 9999])
def test_a_damaged_system_is_not_known(system: Path, hands: Hands, content: bytes) -> None:
    """Whatever the files hold, a reading has all keys and raises nothing."""
    for file in (system / "proc").rglob("*"):
        if file.is_file() and not file.is_symlink():
            file.write_bytes(content)
    vitals = Vitals(system / "proc", system / "cgroup2", clock=hands.clock)
    hands.turn(1)
    figures = vitals.read()
    assert figures.keys() == VITALS.keys()
    assert figures["rss_bytes"] is None
    shutil.rmtree(system)
    hands.turn(11)
    figures = vitals.read()
    vitals.close()
    assert figures.keys() == VITALS.keys()
    assert figures["threads"] is None


def test_a_slow_reading_is_repeated_rarely(hands: Hands) -> None:
    """What takes a millisecond is read once a second, what takes ten once in ten seconds."""
    times: list[float] = []

    def read() -> int:
        times.append(hands.now_ns / S)
        hands.turn(0.01)
        return len(times)

    paced = Paced(read, hands.clock, cost_ns=hands.clock.monotonic_ns)
    values = []
    for _ in range(25):
        values.append(paced())
        hands.turn(1)
    assert values[0] == values[9] == 1
    assert times == pytest.approx([0, 10.01, 20.02], abs=1)


def test_a_reading_that_is_far_too_slow_is_the_last_one(hands: Hands) -> None:
    """Its value is not shown either: it would grow old."""
    calls = []

    def read() -> int:
        calls.append(1)
        hands.turn(0.01)
        return 5

    paced = Paced(read, hands.clock, too_long_ns=2_000_000, cost_ns=hands.clock.monotonic_ns)
    for _ in range(5):
        assert paced() is None
        hands.turn(100)
    assert len(calls) == 1


def test_a_reading_that_fails_is_not_known_until_it_works(hands: Hands) -> None:
    """The error is the caller's; until the next reading is due the value is None."""
    answers: list[int | None] = [1, None, 3]

    def read() -> int:
        answer = answers.pop(0)
        if answer is None:
            raise OSError("gone")
        return answer

    paced = Paced(read, hands.clock, pause_ns=S, cost_ns=hands.clock.monotonic_ns)
    assert paced() == 1
    hands.turn(1)
    with pytest.raises(OSError, match="gone"):
        paced()
    assert paced() is None
    hands.turn(1)
    assert paced() == 3


def test_files_are_read_up_to_a_limit() -> None:
    """An endless file is cut, and what is not a count is an error."""
    assert 100 <= len(read_file("/dev/zero", 100)) <= 200
    for text in (b"", b"-1", b"+1", b" 1", b"1e3", b"9" * 21, "٣".encode()):
        with pytest.raises(ValueError, match="not a count"):
            whole(text)
    assert whole(b"007") == 7
