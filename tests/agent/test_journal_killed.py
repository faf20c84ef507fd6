"""A writer that is killed at any moment leaves journals that can be read, and all that it wrote.

``TRILAT_KILLS=50 pytest tests/agent/test_journal_killed.py`` shows it 50 times.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trilat.agent.layout import SERVED, Kind
from trilat.agent.segment import journal_files, read_segment

KILLS = int(os.environ.get("TRILAT_KILLS", "5"))

# Small files, so that kills meet the making of a file too; the number is reported after writing.
WRITES_FOR_EVER = """
import sys
from pathlib import Path
from trilat.agent.journal import JournalWriter
from trilat.agent.layout import SERVED

writer = JournalWriter(
    Path(sys.argv[1]), "killed", {}, layout=SERVED, segment_bytes=20_000, max_segments=10_000,
    keep_new=False,
)
name = writer.name_id("GET\\t/" + "x" * 150)
number = 0
while number < 2_000_000:
    for _ in range(20):
        number += 1
        writer.append(3, 0, name, number, number, number, 0, *[number] * 8, number, 0, 1, 200, 0)
    sys.stdout.buffer.write(number.to_bytes(8, "little"))
    sys.stdout.buffer.flush()
"""


@pytest.mark.parametrize("kill", range(KILLS))
def test_every_record_up_to_the_kill_is_readable(kill: int, tmp_path: Path) -> None:
    """After ``kill -9``: all records that were reported, whole, in order, and none twice."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITES_FOR_EVER, tmp_path], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process, process.stdout as reports:
        seen = reports.read(8 * random.Random(kill).randrange(1, 400))
        os.kill(process.pid, signal.SIGKILL)
        seen += reports.read()
    assert process.returncode == -signal.SIGKILL
    whole = len(seen) // 8 * 8
    reported = int.from_bytes(seen[whole - 8 : whole], "little")
    numbers = []
    for path in journal_files(tmp_path):
        raw = read_segment(path).records
        for at in range(0, len(raw), SERVED.size):
            if raw[at] == Kind.NAME:
                continue
            values = SERVED.struct.unpack_from(raw, at)
            assert values[:2] == (3, 0)
            assert set(values[3:6]) | set(values[7:16]) == {values[5]}
            numbers.append(values[5])
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= reported > 0
