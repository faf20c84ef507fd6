"""What is to be seen of each way in which people write locustfiles.

The table in ``docs/ways.md`` has a row for each line here, and what a run has shown beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WAYS", "Way"]


@dataclass(frozen=True, slots=True)
class Way:
    """One row for each client.

    Attributes:
        what: in words.
        classes: in ``locustfile.py``, without the client at the end of their names.
        exchanges: numbers of HTTP exchanges that its requests take.
        matched: ``all``, ``none`` or ``some``.
        clients: which of ``Http`` and ``Fast`` there is.
        unattributed: whether a part of each request is.
    """

    what: str
    classes: str
    exchanges: tuple[int, ...] = (1,)
    matched: str = "all"
    clients: tuple[str, ...] = ("Http", "Fast")
    unattributed: bool = False


_HTTP = ("Http",)
_FAST = ("Fast",)

WAYS = (
    Way("`get` with `name=`", "Plain"),
    Way("`post`, `put`, `delete`, `options` with a body", "Methods"),
    Way("`rename_request`", "Renamed"),
    Way("answers of status 500", "Failing"),
    Way("`catch_response`, with a request inside the block", "Caught"),
    Way("`rest`", "Rest", clients=_FAST),
    Way("`traceparent` of one's own", "OwnTrace"),
    Way("two redirects", "Redirected", (3,)),
    Way("`post` redirected with 307", "RedirectedPost", (2,)),
    Way("`allow_redirects=False`", "NotRedirected"),
    Way(
        "redirect to a service without the middleware",
        "RedirectedAway",
        (2,),
        "none",
        unattributed=True,
    ),
    Way("redirect to a port that refuses", "RedirectedNowhere", (1,), "none", unattributed=True),
    Way(
        "silent retry on a dead connection",
        "SilentlyRetried",
        (2,),
        clients=_FAST,
        unattributed=True,
    ),
    Way("`Retry` on status 503", "Retried", (2,), clients=_HTTP),
    Way("`max_retries` after a timeout", "RetriedTimeout", (2,), "none", _FAST, unattributed=True),
    Way("spawned greenlets and a pool", "Spawned"),
    Way("SequentialTaskSet and nested TaskSet", "TaskSets"),
    Way("`pool_manager`, `client_pool` shared by users", "SharedPool"),
    Way("`auth=` that makes requests", "Signed", clients=_HTTP),
    Way("`stream=True`", "Streamed"),
    Way("`iter_lines`", "Lines", clients=_FAST),
    Way("chunked answer in pieces", "Chunked"),
    Way("compressed answer", "Compressed"),
    Way("large download", "Download"),
    Way("large upload", "Upload"),
    Way("large upload from a file", "UploadFile", clients=_HTTP),
    Way("large upload in chunks", "UploadChunks", clients=_HTTP),
    Way("large upload over TLS", "UploadTls", clients=_FAST),
    Way("`Expect: 100-continue`", "Expect", clients=_FAST),
    Way("answer before the upload is through", "RefusedUpload", matched="some"),
    Way("answer that ends with the connection", "UntilClosed"),
    Way("`Connection: close`", "Closing"),
    Way("TLS, `verify=False`", "Insecure"),
    Way("TLS, client certificate", "Certified"),
    Way("HTTP proxy", "Proxied"),
    Way("tunnel through a proxy (`CONNECT`), TLS", "Tunnelled"),
    Way("nginx in front of the service", "Gateway"),
    Way("IPv6", "Six"),
    Way("`localhost`, IPv6 refused", "Localhost"),
    Way("timeout before the answer", "TimedOut", matched="none", unattributed=True),
    Way("timeout within the body", "Stalled", unattributed=True),
    Way("refused connection", "Refused", (0,), "none", unattributed=True),
    Way("interim answers (100, 103)", "Interim"),
    Way("head of the answer byte by byte", "Trickled"),
    Way("several stamps, one of them right", "SeveralStamps"),
    Way("hostile and broken answers", "Hostile", matched="none", unattributed=True),
    Way(
        "event fired by a client of one's own", "OwnClient", (0,), "none", ("",), unattributed=True
    ),
    Way("event fired again inside `catch_response`", "Refired"),
    Way("event fired again by a listener", "RefiredByListener"),
)
