"""What this machine can measure, found by trying each thing on loopback."""

from __future__ import annotations

import os
import platform
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from threading import Thread
from typing import Any

from trilat.agent.errors import InputError
from trilat.agent.host import host_facts
from trilat.agent.records import UNKNOWN
from trilat.agent.tcp import (
    HAS_KERNEL_STAMPS,
    RECEIVE_STAMP,
    SO_TIMESTAMPNS,
    STAMP_BUFFER,
    last_data_received_ms,
)

from .asking import Asker
from .finding import Finding

__all__ = ["examine"]

_Message = MutableMapping[str, Any]
_START_S = 10.0


def examine() -> list[Finding]:
    """Try everything that a run on this machine depends on."""
    return [
        _locust(),
        _receive_stamps(),
        _tcp_info(),
        _uvicorn(),
        _processors(),
    ]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _locust() -> Finding:
    python = f"Python {platform.python_version()}"
    found = _installed("locust")
    if found is None:
        return Finding(
            "locust",
            "missing",
            f"{python}, Locust is not installed",
            "no load can be made from here",
            "pip install 'trilat[locust]'",
        )
    return Finding("locust", "ok", f"{python}, Locust {found}, gevent {_installed('gevent')}")


@contextmanager
def _tcp_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a TCP connection over loopback."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=2) as near,
    ):
        far, _ = server.accept()
        with far:
            far.settimeout(2)
            yield near, far


def _receive_stamps() -> Finding:
    try:
        lay_us = _try_receive_stamp()
    except (OSError, ValueError) as error:
        return Finding(
            "receive-stamps",
            "missing",
            f"this kernel does not tell when an answer arrived ({error})",
            "generator.read becomes an estimate from a heartbeat",
            "make the load from Linux",
        )
    return Finding(
        "receive-stamps",
        "ok",
        f"the kernel tells when an answer arrived (one that lay 5 ms: {lay_us / 1000:.2f} ms)",
    )


def _try_receive_stamp() -> float:
    """How long a message that waits 5 ms lay unread by the kernel's stamp, in microseconds.

    Raises:
        OSError: the socket refuses.
        ValueError: the stamp did not come.
    """
    if not HAS_KERNEL_STAMPS:
        raise ValueError(f"{platform.system()} has no SO_TIMESTAMPNS")
    with _tcp_pair() as (near, far):
        far.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        near.sendall(b"?")
        time.sleep(0.005)
        _, control, _, _ = far.recvmsg(1, STAMP_BUFFER)
        now_ns = time.time_ns()
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, nanoseconds = RECEIVE_STAMP.unpack(data)
            arrived_ns: int = seconds * 1_000_000_000 + nanoseconds
            return (now_ns - arrived_ns) / 1000
    raise ValueError("the option was taken, the stamp did not come")


def _tcp_info() -> Finding:
    tick_ms = host_facts().tick_us / 1000
    try:
        with _tcp_pair() as (near, far):
            near.sendall(b"?")
            far.recv(1)
            last_data_received_ms(far)
    except (OSError, struct.error) as error:
        return Finding(
            "tcp-info",
            "missing",
            f"no TCP_INFO here ({error})",
            "a service on this machine cannot tell how long a request waited for it",
            "run the service on Linux",
        )
    return Finding(
        "tcp-info", "ok", f"the kernel tells when a request arrived, to one tick of {tick_ms:g} ms"
    )


def _uvicorn() -> Finding:
    found = _installed("uvicorn")
    if found is None:
        return Finding(
            "uvicorn",
            "note",
            "uvicorn is not installed here; a service elsewhere is examined with --url",
        )
    uvloop = _installed("uvloop")
    server = f"uvicorn {found}" + (f" with uvloop {uvloop}" if uvloop else " without uvloop")
    try:
        queue_ms = _queue_told_by_uvicorn()
    except (InputError, ImportError, RuntimeError) as error:
        return Finding(
            "uvicorn",
            "missing",
            f"{server}: no stamp came back ({error})",
            "this server's answers cannot be attributed",
            "update uvicorn, or start the service with another of its releases",
        )
    if queue_ms == UNKNOWN:
        return Finding(
            "uvicorn",
            "missing",
            f"{server} hides its sockets",
            "service.queue and the network cannot be told apart here",
            "pip install --upgrade uvicorn",
        )
    return Finding("uvicorn", "ok", f"{server}: stamps come back, and its sockets can be asked")


async def _hello(
    scope: _Message,
    _receive: Callable[[], Awaitable[_Message]],
    send: Callable[[_Message], Awaitable[None]],
) -> None:
    assert scope["type"] == "http", "the server runs without lifespan"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def _queue_told_by_uvicorn() -> int:
    """What a real uvicorn's stamp says of the queue, in milliseconds, or UNKNOWN.

    Raises:
        InputError: no answer, or one without a stamp.
        RuntimeError: the server did not start.
    """
    import uvicorn

    from trilat.middleware import TrilatMiddleware

    app: Any = TrilatMiddleware(_hello)
    config = uvicorn.Config(app, host="127.0.0.1", port=0, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, name="trilat-doctor", daemon=True)
    thread.start()
    try:
        ends = time.monotonic() + _START_S
        while not server.started:
            if time.monotonic() > ends or not thread.is_alive():
                raise RuntimeError("it did not start")
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        with Asker(f"http://127.0.0.1:{port}/") as asker:
            marks = asker.ask().marks
    finally:
        server.should_exit = True
        thread.join(timeout=_START_S)
    if marks is None:
        raise InputError("the answer came without one")
    return marks.queue_ms


def _processor_count() -> int:
    return host_facts().cpus


def _processors() -> Finding:
    cpus = _processor_count()
    seen = f"{cpus} processors"
    with suppress(AttributeError, OSError):  # not on Windows
        seen += f", load average {os.getloadavg()[0]:.1f}"
    if cpus < 2:
        return Finding(
            "processors",
            "note",
            seen,
            "a generator and a service on this machine take turns on one processor",
            "make the load from another machine",
        )
    return Finding("processors", "ok", seen)
