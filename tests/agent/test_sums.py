"""The sum of several workers is exact, whatever they counted and whoever of them has ended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trilat.agent.counters import OTHER, Counters
from trilat.agent.departed import fold
from trilat.agent.families import (
    BLOCKS,
    CORE,
    HTTP,
    PROCESS,
    WEBSOCKET,
    Block,
    Counter,
    Gauge,
    Hidden,
    Over,
)
from trilat.agent.processes import ProcessId, find_process
from trilat.agent.series import Exemplar, Series, read_counters
from trilat.agent.sums import add_up, what_stays
from trilat.agent.workers import WorkerGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

GONE = ProcessId(4_194_305, 1)
DURATION_AT = HTTP.places["trilat_http_request_duration_seconds"]
Counted = tuple[Block, tuple[str, ...], int, int]
Key = tuple[str, tuple[str, ...], int]


def keep_of(block: Block, place: int) -> Counter | Gauge | Hidden | None:
    """The metric with one number at a place; None for a histogram's."""
    for metric in block.metrics:
        if block.places[metric.name] == place and isinstance(metric, Counter | Gauge | Hidden):
            return metric
    return None


def expected(workers: list[tuple[list[Counted], bool]]) -> Mapping[Key, int]:
    """What the service counted, reckoned number by number."""
    total: dict[Key, int] = {}
    for counted, alive in workers:
        mine: dict[Key, int] = {}
        kinds = {}
        for block, labels, place, number in counted:
            key = block.name, labels, place
            mine[key] = mine.get(key, 0) + number
            kinds[key] = keep_of(block, place)
        for key, number in mine.items():
            metric = kinds[key]
            if isinstance(metric, Gauge | Hidden) and not alive:
                continue
            if isinstance(metric, Counter | Gauge) and metric.over is Over.MAX:
                total[key] = max(total.get(key, 0), number)
            else:
                total[key] = total.get(key, 0) + number
    return {key: number for key, number in total.items() if number}


def found(series: list[Series]) -> Mapping[Key, int]:
    """The numbers that are not zero."""
    return {
        (one.block.name, one.labels, place): number
        for one in series
        for place, number in enumerate(one.numbers)
        if number
    }


COUNTED = st.sampled_from(list(BLOCKS.values())).flatmap(
    lambda block: st.tuples(
        st.just(block),
        st.tuples(*[st.sampled_from(["a", "b", "c", OTHER])] * len(block.labels)),
        st.integers(0, block.slots - 1),
        st.integers(0, 2**50),
    )
)
WORKERS = st.lists(st.tuples(st.lists(COUNTED, max_size=15), st.booleans()), max_size=6)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(WORKERS, st.integers(1, 4))
def test_the_sum_is_exact(
    tmp_path: Path, workers: list[tuple[list[Counted], bool]], asked: int
) -> None:
    """Sums and maxima are those of a reckoning number by number, however often one asks."""
    me = find_process(os.getpid())
    assert me is not None
    group = WorkerGroup(tmp_path / os.urandom(8).hex(), parent=me)
    own = group.enter()
    assert own.path is not None
    namespace = own.path.name.split("-")[1]
    for number, (counted, alive) in enumerate(workers):
        pid, start = me if alive else GONE
        name = f"worker-{namespace}-{pid}-{start}-{number:08x}.counters"
        counters = Counters(own.path.with_name(name), size=64 * 1024)
        for block, labels, place, value in counted:
            counters.view[counters.block(block, labels) + place] += value
    for _ in range(asked):
        series, living = group.snapshot()
        assert found(series) == expected(workers)
        assert living == 1 + sum(alive for _, alive in workers)


def series(block: Block, labels: tuple[str, ...], **numbers: int) -> Series:
    """A series with some numbers by the names of their metrics."""
    values = [0] * block.slots
    for name, number in numbers.items():
        values[block.places[name]] = number
    return Series(block, labels, values, {})


def test_what_all_workers_see_is_not_added() -> None:
    """A host's figures are the same for all workers: the largest is told."""
    one = series(CORE, ("0",), trilat_host_cpu_busy_ratio=300_000)
    other = series(CORE, ("0",), trilat_host_cpu_busy_ratio=200_000)
    assert add_up([one, other]) == add_up([other, one]) == [one]


def test_adding_leaves_the_parts_alone() -> None:
    """What is added up can be added up again."""
    one = series(PROCESS, (), trilat_gc_pauses_total=1)
    add_up([one, one])
    assert one == series(PROCESS, (), trilat_gc_pauses_total=1)


def test_what_has_ended_keeps_its_counts_only() -> None:
    """Gauges of the ended are forgotten; blocks of gauges go as a whole."""
    ended = [
        series(CORE, ("0",), trilat_host_cpu_busy_ratio=300_000),
        series(PROCESS, (), trilat_gc_pauses_total=4, trilat_process_threads=9),
    ]
    assert what_stays(ended) == [series(PROCESS, (), trilat_gc_pauses_total=4)]


def test_the_newest_exemplar_is_told() -> None:
    """Of the requests that workers point to in one bucket it is the last one."""
    old, new = Exemplar(5, 100, "a" * 32), Exemplar(4, 200, "b" * 32)
    empty = series(HTTP, ("GET", "/", "200"))
    parts = [empty._replace(exemplars={DURATION_AT: each}) for each in (old, new, old)]
    (total,) = add_up(parts)
    assert total.exemplars == {DURATION_AT: new}


def test_folding_keeps_exemplars_and_bounds_itself(tmp_path: Path) -> None:
    """Exemplars go along; beyond the limit series share one; sums stop at the largest number."""
    for number in range(12):
        path = tmp_path / f"worker-{number}"
        counters = Counters(path)
        for route in range(100):
            labels = (f"/{number}/{route}",)
            counters.view[counters.block(WEBSOCKET, labels) + 1] = 1
        at = counters.block(HTTP, ("GET", "/", "200"))
        counters.view[at] = 2**63 - 1
        counters.exemplify(at, DURATION_AT, 1, 7, number + 1, b"ab" * 16)
        fold(tmp_path, [path])
        assert not path.exists()
    read = read_counters(tmp_path / "departed.counters").series
    sockets = {one.labels: one.numbers[1] for one in read if one.block is WEBSOCKET}
    assert len(sockets) == 801
    assert sum(sockets.values()) == 1200
    assert sockets[OTHER,] == 400
    (http,) = [one for one in read if one.labels == ("GET", "/", "200")]
    assert http.numbers[0] == 2**63 - 1
    assert http.exemplars == {DURATION_AT + 1: Exemplar(7, 12, "ab" * 16)}
