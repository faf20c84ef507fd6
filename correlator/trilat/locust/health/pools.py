"""How long requests wait for a free connection, where users share a bounded pool of them.

That wait is the load generator's own: it is part of ``generator.send``. It happens with a
``pool_manager`` of ``block=True`` (HttpUser), with a ``client_pool`` (FastHttpUser), and where one
FastHttpUser makes more requests at once than its ``concurrency``. Only pools in which a request can
wait are touched, each by itself: no other request pays for this, and one that finds a connection
pays for one comparison.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter_ns
from typing import Any

from geventhttpclient.connectionpool import ConnectionPool
from urllib3.connectionpool import HTTPConnectionPool

from trilat.locust import faults

__all__ = ["PoolWaits", "install", "waits"]

_FastPool: Any = ConnectionPool
_HttpPool: Any = HTTPConnectionPool
_plain_create = _FastPool._create_socket
_plain_get_socket = _FastPool.get_socket
_plain_init = _HttpPool.__init__
_plain_get_conn = _HttpPool._get_conn


class PoolWaits:
    """Counts the waits of this process that have ended.

    Attributes:
        count: how many.
        total_ns: their sum.
        longest_ns: the longest since the last `read`.
    """

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0
        self.longest_ns = 0
        self._read = (0, 0)

    def add(self, took_ns: int) -> None:
        """Count one."""
        self.count += 1
        self.total_ns += took_ns
        self.longest_ns = max(self.longest_ns, took_ns)

    def read(self) -> dict[str, Any]:
        """What was counted since the last call, as keys of a sample."""
        count, total_ns = self._read
        self._read = (self.count, self.total_ns)
        longest, self.longest_ns = self.longest_ns, 0
        return {
            "pool_waits": self.count - count,
            "pool_wait_ms": round((self.total_ns - total_ns) / 1e6, 3),
            "pool_wait_max_ms": round(longest / 1e6, 3),
        }


waits = PoolWaits()
"""Those of this process."""


def install() -> None:
    """Watch the pools that are made from now on; a second call changes nothing."""
    _FastPool._create_socket = _create_socket
    _HttpPool.__init__ = _init


def _create_socket(self: Any) -> Any:
    # The first connection that fills the pool: from now on somebody may have to wait.
    try:
        if "get_socket" not in self.__dict__ and not self._semaphore.counter:
            self.get_socket = partial(_get_socket, self)
    except Exception as error:  # noqa: BLE001 - fails open
        faults.note("a connection pool", error)
    return _plain_create(self)


def _get_socket(self: Any) -> Any:
    semaphore = self._semaphore
    if not semaphore.counter:
        began = perf_counter_ns()
        semaphore.acquire()
        # What follows takes it again at once: nobody else runs in between.
        semaphore.release()
        waits.add(perf_counter_ns() - began)
    return _plain_get_socket(self)


def _init(self: Any, *args: Any, **kwargs: Any) -> None:
    _plain_init(self, *args, **kwargs)
    if getattr(self, "block", False):
        self._get_conn = partial(_get_conn, self)


def _get_conn(self: Any, timeout: Any = None) -> Any:
    free = self.pool
    if free is None or not free.empty():
        return _plain_get_conn(self, timeout)
    began = perf_counter_ns()
    try:
        return _plain_get_conn(self, timeout)
    finally:
        waits.add(perf_counter_ns() - began)
