"""The stages of a run, each with its own figures, and the point from which load is no longer taken.

What was asked for stands in the manifest. A long ramp is cut into pieces, since one figure for all
of it would hide what a ramp is made for. The figures come from the run's slices
(`trilat.correlator.sketches.slices`): a stage holds the requests that started in the slices whose
middle is in it, and its rates are over just these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .rate import measured_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilat.correlator.run.manifest import Manifest, StageFacts
    from trilat.correlator.sketches.book import SketchBook
    from trilat.correlator.sketches.timeslice import Slice

__all__ = ["STAGES_MAX", "Saturation", "Stage", "saturation_of", "stages_of"]

STAGES_MAX = 100
"""Most stages of a run."""

_PIECES_MAX = 10  # of one ramp
_PIECE_MIN_S = 2.0
_REQUESTS_MIN = 100  # in a stage that says anything about saturation
_GROWTH_MIN = 1.5  # of the users, between the first and the last stage
_FOLLOWS_MIN = 0.9
_TAKES_OFF = 4.0
_TAKES_OFF_NS = 5e6


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a run.

    Attributes:
        from_s: seconds since the start of the run.
        to_s: likewise.
        users_from: users at its start.
        users: users at its end.
        ramp: whether their number changed on the way.
        target_per_s: the rate wanted, on average; None where none was.
        reached_per_s: the rate reached, counted in the same thing; None where no target is known.
        mean_users: users on average.
        seconds: of the slices that are in it.
        requests: what was requested in these.
    """

    from_s: float
    to_s: float
    users_from: int
    users: int
    ramp: bool
    target_per_s: float | None
    reached_per_s: float | None
    mean_users: float
    seconds: float
    requests: Slice

    @property
    def rate_per_s(self) -> float | None:
        """Requests per second."""
        return self.requests.requests / self.seconds if self.seconds else None

    @property
    def corrected_p95_ns(self) -> float:
        """95th percentile counted from intended starts; NaN without a request."""
        return self.requests.corrected.quantile_ns(0.95)


@dataclass(frozen=True, slots=True)
class Saturation:
    """From where on more users do not bring a proportional load.

    Attributes:
        before: the stage with most users before it; the first one where it begins there already.
        point: the first saturated stage.
        by_rate: whether the rate no longer followed the users; else the response time took off.
    """

    before: Stage
    point: Stage
    by_rate: bool


def stages_of(manifest: Manifest, book: SketchBook) -> list[Stage]:
    """The stages of a run; at most `STAGES_MAX`, none where nobody wrote down what was asked for.

    What came before a reset of Locust's statistics is left out.
    """
    began = 0.0
    if manifest.reset is not None:
        began = max((manifest.reset["wall_ns"] - manifest.started_wall_ns) / 1e9, 0.0)
    lasted = measured_s(manifest, book.total())
    end = began + (lasted or 0.0)
    stages = []
    for piece, users in _pieces(manifest.stages, end):
        if (piece["to_s"] or 0.0) > began and piece["from_s"] < end:
            stages.append(_measured(piece, users, manifest, book, (began, end)))
    return stages


def _pieces(planned: Sequence[StageFacts], end_s: float) -> Iterator[tuple[StageFacts, float]]:
    """The stages as they were planned, long ramps cut into pieces; and the users on average.

    Locust changes the number of users in steps, the first of them at once: on average half a step
    before the line that leads from the first number to the last.
    """
    left = STAGES_MAX - min(len(planned), STAGES_MAX)
    for stage in planned[:STAGES_MAX]:
        to_s = end_s if stage["to_s"] is None else stage["to_s"]
        length = to_s - stage["from_s"]
        changing = stage["users"] != stage["users_from"]
        number = 1
        if stage["ramp"] and changing:
            number = max(min(int(length / _PIECE_MIN_S), _PIECES_MAX, left + 1), 1)
        left -= number - 1
        first, last = stage["users_from"], stage["users"]
        ahead = stage["step"] / 2 if last > first else -stage["step"] / 2
        for piece in range(number):
            begin, end = piece / number, (piece + 1) / number
            line = first + (begin + end) / 2 * (last - first) + ahead
            users = min(max(line, min(first, last)), max(first, last)) if stage["ramp"] else last
            yield _part({**stage, "to_s": to_s}, begin, end), float(users)


def _part(stage: StageFacts, begin: float, end: float) -> StageFacts:
    """A ramp from one fraction of it to another: users and rate are on a line."""
    from_s, to_s = stage["from_s"], stage["to_s"] or stage["from_s"]

    def users(at: float) -> int:
        return round(stage["users_from"] + at * (stage["users"] - stage["users_from"]))

    def rate(at: float) -> float | None:
        first, last = stage["rate_from_per_s"], stage["rate_to_per_s"]
        if last is None:
            return None
        return (first or 0.0) + at * (last - (first or 0.0))

    if not stage["ramp"]:
        return stage
    return {
        **stage,
        "from_s": from_s + begin * (to_s - from_s),
        "to_s": from_s + end * (to_s - from_s),
        "users_from": users(begin),
        "users": users(end),
        "rate_from_per_s": rate(begin),
        "rate_to_per_s": rate(end),
    }


def _measured(
    stage: StageFacts,
    users: float,
    manifest: Manifest,
    book: SketchBook,
    within: tuple[float, float],
) -> Stage:
    from_s = max(stage["from_s"], within[0])
    to_s = min(stage["to_s"] or within[1], within[1])
    walls = (manifest.started_wall_ns + round(at * 1e9) for at in (from_s, to_s))
    requests, seconds = book.course.slices.between(*walls)
    target = stage["rate_to_per_s"]
    if target is not None and stage["ramp"]:
        first, grown = stage["rate_from_per_s"] or 0.0, stage["users"] - stage["users_from"]
        target = first + (target - first) * (users - stage["users_from"]) / (grown or 1)
    reached = None
    if target is not None and seconds:
        made = requests.requests
        if manifest.target_rate_source != "option":
            # The first task of a user is not scheduled: it starts when the user does.
            made = requests.scheduled + max(stage["users"] - stage["users_from"], 0)
        reached = made / seconds
    return Stage(
        from_s=from_s,
        to_s=to_s,
        users_from=stage["users_from"],
        users=stage["users"],
        ramp=stage["ramp"] and stage["users"] != stage["users_from"],
        target_per_s=target,
        reached_per_s=reached,
        mean_users=users,
        seconds=seconds,
        requests=requests,
    )


def saturation_of(stages: Sequence[Stage]) -> Saturation | None:
    """The point from which on the service, or the generator, takes no more load.

    The rule: stages with at least 100 requests are put in the order of their users. Requests per
    user and second in the first of them are what users make when nothing holds them up. A stage is
    saturated where they make less than 90 % of that, and so they do in all stages with more users.
    Where there is none, it is the one from which on p95, counted from intended starts, is four
    times that of the first and more than 5 ms longer.

    Returns:
        None where there is no such stage, or where the users do not grow by half.
    """
    known = [each for each in stages if each.requests.requests >= _REQUESTS_MIN]
    known = sorted((each for each in known if each.mean_users > 0), key=lambda s: s.mean_users)
    if len(known) < 2 or known[-1].mean_users < _GROWTH_MIN * known[0].mean_users:
        return None
    first = known[0]
    usual = (first.rate_per_s or 0.0) / first.mean_users
    p95 = first.corrected_p95_ns
    limit = max(p95 * _TAKES_OFF, p95 + _TAKES_OFF_NS)
    by_rate = [(s.rate_per_s or 0.0) / s.mean_users < _FOLLOWS_MIN * usual for s in known]
    by_time = [each.corrected_p95_ns > limit for each in known]
    for sign, is_rate in ((by_rate, True), (by_time, False)):
        at = len(known)
        while at > 0 and sign[at - 1]:
            at -= 1
        if at < len(known):
            return Saturation(known[max(at - 1, 0)], known[at], is_rate)
    return None
