"""A processor gauge beside a process, as a monitoring system would have it: once a second."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

__all__ = ["Gauge", "watching"]


class Gauge:
    """Per cent of one processor that a process and its children use, second by second.

    Args:
        pid: of the process.
    """

    def __init__(self, pid: int) -> None:
        self.samples: list[float] = []
        self._pid = pid
        self._ended = threading.Event()

    @property
    def busiest(self) -> float:
        """Mean of the seconds under load; the first ones, in which a program starts, are not."""
        loaded = self.samples[3:-1] or self.samples
        return round(sum(loaded) / len(loaded), 1) if loaded else 0.0

    def watch(self) -> None:
        """Look once a second; of several processes, the busiest one counts."""
        known: dict[int, psutil.Process] = {}
        while not self._ended.wait(1.0):
            with suppress(psutil.Error):
                first = known.setdefault(self._pid, psutil.Process(self._pid))
                for child in first.children(recursive=True):
                    known.setdefault(child.pid, child)
            now = []
            for process in list(known.values()):
                with suppress(psutil.Error):
                    now.append(process.cpu_percent())
            self.samples.append(max(now, default=0.0))

    def end(self) -> None:
        """Look no more."""
        self._ended.set()


@contextmanager
def watching(pid: int) -> Iterator[Gauge]:
    """Watch a process for as long as the block lasts."""
    gauge = Gauge(pid)
    thread = threading.Thread(target=gauge.watch)
    thread.start()
    try:
        yield gauge
    finally:
        gauge.end()
        thread.join()
