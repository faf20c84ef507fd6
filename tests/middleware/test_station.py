"""Stations begin by themselves, keep apart, and begin anew in a fork."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.middleware.conftest import Observed

    from trilat.middleware.asgi import Receive, Scope, Send


async def answering(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer with nothing."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # that is what is tried out
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_begins_anew(observed: Observed, tmp_path: Path) -> None:
    """A child has neither the parent's numbers nor its files, and the parent keeps both."""
    station = observed.station
    observed.exchange([]).run(observed.wrap(answering, journal=tmp_path / "journal"))
    assert station.instance != 0
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kept = (station.entered, station.begun, station.instance, station.journal)
            os.write(writing, b"anew" if kept == (False, 0, 0, None) else b"kept")
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        assert said.read() == b"anew"
    assert os.waitpid(child, 0)[1] == 0
    assert (station.entered, station.begun) == (True, 1)
    assert station.journal is not None


def test_two_stations_keep_apart(observed: Observed, tmp_path: Path) -> None:
    """What one station counts, another does not see."""
    other = type(observed)(tmp_path / "other")
    try:
        for one in (observed, other, other):
            one.exchange([]).run(one.wrap(answering))
        assert (observed.station.begun, other.station.begun) == (1, 2)
        assert observed.station.counters is not other.station.counters
    finally:
        other.station.close()


def test_station_begins_with_the_first_request(observed: Observed) -> None:
    """To be imported and wrapped around an application starts nothing: a server may fork yet."""
    app = observed.wrap(answering)
    assert (observed.station.entered, observed.station.begun) == (False, 0)
    observed.exchange([]).run(app)
    assert observed.station.entered
    assert observed.health.errors == 0
