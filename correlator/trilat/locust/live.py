"""A run's figures while it lasts, for whoever shows progress."""

from __future__ import annotations

from typing import Any

from trilat.agent.records import COMPONENTS, Side
from trilat.correlator.book import SketchBook

__all__ = ["snapshot"]

_MS = 1e6


def snapshot(
    runner: Any, book: SketchBook, elapsed_s: float, target: float | None, cpu: float | None
) -> dict[str, Any]:
    """The figures of this moment; shares are of the mean response time."""
    total = runner.stats.total
    sketch = book.total()
    response = sketch.histogram("response")
    parts = dict.fromkeys(Side, 0.0)
    if response.count:
        *components, unattributed = (float(part) for part in sketch.makeup(None))
        for component, part in zip(COMPONENTS, components, strict=True):
            parts[component.side] += part
        parts[Side.UNATTRIBUTED] = unattributed
    whole = sum(parts.values()) or 1.0
    return {
        "state": runner.state,
        "users": runner.user_count,
        "elapsed_s": round(elapsed_s, 1),
        "requests": total.num_requests,
        "failures": total.num_failures,
        "rate_per_s": round(total.current_rps, 1),
        "target_rate_per_s": None if target is None else round(target, 1),
        "p50_ms": response.quantile_ns(0.5) / _MS if response.count else None,
        "p95_ms": response.quantile_ns(0.95) / _MS if response.count else None,
        "shares": {str(side): round(part / whole, 4) for side, part in parts.items()},
        "generator_cpu_percent": None if cpu is None else round(cpu, 1),
    }
