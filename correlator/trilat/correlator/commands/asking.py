"""Marked requests over a plain connection, without Locust: does a service answer with stamps?"""

from __future__ import annotations

import http.client
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from trilat.agent.errors import InputError, UsageError
from trilat.agent.marking import RUN_HEADER, TRACEPARENT_HEADER, new_run_id, run_header
from trilat.agent.records import ServiceMarks
from trilat.agent.stamp import EMPTY, decode, find

__all__ = ["Answer", "Asker"]

_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        status: the HTTP status.
        elapsed_ns: from before the request was sent until the whole answer was read.
        marks: the service's marks, or None where the answer carried none for this request.
    """

    status: int
    elapsed_ns: int
    marks: ServiceMarks | None


class Asker:
    """Asks one service, over one connection that is kept.

    Args:
        url: ``http://host:port/path`` or https.
        token: the middleware's token, or None.

    Raises:
        UsageError: not such a URL.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise UsageError(f"{url}: not a URL: {error}") from error
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        if parts.scheme not in kinds or not parts.hostname:
            raise UsageError(f"{url}: not a URL; write it like http://127.0.0.1:8000/items")
        self._url = url
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._run = run_header(new_run_id(), token)
        self._connection = kinds[parts.scheme](parts.hostname, port, timeout=_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def ask(
        self, method: str = "GET", path: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one marked request and read its answer.

        Args:
            method: the HTTP method.
            path: another path than the URL's.
            headers: headers more.

        Raises:
            InputError: no answer came.
        """
        span = secrets.randbits(64) | 1
        marks = {
            RUN_HEADER: self._run,
            TRACEPARENT_HEADER: f"00-{secrets.token_hex(16)}-{span:016x}-01",
        }
        started = perf_counter_ns()
        try:
            self._connection.request(
                method, path or self._path, headers={**(headers or {}), **marks}
            )
            response = self._connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise InputError(f"{self._url}: no answer: {error or type(error).__name__}") from error
        elapsed = perf_counter_ns() - started
        timing = ", ".join(response.headers.get_all("Server-Timing") or ())
        packed = find(timing.encode("latin-1", "replace"), span)
        return Answer(response.status, elapsed, None if packed == EMPTY else decode(packed))
