"""Four workers of uvicorn under load count as one service."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from tests.middleware.conftest import Serve, Served

CONNECTIONS = 24
REQUESTS_EACH = 50


@pytest.fixture(scope="module")
def server(served: Serve) -> Iterator[Served]:
    """The service with four workers."""
    with served("uvicorn", "server_app:app", "--workers", "4") as running:
        yield running


def load(port: int) -> int:
    """Make requests over a connection that is kept; how many were answered."""
    answered = 0
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    for number in range(REQUESTS_EACH):
        connection.request("GET", f"/v1/items/{number}")
        answered += connection.getresponse().read() == b'{"item":"%d"}' % number
    connection.close()
    return answered


def is_running(pid: int) -> bool:
    """Whether a process has not ended yet."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_counts_of_workers_add_up_exactly(server: Served) -> None:
    """Three times in a row, the scrape tells as many requests as the load generator."""
    sent = 0
    for _ in range(3):
        with ThreadPoolExecutor(8) as threads:
            sent += sum(threads.map(load, [server.port] * CONNECTIONS))
        assert {server.requests(route="/v1/items/{item}") for _ in range(8)} == {sent}
    assert sent == 3 * CONNECTIONS * REQUESTS_EACH


def test_killed_worker_stays_counted(server: Served) -> None:
    """A worker that is killed takes none of its requests with it."""
    counted = server.requests(route="/v1/items/{item}")
    killed = int(server.get("/ready").text)
    before = server.requests(route="/ready")
    os.kill(killed, signal.SIGKILL)
    while is_running(killed):  # it may still take a connection
        time.sleep(0.01)
    assert server.comes_to(4, "trilat_workers")  # the server starts another one
    assert server.requests(route="/v1/items/{item}") == counted
    assert server.requests(route="/ready") == before
