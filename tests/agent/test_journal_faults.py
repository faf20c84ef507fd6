"""The journal when the process is killed, the disk is full, or the directory goes away."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trilat.agent.errors import JournalError
from trilat.agent.journal import JournalWriter
from trilat.agent.layout import EXCHANGE, SERVED, Kind
from trilat.agent.segment import HEADER_SIZE, journal_files, read_segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.agent.conftest import MakeRecord, ReadRecords

FACTS = {"run": "0123456789ab"}
SMALL = HEADER_SIZE + 16 * EXCHANGE.size

WRITES_FOR_EVER = """
import sys
from pathlib import Path
from trilat.agent.journal import JournalWriter
from trilat.agent.layout import EXCHANGE, SERVED, Kind

writer = JournalWriter(Path(sys.argv[1]), "killed", {}, segment_bytes=200_000)
name = writer.name_id("GET\\t/")
fields = EXCHANGE.packer.size
number = 0
while number < 5_000_000:
    for _ in range(100):
        writer.append(
            1, 0, name, 0, 0, number, *[number] * 14, number.to_bytes(48, "little"), 200, 1
        )
        number += 1
    print(number, flush=True)
"""

MEETS_A_FULL_DISK = """
import logging, resource, sys
from pathlib import Path
from trilat.agent.journal import JournalWriter

logging.basicConfig(format="%(message)s")
limit = int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
writer = JournalWriter(Path(sys.argv[1]), "full", {}, segment_bytes=100_000)
taken = 0
for number in range(3_000):
    writer.append(1, 0, 0, 0, 0, number, *[number] * 14, bytes(48), 200, 1)
    if number % 100 == 99:
        taken += sum(map(len, writer.take_new()))
writer.close()
print(taken // 200, writer.lost_to_disk)
"""


def test_killed_writer_leaves_all_that_it_wrote(tmp_path: Path, read_records: ReadRecords) -> None:
    """After ``kill -9`` in full flight, every record reported as written is there and whole."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITES_FOR_EVER, tmp_path], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    with writer, writer.stdout as reports:
        for _ in range(50):
            reports.readline()
        os.kill(writer.pid, signal.SIGKILL)
        reported = [line for line in reports if line.endswith("\n")]
    assert writer.returncode == -signal.SIGKILL
    files = journal_files(tmp_path)
    assert len(files) > 1
    numbers = []
    for path in files:
        exchanges, names = read_records(read_segment(path).records)
        # The kill may come when a file has its header only, or not even room for one more record.
        assert names == {0: "GET\t/"} or (path == files[-1] and not names and not exchanges)
        for exchange in exchanges:
            assert exchange[5:21] == (*[exchange[5]] * 15, exchange[5].to_bytes(48, "little"))
            numbers.append(exchange[5])
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= (int(reported[-1]) if reported else 5_000)


def test_file_size_limit_sends_records_to_memory(tmp_path: Path) -> None:
    """A limit on file sizes is met when a file is made, not in the middle of a request."""
    _assert_goes_on_in_memory(tmp_path, limit=50_000, on_disk=0)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for two files of the journal."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "trilat-test", tmp_path],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting a file system needs more rights")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_full_disk_sends_records_to_memory(tiny_disk: Path) -> None:
    """When the disk fills, what is on it stays, and the rest is taken from memory."""
    _assert_goes_on_in_memory(tiny_disk, limit=0, on_disk=2)


def _assert_goes_on_in_memory(folder: Path, limit: int, on_disk: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MEETS_A_FULL_DISK, folder, str(limit)],
        # Coverage would write its data under the same limit.
        env={k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")},
        capture_output=True,
        check=True,
        text=True,
    )
    taken, lost = map(int, ran.stdout.split())
    files = journal_files(folder)
    kept = sum(len(read_segment(path).records) // EXCHANGE.size for path in files)
    assert taken == 3_000
    assert len(files) == on_disk
    assert kept + lost == 3_000
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("no journal on disk, going on in memory: ")


def test_missing_directory_sends_records_to_memory(
    tmp_path: Path, make_record: MakeRecord, caplog: pytest.LogCaptureFixture
) -> None:
    """Where nothing can be written there is one warning, and the records can be taken."""
    writer = JournalWriter(tmp_path / "absent", "x", FACTS, segment_bytes=SMALL)
    for number in range(50):
        writer.append(*make_record(number))
    writer.close()
    assert len(b"".join(writer.take_new())) == 50 * EXCHANGE.size
    assert writer.lost_to_disk == 50
    assert len(caplog.records) == 1


def test_directory_that_goes_away_sends_records_to_memory(
    tmp_path: Path, make_record: MakeRecord, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody deletes the run's directory: the run goes on, the loss is counted."""
    folder = tmp_path / "run"
    folder.mkdir()
    writer = JournalWriter(folder, "x", FACTS, segment_bytes=SMALL, max_segments=2)
    for number in range(40):
        writer.append(*make_record(number))
    shutil.rmtree(folder)
    for number in range(40, 100):
        writer.append(*make_record(number))
    writer.close()
    assert writer.lost_to_disk == 100 - 32  # two files were full before; the third one was open
    assert len(caplog.records) == 1


def test_file_that_is_there_already_stays(tmp_path: Path, make_record: MakeRecord) -> None:
    """A second writer with the same stem does not write over the first one's records."""
    first = JournalWriter(tmp_path, "x", FACTS)
    first.append(*make_record(1))
    first.close()
    before = journal_files(tmp_path)[0].read_bytes()
    second = JournalWriter(tmp_path, "x", FACTS)
    second.append(*make_record(2))
    second.close()
    assert [path.read_bytes() for path in journal_files(tmp_path)] == [before]
    assert second.lost_to_disk == 1


def test_value_that_does_not_fit_leaves_the_journal_sound(
    tmp_path: Path, make_record: MakeRecord, read_records: ReadRecords
) -> None:
    """A record that cannot be packed is an error, and the next one takes its place."""
    writer = JournalWriter(tmp_path, "x", FACTS)
    writer.append(*make_record(1))
    with pytest.raises(struct.error):
        writer.append(*make_record(2)[:-1], 70_000)
    writer.append(*make_record(3))
    writer.close()
    exchanges, _ = read_records(read_segment(journal_files(tmp_path)[0]).records)
    assert exchanges == [make_record(1), make_record(3)]


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "missing"])
def test_what_is_no_file_is_no_journal(kind: str, tmp_path: Path) -> None:
    """A FIFO would wait for a writer for ever, a device give bytes without an end."""
    path = tmp_path / "generator-1-000001.trilat"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    with pytest.raises(JournalError, match=path.name):
        read_segment(path)


def test_file_that_is_removed_is_missed_within_64_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A service's records go on in a new file; those in the removed one are counted as lost."""
    writer = JournalWriter(tmp_path, "x", {}, layout=SERVED, max_age_s=3600)
    values = [0] * (len(SERVED.fields) - 2)
    for number in range(200):
        if number == 100:
            journal_files(tmp_path)[0].unlink()
        writer.append(int(Kind.SERVED), *values)
    writer.close()
    kept = sum(len(read_segment(path).records) // SERVED.size for path in journal_files(tmp_path))
    assert (kept, writer.lost_to_disk) == (72, 128)
    assert [record.getMessage().partition(" was ")[2] for record in caplog.records] == [
        "removed while it was written"
    ]
