"""The other side of all ways: a service on IPv4, IPv6 and TLS, a proxy, and servers that misbehave.

Started as a module with the arguments JOURNALS KEY CHAIN AUTHORITY; prints its ports as JSON.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from tests.locust.ways.peers import answer_oddly, pass_on
from tests.locust.ways.service import app

from trilat.middleware import TrilatMiddleware

JOURNALS = Path(sys.argv[1])


def bound_to(host: str) -> socket.socket:
    """A socket on a free port, for a server to listen with."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.bind((host, 0))
    return bound


def port_of(bound: socket.socket) -> int:
    """Where it listens."""
    port: int = bound.getsockname()[1]
    return port


async def main() -> None:
    """Serve until the process is ended."""
    bound = {"plain": bound_to("127.0.0.1"), "tls": bound_to("127.0.0.1")}
    with suppress(OSError):  # where there is no IPv6
        bound["ipv6"] = bound_to("::1")
    marked = TrilatMiddleware(app, journal=JOURNALS)
    common: dict[str, Any] = {"log_level": "warning", "access_log": False, "lifespan": "off"}
    common["timeout_graceful_shutdown"] = 1  # some requests take longer than anybody waits
    key, chain, authority = sys.argv[2:]
    tls: dict[str, Any] = {"ssl_keyfile": key, "ssl_certfile": chain, "ssl_ca_certs": authority}
    plain = uvicorn.Server(uvicorn.Config(marked, **common))
    secure = uvicorn.Server(
        uvicorn.Config(marked, ssl_cert_reqs=ssl.CERT_OPTIONAL, **tls, **common)
    )
    proxy = await asyncio.start_server(pass_on, "127.0.0.1", 0, limit=2**20)
    odd = await asyncio.start_server(answer_oddly, "127.0.0.1", 0, limit=2**20)
    bound["refused"] = bound_to("127.0.0.1")  # where nobody listens
    ports = {name: port_of(each) for name, each in bound.items()}
    ports |= {"proxy": proxy.sockets[0].getsockname()[1], "odd": odd.sockets[0].getsockname()[1]}
    sockets = [bound[name] for name in ("plain", "ipv6") if name in bound]

    async def say() -> None:
        while not (plain.started and secure.started):
            await asyncio.sleep(0.01)
        print(json.dumps(ports), flush=True)

    await asyncio.gather(plain.serve(sockets), secure.serve([bound["tls"]]), say())


if __name__ == "__main__":
    asyncio.run(main())
