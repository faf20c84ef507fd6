"""The listening TCP sockets of this network, as the kernel lists them (Linux).

There are two ways. ``NETLINK_SOCK_DIAG`` (sock_diag(7)) answers for the listening ones alone. Where
it is not there, ``/proc/net/tcp`` is read, for which the kernel also walks through its table of
connections: milliseconds, however few there are.
"""

from __future__ import annotations

import socket
import sys
from _socket import socket as Socket  # gevent puts its own into `socket`
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING

from .procfs import whole

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TCP_LISTEN", "ListeningRow", "kernel_rows", "proc_rows"]

TCP_LISTEN = 10
"""The state's number (include/net/tcp_states.h)."""

# include/uapi/linux/netlink.h, sock_diag.h, inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST_DUMP = 0x301
_NLMSG_ERROR = 2
_NLMSG_DONE = 3
_HEADER = Struct("=IHHII")  # length, type, flags, sequence, port
_REQUEST = Struct("=BBBxI48x")  # family, protocol, extensions, states, and any addresses
_ANSWER = Struct("=BBxx2s2x16s32xII4xI")  # family, state, port, address, queue, limit, inode

_PIECE = 4096
_DIAG_PIECE = 2**16
_MAX_ROWS = 4096


@dataclass(frozen=True, slots=True)
class ListeningRow:
    """A listening socket, of whichever process.

    Attributes:
        address: as ``127.0.0.1:8000`` or ``[::]:8000``.
        queue: connections that wait to be accepted.
        inode: number of the socket.
    """

    address: str
    queue: int
    inode: int


def kernel_rows() -> list[ListeningRow]:
    """Ask the kernel for the listening sockets of both families.

    Raises:
        OSError: it does not answer, or with an error.
        ValueError: its answer is cut off.
        struct.error: likewise.
    """
    found: list[ListeningRow] = []
    asked = Socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG)
    with closing(asked):
        asked.settimeout(1)
        for family in (socket.AF_INET, socket.AF_INET6):
            request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << TCP_LISTEN)
            header = _HEADER.pack(
                _HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, family, 0
            )
            asked.send(header + request)
            while len(found) < _MAX_ROWS and not _take(asked.recv(_DIAG_PIECE), found):
                pass
    return found


def _take(raw: bytes, found: list[ListeningRow]) -> bool:
    """Add the sockets in a piece of an answer; whether it was the last one."""
    at = 0
    while at < len(raw):
        length, kind, *_ = _HEADER.unpack_from(raw, at)
        if kind == _NLMSG_DONE:
            return True
        if kind == _NLMSG_ERROR or not _HEADER.size <= length <= len(raw) - at:
            raise OSError("sockets cannot be listed")
        family, _, port, address, queue, _, inode = _ANSWER.unpack_from(raw, at + _HEADER.size)
        packed = address[:4] if family == socket.AF_INET else address
        found.append(ListeningRow(_text(packed, int.from_bytes(port, "big")), queue, inode))
        at += length + -length % 4
    return not raw


def proc_rows(net: Path) -> list[ListeningRow]:
    """Read them from ``tcp`` and ``tcp6`` in a folder such as ``/proc/self/net``.

    Raises:
        OSError: there is no such file.
        ValueError: it is damaged.
    """
    found = list(_listed(net / "tcp"))
    if (net / "tcp6").exists():  # not where IPv6 is switched off
        found += _listed(net / "tcp6")
    return found


def _listed(path: Path) -> Iterator[ListeningRow]:
    """The rows of one file; the kernel lists what listens first, so the others are not read.

    Columns (proc_net_tcp in the kernel's documentation): number, local address, remote address,
    state, tx_queue:rx_queue (of a listening socket the connections that wait), ..., inode.
    """
    rest = b""
    rows = -1  # the first line names the columns
    with path.open("rb", buffering=0) as file:
        while rows < _MAX_ROWS and (piece := file.read(_PIECE)):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                rows += 1
                if rows == 0:
                    continue
                columns = line.split()
                if len(columns) < 10:
                    raise ValueError(f"{path}: a row of {len(columns)} columns")
                if int(columns[3], 16) != TCP_LISTEN:
                    return
                queue = int(columns[4].partition(b":")[2], 16)
                yield ListeningRow(_address(columns[1]), queue, whole(columns[9]))


def _address(text: bytes) -> str:
    """An address of ``/proc/net/tcp``: 32-bit words in the host's byte order, port in hex."""
    digits, _, port = text.partition(b":")
    raw = bytes.fromhex(digits.decode("ascii"))
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return _text(raw, int(port, 16))


def _text(packed: bytes, port: int) -> str:
    if len(packed) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, packed)}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, packed)}]:{port}"
