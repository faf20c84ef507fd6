"""Kernel evidence of the wait that no application sees: before the ASGI app is called.

While the event loop is busy, a request lies in the kernel's socket buffer. When the app is called
at last, ``TCP_INFO`` still tells how long ago the connection's last data came: the request's own,
since over HTTP/1 a client waits for its answer. A body that comes in several segments, or a client
that pipelines, moves that moment to the last segment; the wait is then told too short, never too
long.

uvicorn hands its protocol's request as the ``receive`` callable's owner, and with it the
transport, under asyncio and uvloop alike. Other servers, and middleware that wraps ``receive``,
hide it: then nothing is known.
"""

from __future__ import annotations

import struct
from typing import Any

from trilat.agent.records import UNKNOWN
from trilat.agent.tcp import last_data_received_ms

from .asgi import Scope

__all__ = ["queued_ms"]

_ONE_REQUEST_AT_A_TIME = ("1.1", "1.0")
_LONGEST_MS = 2**31 - 1


def queued_ms(scope: Scope, server: Any) -> int:
    """How long the request lay in the kernel before this call, in milliseconds.

    Args:
        scope: of the request.
        server: whose method the server's ``receive`` is; None where it is no method.

    Returns:
        Whole milliseconds that are true within one kernel tick, or `UNKNOWN`: the server hides
        its socket, it is not a TCP socket, the platform has no such evidence, or the requests of
        an HTTP/2 connection share one socket.
    """
    if scope.get("http_version") not in _ONE_REQUEST_AT_A_TIME:
        return UNKNOWN
    try:
        transport = server.transport
        # asyncio's way to the socket costs as much as the system call.
        sock = getattr(transport, "_sock", None) or transport.get_extra_info("socket")
        waited_ms = last_data_received_ms(sock)
    except (AttributeError, OSError, struct.error):
        return UNKNOWN
    return waited_ms if waited_ms <= _LONGEST_MS else UNKNOWN
