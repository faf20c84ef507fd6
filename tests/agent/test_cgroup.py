"""CPU throttling and memory limits of control groups of both versions."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.cgroup import ControlGroup

FAKE = Path(__file__).with_name("fake_proc")
WEB = "app.slice/web.service"


def _proc(folder: Path, memberships: bytes) -> Path:
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/cgroup").write_bytes(memberships)
    return folder / "proc"


def test_version_2_tells_the_tightest_of_nested_groups() -> None:
    """A group inside a group: what throttled most, and the limit that comes first."""
    group = ControlGroup(FAKE / "proc", FAKE / "cgroup2")
    assert group.throttled_ns() == 1_500_000_000
    assert group.memory_limit_bytes() == 512 * 2**20


def test_version_1_tells_the_tightest_of_nested_groups(tmp_path: Path) -> None:
    """The same of the older version, whose controllers have trees and units of their own."""
    memberships = b"4:memory:/kube/pod7/web\n2:cpu,cpuacct:/kube/pod7/web\n1:name=systemd:/\n0::/\n"
    group = ControlGroup(_proc(tmp_path, memberships), FAKE / "cgroup1")
    assert group.throttled_ns() == 700_000_000
    assert group.memory_limit_bytes() == 256 * 2**20


@pytest.mark.parametrize("controllers", [b"cpu", b"cpu,cpuacct", b"cpuacct,cpu"])
def test_version_1_under_any_name_of_its_folder(tmp_path: Path, controllers: bytes) -> None:
    """The processor's controller is mounted under its own name, or linked to it."""
    mounted = tmp_path / "cgroup/cpu/web"
    mounted.mkdir(parents=True)
    (mounted / "cpu.stat").write_text("nr_throttled 1\nthrottled_time 5\n")
    group = ControlGroup(_proc(tmp_path, b"2:" + controllers + b":/web\n"), tmp_path / "cgroup")
    assert group.throttled_ns() == 5


def test_both_versions_at_once(tmp_path: Path) -> None:
    """Version 2 beside version 1: what each one has is found."""
    shutil.copytree(FAKE / "cgroup1", tmp_path / "cgroup")
    shutil.copytree(FAKE / "cgroup2", tmp_path / "cgroup/unified")
    (tmp_path / "cgroup/unified" / WEB / "cpu.stat").unlink()
    memberships = b"2:cpu,cpuacct:/kube/pod7/web\n0::/app.slice/web.service\n"
    group = ControlGroup(_proc(tmp_path, memberships), tmp_path / "cgroup")
    assert group.throttled_ns() == 700_000_000
    assert group.memory_limit_bytes() == 512 * 2**20


@pytest.mark.parametrize(
    "path", [b"/docker/0123abcd", b"/../../other", b"/a\0b", b"/\xff\xfe", b"", b"/" + b"d/" * 500]
)
def test_a_path_that_leads_nowhere_means_what_is_mounted(tmp_path: Path, path: bytes) -> None:
    """In a container the kernel may name the host's path; the mount is the own group then."""
    mounted = tmp_path / "cgroup"
    mounted.mkdir()
    (mounted / "cpu.stat").write_text("usage_usec 5\nthrottled_usec 20\n")
    (mounted / "memory.max").write_text("max\n")
    group = ControlGroup(_proc(tmp_path, b"0::" + path + b"\n"), mounted)
    assert group.throttled_ns() == 20_000
    assert group.memory_limit_bytes() == 0


def test_no_limit_of_version_1_is_no_limit(tmp_path: Path) -> None:
    """The largest number of pages is how version 1 says that there is none."""
    group = ControlGroup(_proc(tmp_path, b"4:memory:/kube\n"), FAKE / "cgroup1")
    assert group.memory_limit_bytes() == 0
    assert group.throttled_ns() is None


def test_without_control_groups_nothing_is_known(tmp_path: Path) -> None:
    """No such system, no mount, or a membership that cannot be read: None, no error."""
    for proc in (tmp_path / "none", _proc(tmp_path, b"0::/\nrubbish\n:\n2:cpu:/x\n")):
        group = ControlGroup(proc, tmp_path / "nothing")
        assert group.throttled_ns() is None
        assert group.memory_limit_bytes() is None


def test_the_time_grows_by_what_the_most_throttled_level_gains(tmp_path: Path) -> None:
    """Of levels that were held back at the same time the longer one counts, once."""
    shutil.copytree(FAKE / "cgroup2", tmp_path / "cgroup")
    group = ControlGroup(FAKE / "proc", tmp_path / "cgroup")
    first = group.throttled_ns()
    assert first == 1_500_000_000
    inner, outer = tmp_path / "cgroup" / WEB / "cpu.stat", tmp_path / "cgroup/app.slice/cpu.stat"
    outer.write_text("throttled_usec 550000\n")  # 0.3 s more
    inner.write_text("throttled_usec 1600000\n")  # 0.1 s more
    assert group.throttled_ns() == first + 300_000_000
    assert group.throttled_ns() == first + 300_000_000
    inner.write_text("throttled_usec 1\n")  # it does not go back
    assert group.throttled_ns() == first + 300_000_000


def test_a_group_that_goes_away_keeps_what_was_seen(tmp_path: Path) -> None:
    """The files vanish, or turn to rubbish: the last total stays, the limit is not known."""
    shutil.copytree(FAKE / "cgroup2", tmp_path / "cgroup")
    group = ControlGroup(FAKE / "proc", tmp_path / "cgroup")
    assert group.throttled_ns() == 1_500_000_000
    for file in (tmp_path / "cgroup/app.slice").rglob("*.*"):
        if file.is_file():
            file.write_bytes(b"throttled_usec -5\n\xff")
    assert group.throttled_ns() == 1_500_000_000
    assert group.memory_limit_bytes() is None
    shutil.rmtree(tmp_path / "cgroup")
    assert group.throttled_ns() == 1_500_000_000


@given(st.binary(max_size=80), st.binary(max_size=80), st.binary(max_size=80))
@settings(max_examples=100, deadline=None)
def test_any_content_gives_numbers_or_nothing(membership: bytes, stat: bytes, limit: bytes) -> None:
    """Whatever stands in the files: no error, and no negative number."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cgroup").mkdir()
        (folder / "cgroup/cpu.stat").write_bytes(b"throttled_usec 3\n" + stat)
        (folder / "cgroup/memory.max").write_bytes(limit)
        group = ControlGroup(_proc(folder, b"0::/" + membership), folder / "cgroup")
        (folder / "cgroup/cpu.stat").write_bytes(b"throttled_usec " + stat)
        for found in (group.throttled_ns(), group.memory_limit_bytes()):
            assert found is None or found >= 0
