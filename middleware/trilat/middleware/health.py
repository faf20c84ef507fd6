"""What went wrong inside the instrumentation while the requests went on untouched."""

from __future__ import annotations

import logging
from contextlib import suppress

__all__ = ["HEALTH", "Health"]

logger = logging.getLogger("trilat.middleware")


class Health:
    """Counters of one process, written on its event loop, read from anywhere.

    Attributes:
        errors: exceptions inside trilat's own code; the first one is logged with its traceback.
        refused: requests with a ``Trilat-Run`` header that was malformed or lacked the token.
        malformed_traceparents: marked requests whose ``traceparent`` breaks the specification.
    """

    __slots__ = ("errors", "malformed_traceparents", "refused")

    def __init__(self) -> None:
        self.errors = 0
        self.refused = 0
        self.malformed_traceparents = 0

    def failed(self) -> None:
        """Count the exception that is being handled; log it if it is the first."""
        self.errors += 1
        if self.errors == 1:
            with suppress(Exception):  # a logging handler may be what is broken
                logger.warning(
                    "trilat failed in a step of its own; the service went on untouched,"
                    " and further errors are only counted",
                    exc_info=True,
                )


HEALTH = Health()
"""The process's own counters; what `TrilatMiddleware` counts into unless told otherwise."""
