"""The clock of the service's host is wrong; nothing else is, so every part must stay as it was."""

from __future__ import annotations

from dataclasses import replace

from ..scenario import GeneratorOptions, LinkOptions, Scenario, ServiceOptions, Way
from .causes import PAUSED
from .networks import LAN, both

__all__ = ["CLOCKS"]

_SERVICE = ServiceOptions(delay_ms=5, block="periodic", block_ms=20, block_every_ms=40)
_WAN = both(Way(delay_ms=12))


def _wrong(name: str, what: str, link: LinkOptions = LAN, **clock: float) -> Scenario:
    return Scenario(
        f"clock-{name}",
        "service" if link is LAN else "network",
        f"its clock {what}; the loop is blocked for 20 of every 60 ms",
        replace(_SERVICE, **clock),  # type: ignore[arg-type]
        GeneratorOptions(),
        link,
        off=PAUSED,
    )


CLOCKS = (
    _wrong("right", "is right"),
    _wrong("ahead", "is 50 ms ahead", clock_offset_ms=50),
    _wrong("behind", "is 50 ms behind", clock_offset_ms=-50),
    _wrong("drifts", "gains 200 microseconds a second", clock_drift_ppm=200),
    _wrong("steps-on", "steps on by 50 ms in mid-run", clock_step_ms=50),
    _wrong("steps-back", "steps back by 50 ms in mid-run", clock_step_ms=-50),
    _wrong("steps-a-little", "steps on by 2 ms in mid-run", clock_step_ms=2),
    _wrong("ahead-far-away", "is 50 ms ahead, 12 ms each way", _WAN, clock_offset_ms=50),
    _wrong(
        "drifts-far-away",
        "is 50 ms behind and loses 200 microseconds a second, 12 ms each way",
        _WAN,
        clock_offset_ms=-50,
        clock_drift_ppm=-200,
    ),
)
