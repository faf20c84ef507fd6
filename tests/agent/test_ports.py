"""Local ports as the kernel tells of them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from trilat.agent.ports import LocalPorts, PortUse

SOCKSTAT = "sockets: used 99\nTCP: inuse 7 orphan 0 tw 40 alloc 9 mem 1\nUDP: inuse 3 mem 0\n"
SNMP = (
    "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm MaxConn ActiveOpens PassiveOpens\n"
    "Tcp: 1 -1 1234 99\nUdp: InDatagrams\nUdp: 5\n"
)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """What the kernel tells."""
    for name, text in (
        ("self/net/sockstat", SOCKSTAT),
        ("self/net/sockstat6", "TCP6: inuse 2\n"),
        ("self/net/snmp", SNMP),
        ("sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_what_is_taken_and_what_there_is(proc: Path) -> None:
    """Open sockets of both families, and those in TIME_WAIT."""
    assert LocalPorts(proc).read() == PortUse(49, 40, 28_232, 1234)


def test_a_kernel_without_the_newer_family(proc: Path) -> None:
    """Has no file of it."""
    (proc / "self/net/sockstat6").unlink()
    assert LocalPorts(proc).read().taken == 47


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("self/net/sockstat", "UDP: inuse 3\n"),
        ("self/net/sockstat", "TCP: inuse x tw 1\n"),
        ("self/net/sockstat", "TCP: inuse 1\n"),
        ("self/net/sockstat6", "TCP6:\n"),
        ("self/net/snmp", "Tcp: ActiveOpens\n"),
        ("self/net/snmp", "Tcp: MaxConn\nTcp: 1\n"),
        ("sys/net/ipv4/ip_local_port_range", "32768\n"),
    ],
)
def test_what_is_damaged_is_refused(proc: Path, name: str, text: str) -> None:
    """Rather than taken for a number."""
    (proc / name).write_text(text)
    with pytest.raises(ValueError, match=r".*"):
        LocalPorts(proc).read()


def test_a_connection_of_this_host_is_counted() -> None:
    """By the kernel that runs here."""
    if not Path("/proc/net/snmp").is_file():
        pytest.skip("not Linux")
    ports = LocalPorts()
    before = ports.read()
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(3):
            socket.create_connection(server.getsockname()).close()
            server.accept()[0].close()
    after = ports.read()
    assert after.opened >= before.opened + 3
    assert 0 < after.available < 2**16
    assert after.taken >= after.time_wait >= 0
