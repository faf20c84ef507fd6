"""Servers on loopback for tests of the stamped sockets, and a client's few steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gevent
import gevent.server
import gevent.socket

from trilat.agent import stamp
from trilat.agent.marking import trace_context
from trilat.agent.records import UNKNOWN, ServiceMarks
from trilat.locust.marks.timeline import Timeline, attach

__all__ = [
    "BLOCKED_S",
    "REQUEST",
    "answer_to",
    "block",
    "dial",
    "echo",
    "opened",
    "read_head",
    "serving",
]

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
BLOCKED_S = 0.06


def answer_to(head: bytes) -> bytes:
    """A small answer with the stamp that the request's marks ask for."""
    line = next(x for x in head.split(b"\r\n") if x.startswith(b"traceparent: "))
    context = trace_context(line.removeprefix(b"traceparent: "))
    assert context is not None
    marks = ServiceMarks(context[2], time.time_ns(), 5, UNKNOWN, 0, 4000, 1, 1)
    timing = b"server-timing: " + stamp.encode(marks)  # app;dur=…, queue;dur=…, trilat;desc=…
    return b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n" + timing + b"\r\n\r\nok"


def read_head(connection: Any) -> bytes:
    """Everything up to the empty line."""
    head = b""
    while b"\r\n\r\n" not in head:
        chunk = connection.recv(4096)
        if not chunk:
            return head
        head += chunk
    return head


@contextmanager
def serving(handle: Callable[[Any], None], **options: Any) -> Iterator[tuple[str, int]]:
    """A server whose connections go to ``handle``, each in a greenlet."""
    handlers = []

    def handle_and_close(connection: Any, _: Any) -> None:
        handlers.append(gevent.getcurrent())
        with connection:
            handle(connection)

    server = gevent.server.StreamServer(("127.0.0.1", 0), handle_and_close, **options)
    server.start()
    try:
        assert server.server_port is not None
        yield "127.0.0.1", server.server_port
    finally:
        server.stop()
        gevent.joinall(handlers, timeout=10)


@contextmanager
def dial(address: tuple[str, int]) -> Iterator[Any]:
    """A connection, closed at the end."""
    connection = gevent.socket.create_connection(address)
    try:
        yield connection
    finally:
        connection.close()


def opened() -> Timeline:
    """A timeline in the current greenlet."""
    timeline = Timeline()
    attach(timeline)
    return timeline


def block(seconds: float) -> None:
    """Keep the hub from running anything else."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def echo(connection: Any) -> None:
    """Answer each request with its stamp."""
    while head := read_head(connection):
        connection.sendall(answer_to(head))
