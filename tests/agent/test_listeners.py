"""Listening sockets and their queues: real ones, and those of a made-up ``/proc``."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilat.agent.listeners import Listener, Listeners

if TYPE_CHECKING:
    from collections.abc import Iterator

FAKE = Path(__file__).with_name("fake_proc") / "proc"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A ``/proc`` whose process listens on two of the sockets there are."""
    copied = shutil.copytree(FAKE, tmp_path / "proc")
    folder = copied / "self/fd"
    folder.mkdir()
    targets = {
        "0": "/dev/null",
        "700": "socket:[4242]",
        "701": "socket:[4243]",
        "702": "socket:[4245]",
        "703": "pipe:[77]",
    }
    for name, target in targets.items():
        (folder / name).symlink_to(target)
    return copied


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """A socket that listens, with room for 7 connections."""
    with socket.create_server(("127.0.0.1", 0), backlog=7) as server:
        yield server


def address_of(server: socket.socket) -> str:
    """Where it listens."""
    host, port = server.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def found(listeners: Listeners) -> dict[str, Listener]:
    """What there is now, by address."""
    listeners.find()
    return {listener.address: listener for listener in listeners.read()}


def test_the_kernels_list_is_read_where_the_socket_cannot_be_asked(proc: Path) -> None:
    """The own ones of both families, with their queues; a limit is not in the list."""
    listeners = Listeners(proc)
    listeners.find()
    assert listeners.read() == [
        Listener("127.0.0.1:8000", 17, None),
        Listener("[::1]:8001", 0, None),
    ]


def test_a_socket_that_is_gone_from_the_list_is_left_out(proc: Path) -> None:
    """Between two looks for sockets one was closed."""
    listeners = Listeners(proc)
    listeners.find()
    shutil.copy(proc / "self/net/tcp", proc / "self/net/tcp6")
    assert [listener.address for listener in listeners.read()] == ["127.0.0.1:8000"]


def test_without_ipv6_there_is_one_list(proc: Path) -> None:
    """Where IPv6 is switched off there is no such file."""
    (proc / "self/net/tcp6").unlink()
    assert list(found(Listeners(proc))) == ["127.0.0.1:8000"]


def test_a_real_queue_is_told_with_its_limit(listening: socket.socket) -> None:
    """Three clients connect, none is accepted: three wait, seven may."""
    listeners = Listeners()
    address = address_of(listening)
    assert found(listeners)[address] == Listener(address, 0, 7)
    clients = [socket.create_connection(listening.getsockname()) for _ in range(3)]
    try:
        deadline = time.monotonic() + 10  # the last step of a handshake comes after connect()
        while found(listeners)[address].queue < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert found(listeners)[address] == Listener(address, 3, 7)
        listening.accept()[0].close()
        (told,) = (each for each in listeners.read() if each.address == address)
        assert told.queue == 2
    finally:
        for client in clients:
            client.close()


def test_a_real_socket_of_ipv6() -> None:
    """Its address is written as in a URL."""
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with server:
        assert address_of(server) in found(Listeners())


def test_a_number_that_was_given_anew_is_not_asked(listening: socket.socket) -> None:
    """A listener is closed and its descriptor is a file by now: it is left out, the file unhurt."""
    listeners = Listeners()
    address, number = address_of(listening), listening.fileno()
    assert address in found(listeners)
    listening.detach()
    with open(os.devnull, "rb") as null:  # noqa: PTH123
        os.dup2(null.fileno(), number)
    try:
        assert address not in {listener.address for listener in listeners.read()}
        os.fstat(number)
    finally:
        os.close(number)


def test_other_processes_listeners_are_not_ours() -> None:
    """A socket that another process listens on is in the kernel's list, and not told."""
    code = (
        "import socket; server = socket.create_server(('127.0.0.1', 0))\n"
        "print(server.getsockname()[1], flush=True); input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        assert f"127.0.0.1:{port}" not in found(Listeners())
        child.communicate("\n")


@pytest.mark.parametrize(
    "bad", ["x", "0: 0100007F:1F40 0:0 0A 0:0", "0: zz:1 0:0 0A 0:0 0 0 0 0 1"]
)
def test_a_damaged_list_is_refused(proc: Path, bad: str) -> None:
    """What no kernel writes is an error, not a socket."""
    (proc / "self/net/tcp").write_text(f"  sl\n{bad}\n")
    with pytest.raises(ValueError, match=r"\w"):
        Listeners(proc).find()


@given(st.binary(max_size=300), st.integers(0, 800), st.text("socket:[]0123456789", min_size=1))
@settings(max_examples=100, deadline=None)
def test_any_content_gives_sockets_or_a_value_error(raw: bytes, at: int, target: str) -> None:
    """Whatever stands in the list and in the links: sockets, or a `ValueError`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "self"
        (folder / "net").mkdir(parents=True)
        (folder / "fd").mkdir()
        (folder / "fd/900").symlink_to(target)
        rows = bytearray((FAKE / "self/net/tcp").read_bytes())
        rows[at : at + len(raw)] = raw
        (folder / "net/tcp").write_bytes(rows)
        listeners = Listeners(folder.parent)
        with suppress(ValueError):
            listeners.find()
            assert all(listener.queue >= 0 for listener in listeners.read())
