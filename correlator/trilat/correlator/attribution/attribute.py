"""Response times cut into the nine components, and how good the evidence for each is.

What a matched request spent outside both programs, ``outside``, is the way out, the service's queue
and the way back. The clocks split it: the way out with the queue is ``gap - offset``, the rest
is the way back. Of the way out, what is beyond the shortest one and beyond the network's jitter is
the queue, within the limits that the service's kernel sets.

Where the clocks cannot split it, ``network.out`` holds all of it but the queue that the kernel
tells of (its own reading, right on average), ``network.back`` is 0, and the queue's interval is
what the kernel leaves of it: from 0 to all of it where the kernel tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trilat.agent.records import COMPONENTS, Component, Grade
from trilat.correlator.arrays import MAX_NS, Bools, Int64s, UInt8s, clamp

from .align import Alignment
from .cuts import Cuts
from .queueing import Ways

__all__ = ["Attributed", "attribute"]

_MEASURED, _BOUNDED, _ESTIMATED = (np.uint8(grade) for grade in Grade)


@dataclass(frozen=True, slots=True)
class Attributed:
    """n response times and what they are made of; times are int64 ns.

    For each request the nine components and the unattributed part are not negative and add up to
    the response time.

    Attributes:
        response_ns: shape (n,); as Locust reported it, held between 0 and 39 hours.
        components_ns: shape (n, 9), columns as `trilat.agent.records.Component`.
        unattributed_ns: shape (n,); for which there is no evidence.
        matched: the service's evidence is there.
        marked: the generator's evidence is there.
        failed: Locust counted it as a failure.
        name_id: which endpoint.
        started_wall_ns: wall clock at the start; 0 or less: unknown.
        finished_wall_ns: wall clock at the end.
        first: the first request of a task.
        lateness_ns: how much later than intended it began; -1 unknown.
        missed: tasks that its user's schedule wanted in that time, and that were never started.
        grades: shape (n, 9); values of `trilat.agent.records.Grade`.
        queue_low_ns: the service's queue is at least this; 0 where not matched.
        queue_high_ns: and at most this.
        blocked_ns: for how much of ``service.app`` the event loop was blocked; -1 unknown. It is no
            part of its own.
    """

    response_ns: Int64s
    components_ns: Int64s
    unattributed_ns: Int64s
    matched: Bools
    marked: Bools
    failed: Bools
    name_id: Int64s
    started_wall_ns: Int64s
    finished_wall_ns: Int64s
    first: Bools
    lateness_ns: Int64s
    missed: Int64s
    grades: UInt8s
    queue_low_ns: Int64s
    queue_high_ns: Int64s
    blocked_ns: Int64s


def attribute(cuts: Cuts, alignment: Alignment) -> Attributed:
    """Cut the response times of n requests.

    Args:
        cuts: where to cut.
        alignment: what is known of the clocks, for the same requests.
    """
    # By column: each is written as a whole.
    parts = np.empty((len(COMPONENTS), cuts.response.size), np.int64)
    parts[Component.GENERATOR_SEND] = cuts.sent - cuts.prior - cuts.connect
    parts[Component.NETWORK_CONNECT] = cuts.connect
    queue_low, queue_high = _split(cuts, alignment, parts)
    parts[Component.SERVICE_APP] = cuts.app
    parts[Component.SERVICE_BODY] = cuts.last_arrival - cuts.first_arrival
    parts[Component.GENERATOR_READ] = cuts.last_read - cuts.last_arrival
    rest = cuts.response - cuts.last_read
    in_vain = rest * cuts.broken  # waiting for bytes that did not come is nobody's
    parts[Component.GENERATOR_FINISH] = rest - in_vain
    return Attributed(
        response_ns=cuts.response,
        components_ns=parts.T,
        unattributed_ns=(cuts.prior + in_vain + (cuts.last_arrival - cuts.sent) * ~cuts.matched),
        matched=cuts.matched,
        marked=cuts.marked,
        failed=cuts.failed,
        name_id=cuts.name_id,
        started_wall_ns=cuts.started_wall,
        finished_wall_ns=np.maximum(cuts.started_wall, 0) + cuts.response,
        first=cuts.first,
        lateness_ns=cuts.lateness,
        missed=cuts.missed,
        grades=_grades(cuts),
        queue_low_ns=queue_low,
        queue_high_ns=queue_high,
        blocked_ns=cuts.blocked,
    )


def _split(cuts: Cuts, alignment: Alignment, parts: Int64s) -> tuple[Int64s, Int64s]:
    """Fill in the way out, the queue and the way back.

    Returns:
        Limits of the queue.
    """
    ok, outside = alignment.split_ok, cuts.outside
    out = np.where(ok, clamp(cuts.gap - alignment.offset_ns, 0, outside), outside)
    ways = Ways.of(cuts, out, alignment.floor_ns)
    told = clamp(cuts.queue_read, ways.low, ways.high)
    queue = np.where(ok, ways.queue(alignment.jitter_ns), told)
    parts[Component.NETWORK_OUT] = out - queue
    parts[Component.SERVICE_QUEUE] = queue
    parts[Component.NETWORK_BACK] = outside - out
    # A kernel that has no room for a new connection drops what comes on it, and tells of the last
    # time that it came.
    high = np.where(cuts.connected, MAX_NS, cuts.queue_high)
    return ways.low, np.minimum(high, np.minimum(out + alignment.bound_ns, outside))


def _grades(cuts: Cuts) -> UInt8s:
    """Grades; where a component does not count, its grade means nothing."""
    grades = np.full((len(COMPONENTS), cuts.response.size), _MEASURED)
    grades[Component.NETWORK_OUT] = grades[Component.SERVICE_QUEUE] = _BOUNDED
    grades[Component.NETWORK_BACK] = np.where(cuts.first_stamped, _BOUNDED, _ESTIMATED)
    # An answer that came at once has no body time; else making and carrying it are one.
    in_one = cuts.first_arrival == cuts.last_arrival
    grades[Component.SERVICE_BODY] = np.where(in_one, _MEASURED, _BOUNDED)
    grades[Component.GENERATOR_READ] = np.where(
        cuts.last_stamped | ~cuts.answered, _MEASURED, _ESTIMATED
    )
    return grades.T
