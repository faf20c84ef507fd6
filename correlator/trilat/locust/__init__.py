"""The generator's side: ``import trilat.locust`` in a locustfile is enough.

Importing Locust patches the process for gevent, so this is the only package of trilat that does.
"""

from __future__ import annotations

# np.unique looks for it at its first call, and would load it in the middle of a run.
import numpy.ma  # noqa: F401

import locust
from trilat.locust.health import pools
from trilat.locust.marks import clients, sockets, tls

from .plugin import Plugin

__all__: list[str] = []

sockets.install()
tls.install()
clients.install()
pools.install()
Plugin().listen(locust.events)
