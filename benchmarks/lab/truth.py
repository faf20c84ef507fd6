"""What each request was really made of: by the captures, the service's log and Locust's own figure.

The kernel's clock is one on this machine, whatever the service's process believes it to be. An
instant of a capture, a wall clock read by the lab's observer inside the service, and Locust's start
time lie on it.

What this truth cannot tell: where reading ends and finishing begins (``generator.end`` is both);
of a request of several exchanges, how the generator's time between them divides; and anything
below some 20 microseconds, as Locust reads its two clocks one after the other, and the observer and
trilat's middleware do so, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from .exchanges import Arrival, Exchange
from .logs import Rows
from .table import COLUMNS, PARTS, Table

__all__ = ["calls_by_port", "tell"]

_Parts = dict[str, float]

_TOLD_WITHIN_NS = 500_000
"""After its end a request is told of. Where that took longer, the process had been put to sleep,
and perhaps before it had read both clocks: when the request began is not known well enough."""


def tell(
    requests: Rows,
    calls: Rows,
    exchanges: Iterable[Exchange] | None = None,
    arrived: Mapping[Arrival, int] | None = None,
) -> Table:
    """The truth of each request that Locust counted.

    Args:
        requests: what Locust said: `benchmarks.lab.logs.REQUESTS`.
        calls: what the service saw: `benchmarks.lab.logs.CALLS`.
        exchanges: as captured at the generator's host; None: nothing was captured.
        arrived: when requests had arrived at the service's host.
    """
    served = {(int(row["number"]), int(row["span"])): row for row in calls}
    by_number: dict[int, list[Exchange]] = defaultdict(list)
    for exchange in exchanges or ():
        by_number[exchange.number].append(exchange)
    spans_of = dict(served.keys())
    found: list[_Parts] = []
    spans = []
    for request in requests:
        number = int(request["number"])
        chain = sorted(by_number.get(number, ()), key=lambda each: each.sent_ns)
        parts = _whole(request, chain, served, arrived or {}) if _is_clear(request) else {}
        span = chain[-1].span if chain else spans_of.get(number, 0)
        call = served.get((number, span))
        if len(chain) <= 1 and call is not None and _is_clear(request):
            parts = _around(request, call) | parts
        found.append(parts)
        spans.append(span)
    columns = {
        name: np.array([parts.get(name, np.nan) for parts in found], np.float64) for name in COLUMNS
    }
    return Table(
        np.array(spans, np.uint64),
        requests["started_wall_ns"].astype(np.int64),
        requests["response_ns"].astype(np.float64),
        columns,
    )


def calls_by_port(calls: Rows) -> dict[int, list[Arrival]]:
    """The requests that the service saw of each client's port, in order."""
    found: dict[int, list[Arrival]] = defaultdict(list)
    for row in calls[np.argsort(calls["called_wall_ns"], kind="stable")]:
        found[int(row["port"])].append((int(row["number"]), int(row["span"])))
    return found


def _is_clear(request: Rows) -> bool:
    """Whether Locust's two clocks tell when a request began."""
    took = int(request["told_wall_ns"] - request["started_wall_ns"] - request["response_ns"])
    return took < _TOLD_WITHIN_NS


def _around(request: Rows, call: Rows) -> _Parts:
    """What is known without a capture, of a request whose answer was waited for."""
    started, ended = _ends(request)
    called = int(call["called_wall_ns"])
    if not 0 <= call["end_ns"] <= ended - called:
        return {}
    return {
        "before": called - started,
        "service.app": float(call["app_ns"]),
        "service.body": float(call["end_ns"] - call["app_ns"]),
        "after": ended - called - int(call["end_ns"]),
    }


def _whole(
    request: Rows,
    chain: Sequence[Exchange],
    served: Mapping[Arrival, Rows],
    arrived: Mapping[Arrival, int],
) -> _Parts:
    """All parts of a request, from its exchanges; nothing where none was captured."""
    if not chain:
        return {}
    started, ended = _ends(request)
    told = int(request["told_wall_ns"])
    parts: _Parts = dict.fromkeys(PARTS, 0.0)
    for exchange in chain:
        key = exchange.number, exchange.span
        waited = 0 <= exchange.arrived_ns <= told
        outside_of = (
            _outside(exchange, served.get(key), arrived.get(key))
            if waited
            else {"network.connect": exchange.connect_ns, "unattributed": ended - exchange.sent_ns}
        )
        for name, value in outside_of.items():
            parts[name] += value
    outside = sum(parts.values())
    generator = ended - started - outside
    last = chain[-1]
    if len(chain) > 1:
        parts["generator.send"] = parts["generator.end"] = np.nan
    else:
        answered = 0 <= last.arrived_ns <= told
        parts["generator.send"] = last.sent_ns - started - parts["network.connect"]
        parts["generator.end"] = float(ended - last.arrived_ns) if answered else 0.0
    parts["generator"] = generator
    parts["network"] = sum(parts[f"network.{name}"] for name in ("connect", "out", "back"))
    parts["service"] = sum(parts[f"service.{name}"] for name in ("queue", "app", "body"))
    return parts


def _outside(exchange: Exchange, call: Rows | None, arrived_ns: int | None) -> _Parts:
    """What an exchange took outside the generator, from sending it to the end of its answer."""
    parts: _Parts = {"network.connect": float(exchange.connect_ns)}
    sent_ns, back_ns = exchange.sent_ns, exchange.arrived_ns
    if call is None or arrived_ns is None or call["end_ns"] < 0:
        return parts | {"unattributed": float(back_ns - sent_ns)}
    # An application that is called with the head of a request waits for the network until its body
    # is there, and an answer without a body is whole before the application hands its empty body
    # over.
    called = int(call["called_wall_ns"])
    begun = called + int(call["app_ns"])
    arrived = min(arrived_ns, begun)
    ended = min(called + int(call["end_ns"]), back_ns)
    return parts | {
        "network.out": float(arrived - sent_ns),
        "service.queue": float(max(called - arrived, 0)),
        "service.app": float(begun - max(called, arrived)),
        "service.body": float(ended - begun),
        "network.back": float(back_ns - ended),
    }


def _ends(request: Rows) -> tuple[int, int]:
    started = int(request["started_wall_ns"])
    return started, started + int(request["response_ns"])
