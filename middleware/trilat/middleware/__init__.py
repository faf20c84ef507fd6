"""What one request inside a service tells: `TrilatMiddleware` counts, journals and stamps it."""

from __future__ import annotations

from .collecting import CollectApp
from .health import HEALTH, Health
from .metrics import MetricsApp
from .observing import TrilatMiddleware
from .station import STATION, Station

__all__ = ["HEALTH", "STATION", "CollectApp", "Health", "MetricsApp", "Station", "TrilatMiddleware"]
