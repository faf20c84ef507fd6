"""A rate that was missed though requests were fast enough on average: some were not.

Locust does not make up for a task that took longer than its user's period: what was due meanwhile
is never started. So one request that hangs costs as many tasks as would have fitted into it,
however fast the others are, and the mean says nothing of it. What those few were made of does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trilat.agent.records import COMPONENTS, Side
from trilat.correlator.text import count, percent

from .cause import LIMIT, Cause, Finding, ms
from .rate import REACHED_MIN

if TYPE_CHECKING:
    from trilat.correlator.sketches.sketch import Sketch

__all__ = ["overrun"]

_CAUSES = {
    Side.SERVICE: Cause.SERVICE,
    Side.NETWORK: Cause.NETWORK,
    Side.GENERATOR: Cause.GENERATOR,
    Side.UNATTRIBUTED: Cause.EVIDENCE,
}


def overrun(room_ns: float, total: Sketch, lead: str) -> Finding | None:
    """Who is answerable for tasks that were never started.

    Args:
        room_ns: what a user had for one request.
        total: all requests of the run.
        lead: start of the sentence: what was reached of what.

    Returns:
        None where that is not why the rate was missed.
    """
    missed, due = total.missed, total.scheduled + total.missed
    made_of = total.made_of_beyond(room_ns)
    if missed <= (1 - REACHED_MIN) * due or np.isnan(made_of).any():
        return None
    parts = dict.fromkeys(Side, 0.0)
    for component in COMPONENTS:
        parts[component.side] += float(made_of[component])
    parts[Side.UNATTRIBUTED] = float(made_of[len(COMPONENTS)])
    side = max(parts, key=lambda each: parts[each])
    cause, share = _CAUSES[side], parts[side] / sum(parts.values())
    of_whom = f"{percent(share)} of their time is the {side}'s: {LIMIT.get(cause, '')}"
    if cause is Cause.EVIDENCE:
        of_whom = f"of {percent(share)} of their time nobody knows whose it is"
    return Finding(
        cause,
        f"{lead}; {count(missed)} tasks were never started, as their users waited for requests "
        f"that took longer than the {ms(room_ns)} there are for one ({ms(float(made_of.sum()))} on "
        f"average); {of_whom}",
    )
