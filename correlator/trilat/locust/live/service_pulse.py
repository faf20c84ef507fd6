"""``--trilat-collect URL``: the service's CPU while a run goes on, from its own samples.

Every two seconds the service's `CollectApp` is asked for what its processes have added to their
samples. That is a listing and a few hundred bytes of each. It is for looking at only: what goes
into the result is fetched by ``trilat collect`` when the run has ended.
"""

from __future__ import annotations

import json
import logging
from time import monotonic, time_ns
from typing import Any

import gevent
import httpx

from trilat.agent.errors import InputError
from trilat.agent.offers import FileTag, Offer
from trilat.correlator.collect.listing import parse_listing
from trilat.correlator.collect.service_url import ServiceUrl
from trilat.correlator.text import clean

__all__ = ["ServicePulse"]

logger = logging.getLogger("trilat.locust")

_EVERY_S = 2.0
_KEPT_S = 10.0  # a process that adds nothing for so long has gone
_MARGIN_NS = 60 * 10**9  # the service's clock may differ so much from ours
_LISTING_BYTES_MAX = 4 * 2**20
_TAIL_BYTES = 128 * 2**10  # two of the longest lines that there can be
_TIMEOUT_S = 5.0


class ServicePulse:
    """Asks a service how it is, until it is stopped.

    Args:
        url: where it has mounted `CollectApp`.
        token: what that asks for.

    Raises:
        UsageError: not a URL.
    """

    def __init__(self, url: str, token: str) -> None:
        self._place = ServiceUrl(url)
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
        self._client = httpx.Client(headers=headers, timeout=_TIMEOUT_S)
        self._read: dict[str, FileTag] = {}
        self._told = ""
        self._cpu: dict[str, tuple[float, float]] = {}
        self._greenlet: Any = gevent.spawn(self._run)

    @property
    def cpu_percent(self) -> float | None:
        """CPU of the service's busiest process, per cent of one core; None: not known."""
        since = monotonic() - _KEPT_S
        known = [cpu for seen, cpu in self._cpu.values() if seen >= since]
        return max(known, default=None)

    def stop(self) -> None:
        """Ask no more."""
        self._greenlet.kill()
        self._client.close()

    def _run(self) -> None:
        while True:
            try:
                self._look()
                self._told = ""
            except (httpx.HTTPError, InputError, OSError, ValueError) as error:
                self._tell(f"{self._place.shown}: {clean(error, 200) or type(error).__name__}")
            gevent.sleep(_EVERY_S)

    def _tell(self, text: str) -> None:
        """Log what is wrong, once for as long as it stays so: no figure of the result needs it."""
        if text != self._told:
            self._told = text
            logger.warning("the service's samples cannot be shown: %s", text)

    def _look(self) -> None:
        now_ns = time_ns()
        window = f"from={now_ns - _MARGIN_NS}&to={now_ns + _MARGIN_NS}"
        raw = self._get(f"files?{window}", _LISTING_BYTES_MAX, {})
        for offer in parse_listing(raw, now_ns, self._place.shown).offers:
            if offer.kind == "samples" and (cpu := self._cpu_of(offer)) is not None:
                self._cpu[offer.name] = monotonic(), cpu

    def _cpu_of(self, offer: Offer) -> float | None:
        """What the newest sample of a file says; None where it has none that is new."""
        tag, before = offer.tag, self._read.get(offer.name)
        self._read[offer.name] = tag
        begin = max(tag.bytes - _TAIL_BYTES, 0)
        if before is not None and tag.covers(before):
            begin = max(begin, before.bytes)
        if begin >= tag.bytes:
            return None
        part = {"Range": f"bytes={begin}-", "If-Range": str(tag)}
        raw = self._get(f"files/{offer.name}", _TAIL_BYTES * 2, part)
        for line in reversed(raw.splitlines()):
            sample = _sample(line)
            cpu = sample.get("cpu_percent")
            if isinstance(cpu, int | float) and 0 <= cpu < 1e6:
                return float(cpu)
        return None

    def _get(self, target: str, most: int, headers: dict[str, str]) -> bytes:
        raw = bytearray()
        with self._client.stream("GET", self._place.below(target), headers=headers) as response:
            if response.status_code not in {200, 206}:
                raise InputError(f"{self._place.shown}: answers {response.status_code}")
            for piece in response.iter_raw():
                raw += piece
                if len(raw) > most:
                    raise InputError(f"{self._place.shown}: answers {clean(target)} without an end")
        return bytes(raw)


def _sample(line: bytes) -> dict[str, Any]:
    """A line of vitals; empty for any other, and for the end of one that was cut."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and found.get("kind") == "vitals" else {}
