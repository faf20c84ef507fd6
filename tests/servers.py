"""Servers as processes: started, waited for until they say that they listen, and ended."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Started", "end", "free_port", "own_ports", "started"]

_STARTS_WITHIN_S = 60.0  # a busy machine may take long; nothing is slower for a generous limit
_STOPS_WITHIN_S = 20.0
_LOOKS_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Started:
    """A server's process.

    Attributes:
        process: of the server; workers are its children.
        log: what it has written so far, to either stream, is in this file.
    """

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        """What it has written so far."""
        return self.log.read_text(errors="replace")

    def looks(self) -> Iterator[None]:
        """Look again and again while there is hope that the server gets ready.

        Raises:
            RuntimeError: it has ended, or takes too long; with what it wrote.
        """
        gives_up = time.monotonic() + _STARTS_WITHIN_S
        while time.monotonic() < gives_up and self.process.poll() is None:
            yield
            time.sleep(_LOOKS_EVERY_S)
        raise RuntimeError(f"the server did not start:\n{self.said}")

    def when_says(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Wait until it has written something; what it wrote."""
        for _ in self.looks():
            if found := pattern.search(self.said):
                return found
        raise AssertionError("looking ends with an error")

    def when_listens(self, port: int) -> None:
        """Wait until it takes connections on a port of 127.0.0.1."""
        for _ in self.looks():
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return


@contextmanager
def started(
    command: Sequence[str | Path],
    log: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    in_a_session: bool = False,
) -> Iterator[Started]:
    """Start a server, and end it with the block.

    Args:
        command: of the server.
        log: the file that its output goes to.
        cwd: its working directory, if not ours.
        env: its environment, if not ours.
        in_a_session: as the leader of a session of its own, all of which is ended with it.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=env,
            start_new_session=in_a_session,
        )
    try:
        yield Started(process, log)
    finally:
        end(process)
        if in_a_session:
            with suppress(ProcessLookupError):  # workers that outlived their parent
                os.killpg(process.pid, signal.SIGKILL)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and make it end if it does not."""
    process.terminate()
    try:
        process.wait(_STOPS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has, for a server that has to be told one.

    It lies below those that the system gives to connections, so that it stays free.
    """
    while True:
        port = random.randrange(10_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def own_ports(options: Sequence[str]) -> list[str]:
    """Locust's options for processes that meet on a port of their own, if there are several."""
    if "--processes" not in options:
        return []
    port = str(free_port())
    return ["--master-bind-port", port, "--master-port", port]
