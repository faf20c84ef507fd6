"""The files of one process of a service: its journal and its samples."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from trilat.agent.clock import Clock
from trilat.agent.housekeeping import process_facts, tidy_beside
from trilat.agent.journal import JournalWriter
from trilat.agent.layout import SERVED
from trilat.agent.samples import SampleWriter

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Store"]

# To begin a file takes the kernel as long as the file is large, and the event loop waits: small.
_SEGMENT_BYTES = 2**20
_SEGMENTS_MAX = 128
_DIRECTORY_BYTES_MAX = 2**30
_AGE_MAX_S = 24 * 3600.0


class Store:
    """Opens the files of this process in a directory, and clears up after processes that ended.

    A process keeps 128 MB of journal, about a million requests, and 16 MB of samples; all that is
    in the directory together is at most a gigabyte, or what the living processes hold. What is
    older than a day goes when the next file, or the next process, begins.

    Args:
        directory: where; made if it is missing.
        instance: of this process.
        clock: gives the samples their times.
    """

    def __init__(self, directory: Path, instance: int, clock: Clock) -> None:
        with suppress(OSError):  # the writers say what is wrong with it
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        tidy_beside(directory, max_bytes=_DIRECTORY_BYTES_MAX, max_age_s=_AGE_MAX_S)
        pid, name = os.getpid(), socket.gethostname()
        facts = {
            "side": "service",
            **process_facts(),
            "host_name": name,
            "instance": instance,
            "started_wall_ns": clock.wall_ns(),
        }
        safe = "".join(c if (c.isalnum() and c.isascii()) or c in "-." else "_" for c in name)
        stem = f"service-{safe[:64]}-{pid}-{instance:08x}"
        self.journal = JournalWriter(
            directory,
            stem,
            facts,
            layout=SERVED,
            segment_bytes=_SEGMENT_BYTES,
            max_segments=_SEGMENTS_MAX,
            max_age_s=_AGE_MAX_S,
            keep_new=False,
            delete_in_thread=True,
        )
        self.samples = SampleWriter(directory / f"{stem}.jsonl", facts, clock=clock)

    def close(self) -> None:
        """Cut the journal to its length, and close both."""
        self.journal.close()
        self.samples.close()
