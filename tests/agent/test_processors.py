"""The host's processors, from Linux' figures and from psutil's."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.agent.processors import CoreTimes, Processors, kernel_times, portable_times

FAKE = Path(__file__).with_name("fake_proc") / "proc"


def _proc(folder: Path, stat: bytes) -> Path:
    (folder / "stat").write_bytes(stat)
    return folder


def test_times_are_those_of_the_kernel(tmp_path: Path) -> None:
    """Idle is idle and waiting for disks; guests are in the user's time; steal stands alone."""
    found = kernel_times(FAKE)
    ticks = 100  # of a second, on every Linux
    assert found == {
        0: CoreTimes(8400 / ticks, 1600 / ticks, 0.0),
        1: CoreTimes(10_000 / ticks, 4000 / ticks, 900 / ticks),
    }
    old = kernel_times(_proc(tmp_path, b"cpu 4 0 0 4\ncpu0 4 0 0 4\n"))
    assert old == {0: CoreTimes(0.04, 0.04, None)}


def test_use_is_what_changed_since_the_last_reading() -> None:
    """A processor that worked half of the time was busy by half, whatever came before."""
    states = [
        {0: CoreTimes(100.0, 50.0, 1.0), 1: CoreTimes(0.0, 0.0, 0.0)},
        {0: CoreTimes(100.5, 50.5, 1.25), 1: CoreTimes(1.0, 0.0, 0.0)},
    ]
    processors = Processors(lambda: states.pop(0))
    first = processors.read()
    assert first.busy_percent == [None, None]
    assert (first.stolen_percent, first.stolen_s) == (None, 1.0)
    second = processors.read()
    assert second.busy_percent == [50.0, 0.0]
    assert (second.stolen_percent, second.stolen_s) == (12.5, 1.25)


def test_processors_come_and_go() -> None:
    """One that is off keeps its place in the list; one that is new has no figure yet."""
    on = CoreTimes(0.0, 0.0, None)
    states = [{0: on, 1: on}, {0: CoreTimes(0.0, 1.0, None), 2: on}]
    processors = Processors(lambda: states.pop(0))
    processors.read()
    use = processors.read()
    assert use.busy_percent == [100.0, None, None]
    assert (use.stolen_percent, use.stolen_s) == (None, None)


@pytest.mark.parametrize(
    "stat", [b"cpu0 x 1\n", b"cpu-1 1 1 1 1\n", b"cpu9999 1 1 1 1\n", b"cpu0 " + b"9" * 30]
)
def test_damaged_figures_are_refused(tmp_path: Path, stat: bytes) -> None:
    """What no kernel writes is an error, not a number."""
    with pytest.raises(ValueError, match=r"\d|count"):
        kernel_times(_proc(tmp_path, stat))


def test_no_processors_are_an_empty_list(tmp_path: Path) -> None:
    """A file without them gives no figures."""
    use = Processors(lambda: kernel_times(_proc(tmp_path, b""))).read()
    assert (use.busy_percent, use.stolen_percent, use.stolen_s) == ([], None, None)


def test_psutil_agrees_with_the_kernel() -> None:
    """Both ways to the same figures see the same processors and the same times."""
    kernels, portables = kernel_times(), portable_times()
    assert kernels.keys() == portables.keys()
    for core, times in kernels.items():
        assert portables[core].busy == pytest.approx(times.busy, abs=30)
        assert portables[core].idle == pytest.approx(times.idle, abs=30)


TIMES = st.floats(0, 1e9)
STATES = st.dictionaries(
    st.integers(0, 5), st.builds(CoreTimes, TIMES, TIMES, st.none() | TIMES), max_size=5
)


@given(st.lists(STATES, min_size=2, max_size=4))
def test_use_is_a_share(states: list[dict[int, CoreTimes]]) -> None:
    """Clocks that go back or stand still never give a share below nothing or beyond all."""
    processors = Processors(lambda: states.pop(0))
    while states:
        use = processors.read()
        for percent in use.busy_percent:
            assert percent is None or 0 <= percent <= 100
        assert use.stolen_percent is None or math.isfinite(use.stolen_percent)
