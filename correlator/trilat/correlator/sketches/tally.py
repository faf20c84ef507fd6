"""From attributed requests to counts, for many endpoints at once.

A batch is sorted by endpoint beforehand. Everything is computed over the whole batch and then cut
at the endpoints' borders, so the number of numpy calls does not grow with the endpoints.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from trilat.agent.records import Side
from trilat.correlator.arrays import INSTANT_MAX, MAX_NS, Bools, Int32s, Int64s
from trilat.correlator.attribution.attribute import Attributed

from .arrivals import missed_arrivals
from .buckets import BUCKETS, bucket_of
from .counts import Counts, no_sums
from .sparse import SparseSums, run_sizes, run_starts
from .variables import BASES, INDEX, MADE_OF, VARIABLES

__all__ = ["BATCH_MAX", "tally"]

BATCH_MAX = 2**15
"""Most requests of one batch; the keys of as many endpoints still fit an int32."""

_SPAN = len(VARIABLES) * BUCKETS
_FIRST_KEYS = np.arange(0, _SPAN, BUCKETS, dtype=np.int32)[:, None]
_COMPONENTS = INDEX["generator.send"]  # the components are the last nine variables
_MISSED = INDEX["missed"]

_Starts = npt.NDArray[np.intp]


def tally(requests: Attributed, starts: _Starts) -> list[Counts]:
    """Count a batch.

    Args:
        requests: from 1 to `BATCH_MAX`; those of one endpoint stand together.
        starts: where each endpoint's begin; ascending, the first is 0.

    Returns:
        The counts of each endpoint.
    """
    sizes = run_sizes(starts, requests.response_ns.size)
    endpoint = np.repeat(np.arange(starts.size, dtype=np.int32), sizes)
    values, counted = _values(requests), _counted(requests)
    buckets = bucket_of(values)
    # What is not counted must move neither a sum nor an extreme.
    known = values * counted
    sums = np.add.reduceat(known, starts, axis=1)
    maxs = np.maximum.reduceat(known, starts, axis=1)
    mins = np.minimum.reduceat(np.where(counted, values, MAX_NS), starts, axis=1)
    grades = np.maximum.reduceat(requests.grades.T * counted[_COMPONENTS:], starts, axis=1)
    cells = _cells(buckets, counted, endpoint, starts.size)
    if requests.missed.any():
        cells = _with_missed(cells, requests, endpoint, (sums, mins, maxs))
    columns = zip(
        sizes.tolist(),
        _numbers(requests, starts),
        cells,
        _parts(requests, buckets[0], endpoint, starts.size),
        _blocked(requests, buckets[0], endpoint, starts.size),
        strict=True,
    )
    return [
        Counts(
            requests=size,
            **numbers,
            sums=sums[:, i],
            mins=mins[:, i],
            maxs=maxs[:, i],
            grades=grades[:, i],
            cells=cells,
            parts=parts,
            blocked=blocked,
        )
        for i, (size, numbers, cells, parts, blocked) in enumerate(columns)
    ]


def _values(requests: Attributed) -> Int64s:
    """All variables of each request, shape (18, n)."""
    parts, response = requests.components_ns.T, requests.response_ns
    values = np.empty((len(VARIABLES), response.size), np.int64)
    values[_COMPONENTS:] = parts
    for side in (Side.SERVICE, Side.NETWORK, Side.GENERATOR):
        first, second, third = MADE_OF[side]
        values[INDEX[side]] = parts[first] + parts[second] + parts[third]
    generator, network = values[INDEX["generator"]], values[INDEX["network"]]
    values[INDEX["response"]] = response
    values[INDEX["without_generator"]] = response - generator
    values[INDEX["without_network"]] = response - network
    values[INDEX["without_both"]] = response - generator - network
    values[INDEX["corrected"]] = response + np.maximum(requests.lateness_ns, 0)
    values[_MISSED] = 0
    return values


def _counted(requests: Attributed) -> Bools:
    """Which requests each variable is known of, shape (18, n)."""
    everyone, none = np.ones_like(requests.matched), np.zeros_like(requests.matched)
    bases: Bools = np.stack((everyone, requests.matched, requests.marked, none))[BASES]
    return bases


def _numbers(requests: Attributed, starts: _Starts) -> list[dict[str, int]]:
    """The plain numbers of each endpoint, as `Counts` calls them."""
    queue = np.stack((requests.queue_low_ns, requests.queue_high_ns))
    queue_low, queue_high = np.add.reduceat(queue, starts, axis=1)
    known = requests.blocked_ns >= 0
    scheduled = requests.lateness_ns >= 0
    flags = np.stack((requests.failed, requests.matched, scheduled, known)).astype(np.int64)
    failures, matched, scheduled, blocked_known = np.add.reduceat(flags, starts, axis=1)
    dated = requests.started_wall_ns > 0
    first = np.where(dated, requests.started_wall_ns, INSTANT_MAX)
    last = np.where(dated, requests.finished_wall_ns, 0)
    columns = {
        "failures": failures,
        "matched": matched,
        "scheduled": scheduled,
        "first_wall_ns": np.minimum.reduceat(first, starts),
        "last_wall_ns": np.maximum.reduceat(last, starts),
        "queue_low_ns": queue_low,
        "queue_high_ns": queue_high,
        "blocked_known": blocked_known,
        "blocked_max_ns": np.maximum(np.maximum.reduceat(requests.blocked_ns, starts), 0),
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _cells(buckets: Int32s, counted: Bools, endpoint: Int32s, endpoints: int) -> list[SparseSums]:
    """Requests by variable and bucket, for each endpoint."""
    keys = (buckets + _FIRST_KEYS + endpoint * np.int32(_SPAN))[counted]
    keys.sort()
    runs = run_starts(keys)
    return _apart(keys[runs], run_sizes(runs, keys.size), _SPAN, endpoints)


def _with_missed(
    cells: list[SparseSums],
    requests: Attributed,
    endpoint: Int32s,
    totals: tuple[Int64s, Int64s, Int64s],
) -> list[SparseSums]:
    """Cells with those of the tasks that were never started, which join the totals in place."""
    made_up = missed_arrivals(requests.response_ns, requests.lateness_ns, requests.missed)
    sums, mins, maxs = totals
    place = endpoint[made_up.request]
    np.add.at(sums[_MISSED], place, made_up.times_ns * made_up.tasks)
    np.minimum.at(mins[_MISSED], place, made_up.times_ns)
    np.maximum.at(maxs[_MISSED], place, made_up.times_ns)
    keys = bucket_of(made_up.times_ns) + _FIRST_KEYS[_MISSED] + place * np.int32(_SPAN)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    runs = run_starts(keys)
    tasks = np.add.reduceat(made_up.tasks[order], runs)
    added = _apart(keys[runs], tasks, _SPAN, len(cells))
    return [SparseSums.of(pair) for pair in zip(cells, added, strict=True)]


def _parts(
    requests: Attributed, buckets: Int32s, endpoint: Int32s, endpoints: int
) -> list[SparseSums]:
    """Sums of the ten parts by bucket of the response time, for each endpoint."""
    keys = buckets + endpoint * np.int32(BUCKETS)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    runs = run_starts(keys)
    parts = np.vstack((requests.components_ns.T, requests.unattributed_ns)).take(order, axis=1)
    return _apart(keys[runs], np.add.reduceat(parts, runs, axis=1), BUCKETS, endpoints)


def _blocked(
    requests: Attributed, buckets: Int32s, endpoint: Int32s, endpoints: int
) -> list[SparseSums]:
    """Requests in which the loop was blocked, and for how long, by bucket, for each endpoint."""
    touched = np.flatnonzero(requests.blocked_ns > 0)
    if not touched.size:  # a healthy service
        return [no_sums(2) for _ in range(endpoints)]
    keys = (buckets + endpoint * np.int32(BUCKETS))[touched]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    runs = run_starts(keys)
    times = requests.blocked_ns[touched][order]
    sums = np.stack((np.ones_like(times), times))
    return _apart(keys[runs], np.add.reduceat(sums, runs, axis=1), BUCKETS, endpoints)


def _apart(keys: Int32s, sums: Int64s, span: int, endpoints: int) -> list[SparseSums]:
    """Cut sums whose keys are endpoint * span + key at the endpoints' borders."""
    borders = np.searchsorted(keys, np.arange(endpoints + 1) * span).tolist()
    within = keys % np.int32(span)
    return [SparseSums(within[begin:end], sums[..., begin:end]) for begin, end in pairwise(borders)]
