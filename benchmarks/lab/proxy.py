"""A load balancer before the service: a real nginx that hands on, or answers by itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .processes import LabError, started
from .scenario import ServiceOptions

__all__ = ["proxied"]

_CONFIGURATION = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}/nginx-body;
  proxy_temp_path {folder}/nginx-proxy;
  fastcgi_temp_path {folder}/nginx-fastcgi;
  uwsgi_temp_path {folder}/nginx-uwsgi;
  scgi_temp_path {folder}/nginx-scgi;
  {zone}
  upstream service {{ server {upstream}; keepalive 256; }}
  server {{
    listen {listens};
    keepalive_requests 1000000;
    location / {{
      {limit}
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_pass http://service;
    }}
  }}
}}
"""


@contextmanager
def proxied(
    options: ServiceOptions, folder: Path, listens: str, upstream: str, namespace: int | None
) -> Iterator[None]:
    """Run nginx before a service, for as long as the block lasts.

    Args:
        options: the service's.
        folder: for its configuration and what it writes.
        listens: address and port to listen on.
        upstream: address and port of the service.
        namespace: the network namespace to run in.

    Raises:
        LabError: there is no nginx here.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        raise LabError("there is no nginx here (Debian: apt-get install nginx-light)")
    zone = limit = ""
    if options.proxy == "limit":
        zone = f"limit_req_zone all zone=all:1m rate={options.proxy_rate}r/s;"
        limit = "limit_req zone=all burst=2 nodelay;"
    configuration = folder / "nginx.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            folder=folder, zone=zone, limit=limit, upstream=upstream, listens=listens
        )
    )
    command = [program, "-p", str(folder), "-c", str(configuration)]
    with started(command, folder / "nginx.log", namespace=namespace):
        yield
