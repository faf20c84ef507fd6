"""The metrics of a service over HTTP: an application of its own, mounted where one likes."""

from __future__ import annotations

import copy
import gzip
import time
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import (
    CONTENT_TYPE_PLAIN_0_0_4,
    choose_encoder,
    gzip_accepted,
)
from prometheus_client.openmetrics.exposition import ALLOWUTF8, UNDERSCORES
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from trilat.agent.collector import ServiceCollector

from .health import HEALTH, Health
from .serving import TEXT, Beside, answer, live

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import Metric
    from prometheus_client.samples import Sample

    from .asgi import Receive, Scope, Send

__all__ = ["MetricsApp"]

_GZIP_LEVEL = 6  # 9 takes three times as long for a few per cent less
_SAMPLES_AT_ONCE = 100  # about a millisecond of writing


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
        collector = collector or ServiceCollector()
        self._registry.register(collector)
        self._own_names = isinstance(collector, ServiceCollector)
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
        encode, content_type = self._encoder(accept)
        try:
            registry = self._registry
            body = encode(_Gently(registry.restricted_registry(names) if names else registry))
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

    def _encoder(self, accept: str) -> tuple[Callable[[Collector], bytes], str]:
        """What writes the format that a client asks for, and the format's content type."""
        try:
            encode, content_type = choose_encoder(accept)
        except (TypeError, ValueError):  # a version that is no number
            return generate_latest, CONTENT_TYPE_PLAIN_0_0_4
        # Names that are plain are the same with either escaping, but this one looks at each letter
        # of the name of each sample, which takes longer than all the rest.
        if self._own_names and isinstance(encode, partial):
            options: dict[str, Any] = encode.keywords
            if encode.func is generate_openmetrics and options.get("escaping") == UNDERSCORES:
                encode = partial(generate_openmetrics, **{**options, "escaping": ALLOWUTF8})
        return encode, content_type


class _Gently(Collector):
    """Hands out metrics in such a way that who writes them lets other threads run in between.

    Python takes the interpreter away from a thread only after 5 ms, so an event loop that shares
    it with one that computes waits for so long each time that it wakes.
    """

    def __init__(self, metrics: Any) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """The same metrics; the samples of each can be read once."""
        for metric in self._metrics.collect():
            gentle: Any = copy.copy(metric)
            gentle.samples = _gently(metric.samples)
            yield gentle


def _gently(samples: Iterable[Sample]) -> Iterator[Sample]:
    for number, sample in enumerate(samples, 1):
        yield sample
        if number % _SAMPLES_AT_ONCE == 0:
            time.sleep(0)
