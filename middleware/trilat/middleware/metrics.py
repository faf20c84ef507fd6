"""The metrics of a service over HTTP: an application of its own, mounted where one likes."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import (
    CONTENT_TYPE_PLAIN_0_0_4,
    choose_encoder,
    gzip_accepted,
)

from trilat.agent.collector import ServiceCollector

from .health import HEALTH, Health
from .serving import TEXT, Beside, answer, live

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from .asgi import Receive, Scope, Send

__all__ = ["MetricsApp"]

_GZIP_LEVEL = 6  # 9 takes three times as long for a few per cent less


class MetricsApp:
    """Answers GET and HEAD with the metrics of all workers of the service.

    The format is the one that the client asks for, Prometheus' text or OpenMetrics, compressed
    where it takes gzip; ``?name[]=`` selects metrics. They are gathered on a thread, one time after
    the other, so that requests go on meanwhile.

    ::

        app.router.routes.append(Route("/metrics", MetricsApp()))   # at this very path
        app.mount("/metrics", MetricsApp())     # at /metrics/, where /metrics redirects to

    Args:
        collector: what to expose; None: what trilat counts (`ServiceCollector`).
        health: where errors are counted.
    """

    def __init__(self, collector: Collector | None = None, *, health: Health = HEALTH) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(collector or ServiceCollector())
        self._health = health
        self._beside = Beside(1, "trilat-metrics")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; take part in the lifespan where nobody else does."""
        if scope["type"] == "lifespan":
            await live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["method"] in {"GET", "HEAD"}:
            status, headers, body = await self._answer(scope)
            await answer(send, status, headers, body, with_body=scope["method"] == "GET")
        else:
            headers = {"content-type": TEXT, "allow": "GET, HEAD"}
            await answer(send, 405, headers, b"Metrics are for GET and HEAD.\n")

    async def _answer(self, scope: Scope) -> tuple[int, dict[str, str], bytes]:
        wanted = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        accept, encodings = wanted.get(b"accept", ""), wanted.get(b"accept-encoding", "")
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        return await self._beside.run(self._gather, accept, encodings, query.get("name[]"))

    def _gather(
        self, accept: str, encodings: str, names: list[str] | None
    ) -> tuple[int, dict[str, str], bytes]:
        try:
            encode, content_type = choose_encoder(accept)
        except (TypeError, ValueError):  # a version that is no number
            encode, content_type = generate_latest, CONTENT_TYPE_PLAIN_0_0_4
        try:
            registry = self._registry
            body = encode(registry.restricted_registry(names) if names else registry)
        except Exception:  # noqa: BLE001 - the scrape has failed, and says so; the service goes on
            self._health.failed()
            return (
                500,
                {"content-type": TEXT},
                b"The metrics could not be gathered: see the log.\n",
            )
        headers = {"content-type": content_type, "vary": "accept, accept-encoding"}
        if gzip_accepted(encodings):
            headers["content-encoding"] = "gzip"
            body = gzip.compress(body, _GZIP_LEVEL)
        return 200, headers, body
