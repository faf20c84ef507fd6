"""What Locust's parsed options say of one run, to one of its processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Settings", "settings_of"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the options say to one process.

    Attributes:
        run_id: the run's id, the same in all processes.
        token: for the service's middleware; never written anywhere.
        kernel_stamps: take the kernel's receive stamps where there are some.
        target_rate: requests per second wanted of the whole run, or None.
        epoch: how often Locust's statistics had been reset in the run when this process joined it.
    """

    run_id: str
    token: str | None
    kernel_stamps: bool
    target_rate: float | None
    epoch: int = 0


def settings_of(options: Any, run_id: str) -> Settings:
    """What Locust's parsed options say of a run."""
    return Settings(
        run_id=run_id,
        token=options.trilat_token,
        kernel_stamps=not options.trilat_no_kernel_stamps,
        target_rate=options.trilat_target_rate,
        epoch=getattr(options, "trilat_epoch", 0),
    )
