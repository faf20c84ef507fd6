"""The kernel's lists of listening sockets: both ways to them tell the same."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from trilat.agent import listening
from trilat.agent.listeners import Listeners
from trilat.agent.listening import ListeningRow, kernel_rows, proc_rows

NET = Path("/proc/self/net")


class Netlink:
    """Stands where the kernel's socket stands and says what it is told to say."""

    answers: tuple[bytes, ...] = ()

    def __init__(self, *_: int) -> None:
        self._left = list(self.answers)

    def settimeout(self, _seconds: float) -> None:
        """As a socket."""

    def send(self, _raw: bytes) -> None:
        """As a socket."""

    def recv(self, _size: int) -> bytes:
        """The next answer; none is left as if the kernel were silent."""
        if not self._left:
            raise TimeoutError("timed out")
        return self._left.pop(0)

    def close(self) -> None:
        """As a socket."""


def test_both_lists_agree_on_a_socket() -> None:
    """Address, queue and number of one socket are the same by either way."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        try:
            asked = [row for row in kernel_rows() if row.address == address]
        except OSError:
            pytest.skip("no NETLINK_SOCK_DIAG here")
        read = [row for row in proc_rows(NET) if row.address == address]
    assert asked == read
    assert len(read) == 1
    assert read[0].queue == 0


def test_more_sockets_than_one_answer_holds() -> None:
    """Several hundred listening sockets come in pieces, none is missing."""
    code = (
        "import socket\n"
        "from pathlib import Path\n"
        "from trilat.agent.listening import kernel_rows, proc_rows\n"
        "held = [socket.create_server(('127.0.0.1', 0)) for _ in range(400)]\n"
        "own = {f'127.0.0.1:{server.getsockname()[1]}' for server in held}\n"
        "try: asked = kernel_rows()\n"
        "except OSError: asked = proc_rows(Path('/proc/self/net'))\n"
        "for rows in (asked, proc_rows(Path('/proc/self/net'))):\n"
        "    print(len(own - {row.address for row in rows}))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert ran.stdout == b"0\n0\n"


@pytest.mark.parametrize(
    "answer",
    [
        struct.pack("=IHHII", 36, 2, 0, 0, 0) + b"\xff" * 20,  # an error of the kernel's
        struct.pack("=IHHII", 0, 20, 0, 0, 0),  # a length that would never end
        struct.pack("=IHHII", 9999, 20, 0, 0, 0),
        struct.pack("=IHHII", 20, 20, 0, 0, 0) + b"1234",
        b"short",
    ],
)
def test_without_an_answer_the_files_are_read(
    monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    """Where the kernel refuses, is silent or talks rubbish, ``/proc`` tells, then and later."""
    monkeypatch.setattr(listening, "Socket", Netlink)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        for answers in ((answer,), ()):
            monkeypatch.setattr(Netlink, "answers", answers)
            listeners = Listeners()
            for _ in range(2):
                listeners.find()
                assert address in {each.address for each in listeners.read()}


def test_rows_of_a_file() -> None:
    """What listens is listed up to the first connection; the queue and the number are its own."""
    net = Path(__file__).with_name("fake_proc") / "proc/self/net"
    assert proc_rows(net) == [
        ListeningRow("127.0.0.1:8000", 17, 4242),
        ListeningRow("0.0.0.0:22", 0, 77),
        ListeningRow("[::1]:8001", 0, 4245),
    ]
