"""The wait for a free connection, in the pools of both of Locust's clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import gevent
import gevent.server
import pytest
import urllib3
from geventhttpclient import HTTPClient

from trilat.locust import faults
from trilat.locust.health import pools

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
TAKES_S = 0.02
TOGETHER = 6


@pytest.fixture
def port() -> Iterator[int]:
    """A server on loopback that takes its time, and keeps connections open."""

    def answer(connection: gevent.socket.socket, _: object) -> None:
        while connection.recv(4096):
            gevent.sleep(TAKES_S)
            connection.sendall(ANSWER)

    faults.counts.clear()
    server = gevent.server.StreamServer(("127.0.0.1", 0), answer)
    server.start()
    pools.waits.read()
    yield int(server.address[1])
    server.stop()
    assert not faults.counts


def at_once(request: Callable[[], None], number: int = TOGETHER) -> None:
    """Make so many requests at once."""
    gevent.joinall([gevent.spawn(request) for _ in range(number)], raise_error=True)


def assert_waited(connections: int) -> None:
    """All but the first few waited: a turn each, the last ones several."""
    told = pools.waits.read()
    assert told["pool_waits"] == TOGETHER - connections
    turns = sum(number // connections for number in range(TOGETHER))
    assert told["pool_wait_ms"] > 0.8 * 1000 * TAKES_S * turns
    assert told["pool_wait_max_ms"] > 0.8 * 1000 * TAKES_S * (TOGETHER // connections - 1)
    assert pools.waits.read()["pool_waits"] == 0


def test_requests_that_share_the_connections_of_a_fast_client_wait(port: int) -> None:
    """A request that finds a free connection does not, and its client is as it was."""
    client = HTTPClient("127.0.0.1", port, concurrency=2)

    def request() -> None:
        client.get("/").read()

    request()
    request()
    assert pools.waits.read()["pool_waits"] == 0
    assert "get_socket" not in vars(client._connection_pool)
    at_once(request)
    assert_waited(2)
    request()
    assert pools.waits.read()["pool_waits"] == 0
    client.close()


def test_requests_wait_for_a_pool_manager_that_blocks(port: int) -> None:
    """So does one that gives up waiting."""
    manager = urllib3.PoolManager(maxsize=2, block=True)

    def request() -> None:
        manager.request("GET", f"http://127.0.0.1:{port}/")

    def impatient() -> None:
        with pytest.raises(urllib3.exceptions.EmptyPoolError):
            manager.request("GET", f"http://127.0.0.1:{port}/", pool_timeout=0.001, retries=False)

    request()
    assert pools.waits.read()["pool_waits"] == 0
    at_once(request)
    assert_waited(2)
    busy = [gevent.spawn(request) for _ in range(2)]
    gevent.sleep(0)
    at_once(impatient, 3)
    gevent.joinall(busy, raise_error=True)
    assert pools.waits.read()["pool_waits"] == 3
    manager.clear()


def test_a_pool_in_which_nobody_waits_is_left_as_it_is(port: int) -> None:
    """Requests' own pools open one more connection instead, and cost nothing more."""
    manager = urllib3.PoolManager(maxsize=1)
    url = f"http://127.0.0.1:{port}/"

    def request() -> None:
        manager.request("GET", url)

    at_once(request)
    assert pools.waits.read()["pool_waits"] == 0
    pool = manager.connection_from_url(url)
    assert "_get_conn" not in vars(pool)
    manager.clear()
