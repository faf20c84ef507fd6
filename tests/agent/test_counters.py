"""Counters: the numbers of one process in a file that others read."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trilat.agent.counters import MAX_BLOCKS, OTHER, Counters, clean_label
from trilat.agent.families import BLOCKED, BLOCKS, HTTP, PROCESS, WEBSOCKET, Block
from trilat.agent.series import Exemplar, Series, read_counters

if TYPE_CHECKING:
    from collections.abc import Iterator

DURATION_AT = HTTP.places["trilat_http_request_duration_seconds"]
GET_ITEM = ("GET", "/items/{item_id}", "200")
TRACE = b"4bf92f3577b34da6a3ce929d0e0e4736"
COUNTING = """
import sys
from pathlib import Path
from trilat.agent.counters import Counters
from trilat.agent.families import HTTP
counters = Counters(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    counters.view[counters.block(HTTP, ("GET", f"/{number % 50}", "200"))] += 1
    print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the counters go."""
    return tmp_path / "a.counters"


def used(series: list[Series]) -> dict[tuple[str, tuple[str, ...]], list[int]]:
    """The numbers of the blocks that something was counted in."""
    return {(one.block.name, one.labels): one.numbers for one in series if any(one.numbers)}


def test_what_is_counted_is_read_back(path: Path) -> None:
    """A reader finds the facts, and each number under its block and labels."""
    counters = Counters(path, {"pid": 7})
    at = counters.block(HTTP, GET_ITEM)
    counters.view[at + 2] += 5
    counters.view[counters.block(PROCESS, ())] = -3
    read = read_counters(path)
    assert read.facts == {"pid": 7}
    numbers = used(read.series)
    assert numbers["http", GET_ITEM] == [0, 0, 5, *[0] * (HTTP.slots - 3)]
    assert numbers["process", ()][0] == -3
    assert len(numbers) == 2
    assert read == counters.snapshot()


def test_a_block_has_one_place(path: Path) -> None:
    """The same labels lead to the same numbers, others to numbers that do not overlap."""
    counters = Counters(path)
    places = [counters.block(HTTP, ("GET", f"/{number}", "200")) for number in range(50)]
    assert places == [counters.block(HTTP, ("GET", f"/{n}", "200")) for n in range(50)]
    ordered = sorted([*places, counters.block(WEBSOCKET, ("/chat",))])
    assert all(b - a >= HTTP.slots for a, b in pairwise(ordered))


LABEL = st.text(max_size=220)


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.sampled_from([HTTP, WEBSOCKET, BLOCKED, PROCESS]).flatmap(
            lambda block: st.tuples(
                st.just(block),
                st.tuples(*[LABEL] * len(block.labels)),
                st.integers(0, block.slots - 1),
                st.integers(-(2**40), 2**40),
            )
        ),
        max_size=40,
    )
)
def test_any_labels_and_numbers_survive(
    tmp_path: Path, counted: list[tuple[Block, tuple[str, ...], int, int]]
) -> None:
    """Whatever the labels, each number is read back under them as they are kept."""
    path = tmp_path / f"{os.urandom(8).hex()}.counters"
    counters = Counters(path)
    expected: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for block, labels, place, number in counted:
        counters.view[counters.block(block, labels) + place] += number
        key = block.name, tuple(map(clean_label, labels))
        expected.setdefault(key, [0] * block.slots)[place] += number
    expected = {key: numbers for key, numbers in expected.items() if any(numbers)}
    assert used(read_counters(path).series) == expected
    path.unlink()


def test_labels_are_cut_and_made_printable(path: Path) -> None:
    """A label cannot grow a file or break a line; what looks the same is the same block."""
    counters = Counters(path)
    at = counters.block(WEBSOCKET, ("/a\n\0\x1b\ud800b",))
    assert at == counters.block(WEBSOCKET, ("/a\ufffd\ufffd\ufffd\ufffdb",))
    assert counters.block(WEBSOCKET, ("x" * 10_000,)) == counters.block(WEBSOCKET, ("x" * 200,))


def test_blocks_without_end_share_one(path: Path) -> None:
    """Beyond the limit of a kind all that is new is counted together, and nothing is lost."""
    counters = Counters(path)
    limit = MAX_BLOCKS["websocket"]
    for number in range(limit + 50):
        counters.view[counters.block(WEBSOCKET, (f"/{number}",)) + 1] += 1
    numbers = used(read_counters(path).series)
    assert len(numbers) == limit + 1
    assert numbers["websocket", (OTHER,)][1] == 50


def test_a_full_file_has_room_for_the_rest(path: Path) -> None:
    """Where the file is full, each kind still has the block that was reserved for it."""
    counters = Counters(path, size=64 * 1024)
    for number in range(100):
        counters.view[counters.block(HTTP, ("GET", f"/{number}", "200"))] += 1
    counters.view[counters.block(BLOCKED, ("a.py", "1" * 200, "f" * 200))] += 1
    series = read_counters(path).series
    assert sum(one.numbers[0] for one in series) == 101
    assert used(series)["http", (OTHER,) * 3][0] > 50
    assert counters.block(PROCESS, ()) > 0


def test_a_size_that_holds_nothing_is_refused(path: Path) -> None:
    """A file that cannot hold the reserved blocks is a mistake of the caller."""
    with pytest.raises(ValueError, match="do not hold"):
        Counters(path, size=17_000)
    with pytest.raises(ValueError, match="labels"):
        Counters(None).block(HTTP, ("GET",))
    with pytest.raises(ValueError, match="header"):
        Counters(None, {"long": "x" * 20_000})


def test_all_kinds_at_their_limit_fit(path: Path) -> None:
    """With labels of usual length the default size holds as many blocks as the limits allow."""
    counters = Counters(path)
    for name, limit in MAX_BLOCKS.items():
        block = BLOCKS[name]
        places = {
            counters.block(block, (f"/tenants/{{tenant_id}}/items/{n}",) * len(block.labels))
            for n in range(limit)
        }
        assert len(places) == limit


def test_a_bucket_points_to_a_request(path: Path) -> None:
    """An exemplar is read back with its value, time and trace."""
    counters = Counters(path)
    at = counters.block(HTTP, GET_ITEM)
    counters.exemplify(at, DURATION_AT, 3, 4_200_000, 1_700_000_000_000_000_000, TRACE)
    (one,) = [one for one in read_counters(path).series if one.exemplars]
    expected = Exemplar(4_200_000, 1_700_000_000_000_000_000, TRACE.decode())
    assert one.labels == GET_ITEM
    assert one.exemplars == {DURATION_AT + 3: expected}


def test_an_exemplar_half_written_is_not_shown(path: Path) -> None:
    """The value of one request is never shown with the trace of another."""
    counters = Counters(path)
    at = counters.block(HTTP, GET_ITEM)
    counters.exemplify(at, DURATION_AT, 0, 1_000_000, 5, TRACE)
    counters.view[at + HTTP.slots] = 2_000_000  # the value; the trace would come next
    assert not any(one.exemplars for one in read_counters(path).series)


@pytest.mark.parametrize("trace", [b"", b"xyz", TRACE[:-2], TRACE + b"00", b"\xff" * 32])
def test_an_exemplar_needs_a_trace_id(trace: bytes) -> None:
    """What is no trace id is refused."""
    counters = Counters(None)
    with pytest.raises(ValueError, match=r"(?i)hexadecimal|odd-length"):
        counters.exemplify(counters.block(HTTP, GET_ITEM), DURATION_AT, 0, 1, 5, trace)


def test_only_histograms_have_exemplars() -> None:
    """A place that has no exemplars is refused."""
    counters = Counters(None)
    with pytest.raises(KeyError):
        counters.exemplify(counters.block(WEBSOCKET, ("/",)), 1, 0, 1, 5, TRACE)


def test_without_a_disk_it_counts_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that cannot be made costs one warning, and nothing else."""
    with caplog.at_level(logging.WARNING):
        counters = Counters(tmp_path / "missing" / "a.counters")
    assert len(caplog.records) == 1
    assert (counters.shared, counters.path) == (False, None)
    counters.view[counters.block(HTTP, GET_ITEM)] += 1
    assert used(counters.snapshot().series)["http", GET_ITEM][0] == 1
    assert Counters(None).shared is False
    assert len(caplog.records) == 1


def test_an_existing_file_is_left_alone(path: Path) -> None:
    """Nobody's file is overwritten."""
    path.write_bytes(b"mine")
    assert not Counters(path).shared
    assert path.read_bytes() == b"mine"


def test_close_leaves_the_numbers(path: Path) -> None:
    """After the end late requests still count somewhere, and the file goes only on demand."""
    counters = Counters(path)
    counters.close()
    counters.view[counters.block(PROCESS, ())] += 1
    assert used(read_counters(path).series)["process", ()][0] == 1
    counters.close(remove=True)
    assert not path.exists()


def test_threads_make_blocks_together(path: Path) -> None:
    """Blocks made on several threads at once are made once each."""
    counters = Counters(path)
    found: list[list[int]] = []

    def make() -> None:
        found.append([counters.block(HTTP, ("GET", f"/{n}", "200")) for n in range(200)])

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(places) for places in found}) == 1
    assert len(read_counters(path).series) == 200 + len(BLOCKS)


@pytest.fixture
def counting(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that counts, and says how far it is."""
    command = [sys.executable, "-c", COUNTING, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_counts_outlive_a_kill(path: Path, counting: subprocess.Popen[str]) -> None:
    """After `kill -9` all that was counted is there; while it counted, numbers only grew."""
    assert counting.stdout is not None
    seen = 0
    for line in counting.stdout:
        if int(line) % 100 == 0:
            total = sum(one.numbers[0] for one in read_counters(path).series)
            assert total >= max(int(line), seen)
            seen = total
        if int(line) == 2_000:
            break
    counting.kill()
    last = max(map(int, counting.stdout.read().split()), default=2_000)
    # The last number may be counted and not said.
    assert sum(one.numbers[0] for one in read_counters(path).series) in {last, last + 1}
