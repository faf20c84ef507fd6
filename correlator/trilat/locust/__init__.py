"""The generator's side: ``import trilat.locust`` in a locustfile is enough.

Importing Locust patches the process for gevent, so this is the only package of trilat that does.
"""

from __future__ import annotations

import locust

from . import clients, sockets, tls
from .plugin import Plugin

__all__: list[str] = []

sockets.install()
tls.install()
clients.install()
Plugin().listen(locust.events)
