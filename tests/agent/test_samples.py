"""Files of samples: written whatever the disk does, read whatever stands in them."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.clock import Clock
from trilat.agent.errors import InputError
from trilat.agent.host import host_identity, process_identity
from trilat.agent.samples import (
    MAX_LINE_BYTES,
    MAX_LINES,
    SAMPLES_SCHEMA,
    SampleWriter,
    read_samples,
    sample_files,
)

SIDE = {"side": "service"}
HEADER = json.dumps(
    {"schema": SAMPLES_SCHEMA, "side": "generator", "host": 7, "host_name": "h", "pid": 1}
).encode()
LINE = b'{"kind":"vitals","wall_s":1.5,"monotonic_s":2}'


def write_limited(path: Path, limit: int, samples: int) -> int:
    """Write samples in a process whose files may not grow beyond a limit; how many were lost.

    The kernel refuses what goes beyond as it does on a full disk: a part of it is taken first.
    """
    code = (
        "import resource, signal; from pathlib import Path\n"
        "from trilat.agent.samples import SampleWriter\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        f"writer = SampleWriter(Path({str(path)!r}), {SIDE})\n"
        f"for number in range({samples}):\n"
        "    writer.write('vitals', {'number': number})\n"
        "print(writer.lost)\n"
    )
    # Python writes no bytecode, which the limit holds for too.
    command = [sys.executable, "-B", "-c", code]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """The first line says whose samples they are, each sample has its time and its kind."""
    clock = Clock(lambda: 52_250_000_000, lambda: 1_790_000_001_200_000_000)
    writer = SampleWriter(tmp_path / "a.jsonl", {**SIDE, "run": "0123"}, clock=clock)
    writer.write("vitals", {"cpu_percent": 31.5, "cores": [1, None], "name": "größer"})
    writer.write("blocked", {"wall_s": 5.0, "line": 3})
    writer.close()
    read = read_samples(tmp_path / "a.jsonl")
    assert read.facts["schema"] == SAMPLES_SCHEMA
    assert (read.facts["side"], read.facts["run"]) == ("service", "0123")
    assert (read.facts["host"], read.facts["pid"]) == (host_identity(), os.getpid())
    assert read.facts["instance"] == process_identity()
    assert read.facts["started_wall_ns"] == 1_790_000_001_200_000_000
    assert list(read.of("vitals")) == [
        {
            "kind": "vitals",
            "wall_s": 1_790_000_001.2,
            "monotonic_s": 52.25,
            "cpu_percent": 31.5,
            "cores": [1, None],
            "name": "größer",
        }
    ]
    assert [line["wall_s"] for line in read.of("blocked")] == [5.0]
    assert writer.lost == 0


def test_a_file_is_readable_while_it_is_written(tmp_path: Path) -> None:
    """Each sample is there as soon as it was written, for any process."""
    writer = SampleWriter(tmp_path / "a.jsonl", SIDE)
    for number in range(5):
        writer.write("vitals", {"number": number})
        assert read_samples(tmp_path / "a.jsonl").lines[-1]["number"] == number
    writer.close()


def test_the_size_is_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    """Two files at most, each with its first line, hold the last samples without a gap."""
    path = tmp_path / "a.jsonl"
    writer = SampleWriter(path, SIDE, max_bytes=4000)
    for number in range(300):
        writer.write("vitals", {"number": number})
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 4000
    writer.close()
    files = sample_files(tmp_path)
    assert [file.name for file in files] == ["a.1.jsonl", "a.jsonl"]
    numbers = [line["number"] for file in files for line in read_samples(file).lines]
    assert numbers == list(range(numbers[0], 300))
    assert len(numbers) > 20
    assert writer.lost == 0


def test_a_file_that_is_removed_is_begun_anew(tmp_path: Path) -> None:
    """Somebody clears up while the service runs."""
    writer = SampleWriter(tmp_path / "a.jsonl", SIDE)
    writer.write("vitals", {"number": 1})
    (tmp_path / "a.jsonl").unlink()
    writer.write("vitals", {"number": 2})
    assert [line["number"] for line in read_samples(tmp_path / "a.jsonl").lines] == [2]
    assert writer.lost == 0


def test_a_file_of_the_same_name_is_kept_once(tmp_path: Path) -> None:
    """A process that has the number of an earlier one does not write into its file."""
    for number in range(3):
        writer = SampleWriter(tmp_path / "a.jsonl", SIDE)
        writer.write("vitals", {"number": number})
        writer.close()
    kept = [read_samples(file).lines[0]["number"] for file in sample_files(tmp_path)]
    assert kept == [1, 2]


@pytest.mark.parametrize("place", ["missing/a.jsonl", "file/a.jsonl"])
def test_a_directory_that_cannot_be_written_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    """Samples are counted as lost and nothing is raised; where the directory comes, they go on."""
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        writer = SampleWriter(tmp_path / place, SIDE)
        for _ in range(5):
            writer.write("vitals", {})
    assert writer.lost == 5
    assert len(caplog.records) == 1
    if place.startswith("missing"):
        (tmp_path / "missing").mkdir()
        writer.write("vitals", {"number": 6})
        assert read_samples(tmp_path / place).lines[0]["number"] == 6
    writer.close()


@pytest.mark.parametrize("limit", [10, 600, 900, 1301])
def test_a_full_disk_leaves_whole_lines(tmp_path: Path, limit: int) -> None:
    """What does not fit is cut off again, so the file can be read; the rest is lost and counted."""
    path = tmp_path / "a.jsonl"
    lost = write_limited(path, limit, 30)
    kept = read_samples(path).lines if path.exists() else ()
    numbers = [line["number"] for line in kept]
    assert numbers == sorted(set(numbers))  # a shorter line may fit where one did not
    assert len(kept) + lost == 30
    assert (limit > 400) == bool(kept)
    assert lost


def test_samples_that_cannot_be_expressed_are_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not-a-number, an object of a class and an endless text: counted, and the next one goes on."""
    writer = SampleWriter(tmp_path / "a.jsonl", SIDE)
    for value in (float("nan"), object(), "x" * MAX_LINE_BYTES):
        writer.write("vitals", {"value": value})
    writer.write("vitals", {"value": 1})
    writer.close()
    writer.write("vitals", {"value": 2})
    assert [line["value"] for line in read_samples(tmp_path / "a.jsonl").lines] == [1]
    assert writer.lost == 4
    assert len(caplog.records) == 1


def test_facts_that_cannot_be_expressed_write_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file without its first line would be worth nothing, so there is none."""
    writer = SampleWriter(tmp_path / "a.jsonl", {"side": object()})
    writer.write("vitals", {})
    assert (writer.lost, list(tmp_path.iterdir())) == (1, [])
    assert len(caplog.records) == 1


def test_nowhere_is_a_place_to_write_to() -> None:
    """Without a path nothing is written, and nothing lost."""
    writer = SampleWriter(None, SIDE)
    writer.write("vitals", {})
    writer.close()
    assert (writer.path, writer.lost) == (None, 0)


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    """Several threads write at once, also while files change: no line is mixed up or missing."""
    writer = SampleWriter(tmp_path / "a.jsonl", SIDE, max_bytes=100_000)

    def run(thread: int) -> None:
        for number in range(200):
            writer.write("vitals", {"thread": thread, "number": number})

    threads = [Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    lines = [line for file in sample_files(tmp_path) for line in read_samples(file).lines]
    assert {(line["thread"], line["number"]) for line in lines} == {
        (thread, number) for thread in range(4) for number in range(200)
    }
    assert len(lines) == 800


def test_a_killed_writer_leaves_a_readable_file(tmp_path: Path) -> None:
    """After ``kill -9`` every sample that was written is there."""
    code = (
        "import sys; from pathlib import Path; from trilat.agent.samples import SampleWriter\n"
        f"writer = SampleWriter(Path({str(tmp_path / 'a.jsonl')!r}), {SIDE})\n"
        "for number in range(100_000):\n"
        "    writer.write('vitals', {'number': number})\n"
        "    print(number, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for _ in range(50):
            child.stdout.readline()
        child.kill()
        told = 50 + len(child.stdout.read().split(b"\n")[:-1])
    lines = read_samples(tmp_path / "a.jsonl").lines
    assert [line["number"] for line in lines] == list(range(len(lines)))
    assert told <= len(lines) <= told + 1


@pytest.mark.parametrize("tail", [b"", b'{"kind":"vit', LINE])
def test_a_torn_last_line_is_left_out(tmp_path: Path, tail: bytes) -> None:
    """What comes after the last line's end is being written, or never was."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(HEADER + b"\n" + LINE + b"\n" + tail)
    assert len(read_samples(path).lines) == 1


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "first line is missing"),
        (HEADER, "first line is missing"),
        (b"\n", ":1: not a line"),
        (b"\xff\xfe\n", ":1: not a line"),
        (b'{"schema": "trilat.samples/2"}\n', ":1: not samples of trilat"),
        (HEADER.replace(b"generator", b"nobody") + b"\n", ":1: side"),
        (HEADER.replace(b'"host": 7', b'"host": true') + b"\n", ":1: side"),
        (HEADER + b"\n[1]\n", ":2: not an object"),
        (HEADER + b"\n" + LINE + b"\n{}\n", ":3: kind"),
        (HEADER + b"\n" + LINE.replace(b"1.5", b'"x"') + b"\n", ":2: kind"),
        (HEADER + b"\n" + LINE.replace(b"1.5", b"NaN") + b"\n", ":2: not a line"),
        (HEADER + b"\n" + LINE.replace(b"1.5", b"1e999") + b"\n", ":2: not a line"),
        (HEADER + b"\n" + LINE.replace(b"1.5", b"9" * 19) + b"\n", ":2: not a line"),
        (HEADER + b"\n" + LINE.replace(b"1.5", b"9" * 5000) + b"\n", ":2: not a line"),
        (HEADER + b"\n" + b"[" * 60_000 + b"\n", ":2: not a line"),
        (HEADER + b"\n" + b" " * (MAX_LINE_BYTES + 1) + b"\n", ":2: a line of 65537 bytes"),
        (HEADER + b"\n" * (MAX_LINES + 1), "more than 200000 lines"),
    ],
)
def test_hostile_files_are_refused(tmp_path: Path, raw: bytes, says: str) -> None:
    """The error is one line that names the file and the line in it."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(raw)
    with pytest.raises(InputError) as caught:
        read_samples(path)
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    """A missing file, a folder, a pipe and an endless device are errors, and none is waited for."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe.jsonl", Path("/dev/zero")):
        with pytest.raises(InputError, match=str(path)):
            read_samples(path)


def test_a_file_too_large_is_refused(tmp_path: Path) -> None:
    """A file beyond the bound is not read into memory."""
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.truncate(65 * 2**20)
    with pytest.raises(InputError, match="more than 64 MB"):
        read_samples(path)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(st.text("abc", min_size=1), JSON_VALUES, max_size=5), max_size=8))
@settings(max_examples=40, deadline=None)
def test_any_values_come_back_as_they_were(samples: list[dict[str, Any]]) -> None:
    """Whatever a sample holds that JSON can hold is read as it was written."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        writer = SampleWriter(path, SIDE)
        for sample in samples:
            writer.write("vitals", sample)
        writer.close()
        assert writer.lost == 0
        own = ("kind", "wall_s", "monotonic_s")
        read = [
            {name: value for name, value in line.items() if name not in own}
            for line in read_samples(path).lines
        ]
    assert read == samples


@given(st.binary(max_size=200), st.integers(0, 400), st.binary(max_size=8))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(tail: bytes, at: int, patch: bytes) -> None:
    """Random damage ends in samples or in an `InputError`, in nothing else."""
    raw = bytearray(HEADER + b"\n" + LINE + b"\n" + LINE + b"\n" + tail)
    raw[at : at + len(patch)] = patch
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_bytes(raw)
        try:
            lines = read_samples(path).lines
        except InputError:
            return
        assert all(isinstance(line["kind"], str) for line in lines)
