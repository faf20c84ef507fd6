"""Tests in a process that Locust has patched; ``test_patched.py`` starts it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

collect_ignore_glob = [] if "trilat.locust" in sys.modules else ["*"]


@pytest.fixture(scope="session", autouse=True)
def _kernel_stamps_are_on() -> Iterator[None]:
    """Keep the kernel stamping: it begins a moment after a machine's first socket asks for it.

    A run opens such a socket before its first request; a test's first request is at once.
    """
    # Not at the top: this file is imported, and its tests ignored, in unpatched processes too.
    from trilat.agent.tcp import STAMP_BUFFER  # noqa: PLC0415
    from trilat.locust.marks.sockets import ask_early  # noqa: PLC0415

    with ask_early() as early:
        early.bind(("127.0.0.1", 0))
        early.settimeout(10)
        gives_up = time.monotonic() + 10
        while time.monotonic() < gives_up:
            early.sendto(b"?", early.getsockname())
            if early.recvmsg(1, STAMP_BUFFER)[1]:
                break
            time.sleep(0.01)
        else:
            raise RuntimeError("the kernel gives no receive stamps")
        yield


@pytest.fixture
def marking() -> Iterator[None]:
    """Requests are marked; nothing of our own fails unless a test says so."""
    import gevent  # noqa: PLC0415 - as above

    from trilat.locust import faults  # noqa: PLC0415
    from trilat.locust.marks.marker import marker  # noqa: PLC0415
    from trilat.locust.marks.timeline import attach  # noqa: PLC0415

    faults.counts.clear()
    marker.start("0123456789ab")
    yield
    marker.stop()
    attach(None)
    gevent.sleep(0.01)  # gevent closes what is waited on in its next round
    assert not faults.counts
