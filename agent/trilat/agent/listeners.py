"""The listening TCP sockets of this process: how many connections wait to be accepted (Linux).

A connection that waits there is complete for its client, which has sent its request already: the
wait is part of the response time, and where the queue is full clients wait for a second and more.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from _socket import socket as Socket  # gevent puts its own into `socket`
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from .listening import TCP_LISTEN, ListeningRow, kernel_rows, proc_rows
from .procfs import whole

__all__ = ["Listener", "Listeners"]

_TCP_INFO = getattr(socket, "TCP_INFO", 11)
# struct tcp_info (include/uapi/linux/tcp.h): tcpi_state, then tcpi_unacked and tcpi_sacked at 24,
# which of a listening socket are the connections that wait and how many may (tcp_get_info()).
_LISTEN_INFO = struct.Struct("=B23xII")
_MAX_DESCRIPTORS = 4096
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket at one moment.

    Attributes:
        address: where it listens, as ``127.0.0.1:8000`` or ``[::]:8000``.
        queue: connections that wait to be accepted.
        limit: how many may wait; None where the kernel does not tell it.
    """

    address: str
    queue: int
    limit: int | None


class Listeners:
    """Finds the sockets and asks for their queues.

    Args:
        proc: where the kernel tells of processes.
    """

    def __init__(self, proc: Path = _PROC) -> None:
        self._self = proc / "self"
        self._asks_kernel = proc == _PROC
        self._found: dict[int, ListeningRow] = {}

    def find(self) -> None:
        """Look for sockets that this process listens on.

        Costs some microseconds a descriptor.

        Raises:
            OSError: the kernel does not tell.
            ValueError: what it tells is damaged.
        """
        rows = {row.inode: row for row in self._rows()}
        self._found = {}
        if not rows:
            return
        folder = f"{self._self}/fd"
        # os and not pathlib, which takes ten times as long for each of many descriptors
        numbers = sorted(int(name) for name in os.listdir(folder) if name.isdigit())  # noqa: PTH208
        for number in numbers[:_MAX_DESCRIPTORS]:  # a server listens before it accepts
            if not rows:
                return
            try:
                target = os.readlink(f"{folder}/{number}")  # noqa: PTH115
            except OSError:  # closed meanwhile
                continue
            if target.startswith("socket:["):
                row = rows.pop(whole(target[8:-1].encode()), None)
                if row is not None:
                    self._found[number] = row

    def read(self) -> list[Listener]:
        """The sockets that were found, as they are now; those closed since are left out.

        Raises:
            OSError: the kernel does not tell.
            ValueError: what it tells is damaged.
        """
        told: list[Listener] = []
        silent: list[ListeningRow] = []
        for number, row in self._found.items():
            waiting = _ask(number, row.inode)
            if waiting is None:
                silent.append(row)
            else:
                told.append(Listener(row.address, *waiting))
        if silent:  # the descriptor is not one of ours, or this kernel tells no TCP_INFO
            now = {row.inode: row for row in self._rows()}
            told += [
                Listener(now[row.inode].address, now[row.inode].queue, None)
                for row in silent
                if row.inode in now
            ]
        return sorted(told, key=lambda listener: listener.address)

    def _rows(self) -> list[ListeningRow]:
        if self._asks_kernel:
            try:
                return kernel_rows()
            except (OSError, ValueError, struct.error):  # not all kernels and sandboxes answer
                self._asks_kernel = False
        return proc_rows(self._self / "net")


def _ask(number: int, inode: int) -> tuple[int, int] | None:
    """Connections waiting on a descriptor and their limit, if it still is the socket it was."""
    try:
        own = os.dup(number)  # the number may be closed and given anew at any moment
    except OSError:
        return None
    try:
        status = os.fstat(own)
        if not stat.S_ISSOCK(status.st_mode) or status.st_ino != inode:
            return None
        asked = Socket(fileno=own)
        own = -1
        with closing(asked):
            raw = asked.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _LISTEN_INFO.size)
        state, waiting, limit = _LISTEN_INFO.unpack(raw)
    except (OSError, ValueError):
        return None
    finally:
        if own >= 0:
            os.close(own)
    return (waiting, limit) if state == TCP_LISTEN else None
