"""Collecting: the journals and samples of a run's services come into its directory.

Services are asked at the same time, the files of each one after the other. What is there already is
not fetched again, and what was cut off goes on where it ended.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trilat.agent.errors import InputError, UsageError
from trilat.agent.offers import Window

from .collected import Collected
from .fetching import Source
from .intake import Intake, Watch

if TYPE_CHECKING:
    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.run.rundir import RunDirectory

__all__ = ["Order", "collect", "run_window"]

_AT_ONCE = 4


def run_window(manifest: Manifest, margin_ns: int) -> Window:
    """The time of a run, with a margin before and after it.

    Raises:
        InputError: it is not known when the run ended.
    """
    if manifest.ended_wall_ns is None:
        raise InputError("the run has no end: not one request of it was recorded")
    return Window(manifest.started_wall_ns - margin_ns, manifest.ended_wall_ns + margin_ns)


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be collected.

    Attributes:
        urls: where `CollectApp` is mounted.
        token: what it asks for; the same for all.
        window: the time, by our wall clock.
        bytes_max: no more bytes come, from all together.
    """

    urls: Sequence[str]
    token: str = field(repr=False)
    window: Window
    bytes_max: int


def collect(run: RunDirectory, order: Order, watch: Watch) -> list[Collected]:
    """Bring the files of services into a run's directory.

    Args:
        run: the directory.
        order: whose, and of which time.
        watch: see `trilat.correlator.collect.intake.Watch`.

    Returns:
        What each gave, in the order of the URLs. What went wrong with one is among its errors.

    Raises:
        UsageError: a URL is none, a folder of the directory is a link, or another process collects
            into it.
        OSError: the directory cannot be written.
        KeyboardInterrupt: interrupted; what came is kept.
    """
    with _alone(run):
        for folder in (run.journals, run.samples):
            if folder.is_symlink():
                raise UsageError(f"{folder}: a link, which is not followed; put a directory there")
            folder.mkdir(mode=0o755, exist_ok=True)
        return asyncio.run(_collect(run, order, watch))


async def _collect(run: RunDirectory, order: Order, watch: Watch) -> list[Collected]:
    sources = {source.url: source for source in [Source(url, order.token) for url in order.urls]}
    intake = Intake(run, order.bytes_max, watch)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(source: Source) -> Collected:
        collected = Collected(source.url)
        async with gate, source:
            try:
                await intake.take(source, order.window, collected)
            except InputError as error:
                collected.errors.append(str(error))
        return collected

    return await asyncio.gather(*map(one, sources.values()))


@contextmanager
def _alone(run: RunDirectory) -> Iterator[None]:
    """Keep out other processes that collect into the same directory.

    Raises:
        UsageError: there is one.
    """
    try:
        import fcntl  # noqa: PLC0415 - not on every system
    except ImportError:  # Windows: two at a time would spoil each other's parts
        yield
        return
    descriptor = os.open(run.path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{run.path}: another trilat collect is at work here") from error
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        with suppress(OSError):
            os.close(descriptor)
