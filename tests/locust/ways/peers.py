"""A proxy, and a server that answers as no service should; both speak on raw sockets."""

from __future__ import annotations

import asyncio
import time
from asyncio import StreamReader, StreamWriter
from base64 import b64encode
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from trilat.agent.marking import trace_context
from trilat.agent.stamp import STAMP

CONNECT_S = 0.02
"""How long the proxy takes to open a tunnel, at least."""
CLOSE_S = 0.04
"""How long a connection whose end is the body's end stays open, at least."""
_HONEST: dict[str, int] = {
    "app_ns": 1000,
    "blocked_ns": -1,
    "queue_ms": 0,
    "tick_10us": 400,
    "flags": 0,
    "host": 1,
    "instance": 1,
}


async def pass_on(reader: StreamReader, writer: StreamWriter) -> None:
    """Serve one connection of an HTTP proxy: a tunnel, or requests that name a whole URL."""
    with suppress(OSError, asyncio.IncompleteReadError, ValueError):
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b" ", 2)
        if method == b"CONNECT":
            await asyncio.sleep(CONNECT_S)
            host, _, port = target.decode().rpartition(":")
            above, below = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            url = urlsplit(target.decode())
            above, below = await asyncio.open_connection(url.hostname, url.port)
            below.write(head)
        await asyncio.gather(_copy(reader, below), _copy(above, writer))
    writer.close()


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def stamp_of(span: int, **marks: int) -> bytes:
    """A ``trilat`` entry of these marks, honest or not."""
    values = {"span": span, "called_wall_ns": time.time_ns(), **_HONEST, **marks}
    return b'trilat;desc="1.' + b64encode(STAMP.pack(*values.values())) + b'"'


def timing(span: int, **marks: int) -> bytes:
    """A whole header line with a stamp of these marks."""
    return b"server-timing: app;dur=0.001, " + stamp_of(span, **marks) + b"\r\n"


HOSTILE: dict[str, Any] = {
    "no base64": b'server-timing: trilat;desc="1.%%%"\r\n',
    "cut short": lambda span: timing(span)[:60] + b'"\r\n',
    "not a number": b'server-timing: app;dur=NaN, queue;dur=-inf, trilat;desc="1.NaN"\r\n',
    "not ASCII": b'server-timing: app;dur=\xff\xfe\x80, trilat;desc="1.\xff"\r\n',
    "of another version": lambda span: timing(span).replace(b"1.", b"9."),
    "of another request": lambda span: timing(span ^ 1),
    "of several others": lambda span: timing(span ^ 1) + timing(span ^ 2) + timing(0),
    "negative time": lambda span: timing(span, app_ns=-5_000_000),
    "longer than the request": lambda span: timing(span, app_ns=10**15),
    "longest of all": lambda span: timing(span, app_ns=2**63 - 1, blocked_ns=2**63 - 1),
    "negative queue": lambda span: timing(span, queue_ms=-(2**31)),
    "negative lag": lambda span: timing(span, blocked_ns=-(2**63)),
    "before the epoch": lambda span: timing(span, called_wall_ns=-(2**63)),
    "never": lambda span: timing(span, called_wall_ns=0),
    "a line of 60 kB": b"server-timing: " + b"x;dur=1, " * 6000 + b"y\r\n",
    "a line of 300 kB": b"server-timing: " + b"x;dur=1, " * 33000 + b"y\r\n",
    "300 lines": lambda span: timing(span ^ 1) * 300,
    "no stamp": b"",
}
"""Header lines that are no evidence: bytes, or made of the request's span id."""


async def answer_oddly(reader: StreamReader, writer: StreamWriter) -> None:
    """Serve requests, by the first part of their path."""
    with suppress(OSError, asyncio.IncompleteReadError, ValueError, asyncio.LimitOverrunError):
        while head := await reader.readuntil(b"\r\n\r\n"):
            path = head.split(b" ", 2)[1].decode().strip("/").split("/")
            line = next((x for x in head.split(b"\r\n") if x.startswith(b"traceparent: ")), b"")
            context = trace_context(line.removeprefix(b"traceparent: "))
            span = context[2] if context else 0
            if not await _answer(writer, path, span):
                break
    writer.close()


async def _answer(writer: StreamWriter, path: list[str], span: int) -> bool:
    """Answer one request.

    Returns:
        Whether the connection goes on.
    """
    usual = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n"
    interim = (
        b"HTTP/1.1 " + path[-1].encode() + b" So far\r\nlink: </style.css>; rel=preload\r\n\r\n"
    )
    match path[0]:
        case "hostile":
            lines = list(HOSTILE.values())[int(path[1])]
            writer.write(usual + (lines if isinstance(lines, bytes) else lines(span)) + b"\r\nok")
        case "garbage":
            writer.write(b"\x00\xff this is not HTTP \r\n\r\n")
            return False
        case "interim-with":
            writer.write(interim + usual + timing(span) + b"\r\nok")
        case "interim-before":
            writer.write(interim)
            await writer.drain()
            await asyncio.sleep(CLOSE_S)
            writer.write(usual + timing(span, app_ns=round(CLOSE_S * 1e9)) + b"\r\nok")
        case "several":
            entries = b", ".join((stamp_of(span), stamp_of(span ^ 1), stamp_of(span)))
            writer.write(usual + b"server-timing: " + entries + b"\r\n\r\nok")
        case "trickle":
            for byte in usual + timing(span) + b"\r\nok":
                writer.write(bytes((byte,)))
                await writer.drain()
                await asyncio.sleep(0)
        case "until-closed":
            writer.write(b"HTTP/1.1 200 OK\r\n" + timing(span) + b"\r\nok")
            await writer.drain()
            await asyncio.sleep(CLOSE_S)
            return False
        case _:
            writer.write(usual + b"\r\nok")
    await writer.drain()
    return True
