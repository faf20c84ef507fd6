"""What one request inside a service tells: `TrilatMiddleware` stamps its answer."""

from __future__ import annotations

from .health import HEALTH, Health
from .stamping import TrilatMiddleware

__all__ = ["HEALTH", "Health", "TrilatMiddleware"]
