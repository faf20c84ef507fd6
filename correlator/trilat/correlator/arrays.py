"""Names for the arrays that the correlator works on, and how far a number in them may go."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["INSTANT_MAX", "MAX_NS", "Bools", "Int32s", "Int64s", "Rows", "UInt8s", "clamp"]

Bools = npt.NDArray[np.bool_]
UInt8s = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]
"""Structured rows of `trilat.correlator.records.frames.EXCHANGE_DTYPE`."""

MAX_NS = 2**47 - 1
"""Longest duration that is counted, 39 hours; a longer one counts as this.

Sums of durations are int64: together all requests of a sketch may last 292 years.
"""

INSTANT_MAX = 2**62
"""Latest instant that is believed, the year 2116; so differences of two fit an int64."""


def clamp(values: npt.NDArray[Any], low: Any, high: Any) -> Int64s:
    """``values`` held between ``low`` and ``high``; ``high`` wins where they cross.

    Two ufuncs in place of `numpy.clip`, whose fixed cost is several times theirs.
    """
    held: Int64s = np.minimum(np.maximum(values, low), high)
    return held
