"""How far trilat is from the truth in one scenario."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .measured import Measured
from .table import PARTS, SIDES, Floats, Table, side_of

__all__ = ["QUANTILES", "TIE_POINTS", "Score", "dominant", "score", "shares"]

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
TIE_POINTS = 2.0
"""Two causes whose true shares are closer than this are both right."""

_AROUND = 0.025  # requests around a quantile: so far to both sides of it
_BOUND_SLACK_NS = 50_000  # the observer's call is noted some microseconds before trilat's
_SCORED = (*PARTS, "before", "after")
_Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Score:
    """One scenario's.

    Attributes:
        requests: that Locust counted.
        joined: of these, whose truth and whose attribution are both there.
        matched: of the joined, with the service's evidence.
        parts: by part: ``mean``, ``p50``, ``p95``, ``p99``, each with ``truth``, ``trilat`` and
            ``error`` in ms; and ``single``: how far single requests are off, in ms.
        share_points: by side: trilat's share of the mean less the true one, in points.
        share_points_p95: the same for the requests around p95.
        dominant: the part with the largest share of the mean, by the truth and by trilat, and
            whether that is right.
        dominant_p95: the same around p95.
        bounds: how many requests have an interval for the queue; in how many of these the true
            value lies, and below and above how many.
        unclear: joined, but when they began is not known well enough.
        distorts: by how much of itself p95 falls without the generator's part: by the truth and by
            trilat.
    """

    requests: int
    joined: int
    matched: int
    parts: dict[str, dict[str, Any]]
    share_points: dict[str, float]
    share_points_p95: dict[str, float]
    dominant: dict[str, Any]
    dominant_p95: dict[str, Any]
    bounds: dict[str, int]
    unclear: int
    distorts: dict[str, float]


def score(truth: Table, measured: Measured) -> Score:
    """Compare request by request; those are left out of which one of the two is not known."""
    of_truth, of_trilat = _joined(truth, measured.table)
    real, said = truth.take(of_truth), measured.table.take(of_trilat)
    queue = real.columns["service.queue"]
    bounded = measured.matched[of_trilat] & ~np.isnan(queue)
    low, high = measured.queue_low_ns[of_trilat], measured.queue_high_ns[of_trilat]
    below, above = queue < low - _BOUND_SLACK_NS, queue > high + _BOUND_SLACK_NS
    everywhere = np.arange(real.size)
    tail = around(real.response_ns, 0.95)
    return Score(
        requests=truth.size,
        joined=real.size,
        matched=int(measured.matched[of_trilat].sum()),
        parts={
            name: compared
            for name in _SCORED
            if (compared := _compared(real.columns[name], said.columns[name])) is not None
        },
        share_points=_share_points(real, said, everywhere),
        share_points_p95=_share_points(real, said, tail),
        dominant=_dominants(real, said, everywhere),
        dominant_p95=_dominants(real, said, tail),
        bounds={
            "requests": int(bounded.sum()),
            "hold": int((~(below | above) & bounded).sum()),
            "below": int((below & bounded).sum()),
            "above": int((above & bounded).sum()),
        },
        unclear=int((np.isnan(real.columns["before"]) & np.isnan(real.columns["generator"])).sum()),
        distorts={"truth": _distortion(real), "trilat": _distortion(said)},
    )


def _joined(truth: Table, said: Table) -> tuple[_Places, _Places]:
    """Places of the same requests in both; a request without a span id is in neither."""
    _, of_truth, of_said = np.intersect1d(truth.spans, said.spans, return_indices=True)
    known = truth.spans[of_truth] > 0
    return of_truth[known], of_said[known]


def _compared(real: Floats, said: Floats) -> dict[str, Any] | None:
    known = ~np.isnan(real)
    if not known.any():
        return None
    real, said = real[known] / 1e6, said[known] / 1e6
    found: dict[str, Any] = {"mean": _pair(float(real.mean()), float(said.mean()))}
    for name, quantile in QUANTILES.items():
        found[name] = _pair(*(float(np.quantile(values, quantile)) for values in (real, said)))
    off = np.abs(said - real)
    found["single"] = {
        name: round(float(np.quantile(off, at)), 4) for name, at in QUANTILES.items()
    }
    return found


def _pair(real: float, said: float) -> dict[str, float]:
    return {"truth": round(real, 4), "trilat": round(said, 4), "error": round(said - real, 4)}


def around(response_ns: Floats, quantile: float) -> _Places:
    """The requests whose response time is around a quantile."""
    low, high = np.quantile(response_ns, (quantile - _AROUND, min(quantile + _AROUND, 1.0)))
    return np.flatnonzero((response_ns >= low) & (response_ns <= high))


def shares(table: Table, places: _Places, names: tuple[str, ...]) -> dict[str, float]:
    """What part of the response time of these requests each of these columns is."""
    whole = float(table.response_ns[places].sum()) or 1.0
    return {
        name: float(np.nansum(table.columns[name][places])) / whole
        for name in names
        if not np.isnan(table.columns[name][places]).all()
    }


def _share_points(real: Table, said: Table, places: _Places) -> dict[str, float]:
    known = ~np.isnan(real.columns["generator"][places])
    if not known.any():
        return {}
    real_shares, said_shares = (shares(table, places[known], SIDES) for table in (real, said))
    return {side: round((said_shares[side] - real_shares[side]) * 100, 3) for side in SIDES}


def _dominants(real: Table, said: Table, places: _Places) -> dict[str, Any]:
    """Which part dominates, by both, and whether trilat names it.

    Requests of several exchanges have a generator's side, and no parts of it: there sides count.
    """
    known = places[~np.isnan(real.columns["generator"][places])]
    whole = not np.isnan(real.columns["generator.send"][known]).any()
    names = PARTS if whole else (*(p for p in PARTS if side_of(p) != "generator"), "generator")
    if not known.size:
        return {"truth": None, "trilat": None, "right": None}
    real_shares, said_shares = (shares(table, known, names) for table in (real, said))
    first, second = dominant(real_shares), dominant(said_shares)
    tie = real_shares[first] - real_shares[second] <= TIE_POINTS / 100
    return {
        "truth": first,
        "share": round(real_shares[first], 4),
        "trilat": second,
        "right": first == second or tie,
    }


def dominant(parts: dict[str, float]) -> str:
    """The part with the largest share."""
    return max(parts, key=lambda name: parts[name])


def _distortion(table: Table) -> float:
    """By how much of itself p95 falls if the generator's part is taken away."""
    known = ~np.isnan(table.columns["generator"])
    if not known.any():
        return float("nan")
    response = table.response_ns[known]
    without = response - table.columns["generator"][known]
    p95 = float(np.quantile(response, 0.95))
    return round(1 - float(np.quantile(without, 0.95)) / p95, 4) if p95 else 0.0
