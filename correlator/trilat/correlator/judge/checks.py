"""Checks of a run: is it what it was meant to be, and how good is its evidence?

Each check says what it saw and, where that is not as it should be, what to do. A check fails where
what it saw is why the run does not pass; where the run passes all the same it warns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.agent.records import Component, Grade, Side
from trilat.correlator.samples.told import Told
from trilat.correlator.text import clean, count, percent

from .absent import crew_checks
from .cause import (
    COVERAGE_MIN,
    GENERATOR_SHARE_MAX,
    Cause,
    coverage,
    ms,
    queue_in_network_ns,
    shares,
    without_evidence,
)
from .checking import Check, CheckOutcome, check, weight
from .generator_checks import generator_checks
from .remedy import (
    CPU_HIGH,
    UNANSWERED_REMEDY,
    coverage_remedy,
    error_texts,
    generator_remedies,
    service_parts,
    service_remedy,
    unanswered,
)
from .schedule_checks import in_step_check, rate_check, stage_checks
from .service_checks import service_checks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.samples.service import ServiceFigures
    from trilat.correlator.sketches.sketch import Sketch

    from .stages import Stage
    from .verdict import Verdict

__all__ = ["run_checks"]

_NOTHING = Told()


def run_checks(
    manifest: Manifest,
    total: Sketch,
    verdict: Verdict,
    told: Told = _NOTHING,
    stages: Sequence[Stage] = (),
) -> list[Check]:
    """All checks of a run, in the order of their ids.

    Args:
        manifest: the run's facts.
        total: all its requests.
        verdict: what the run came to; decides between a warning and a failure.
        told: what both sides told of themselves.
        stages: what the load went through.
    """
    if not total.requests:
        return [check("E001", "Server evidence", "fail", "no request was counted", _NO_REQUESTS)]
    remedies = generator_remedies(manifest, total, told.generator)
    return [
        _coverage(manifest, total),
        _stamps(manifest, total),
        _clocks(manifest, total),
        _lost(manifest),
        _generator_share(manifest, total, verdict, remedies),
        _generator_cpu(manifest, verdict, remedies),
        rate_check(manifest, total, remedies),
        in_step_check(manifest, total, verdict, remedies),
        *crew_checks(manifest, verdict),
        *generator_checks(manifest, total, verdict, told.generator),
        *stage_checks(total, stages),
        _failures(manifest, total, verdict),
        _service(total, verdict, told.service),
        *service_checks(total, verdict, told.service, told.remarks),
    ]


_NO_REQUESTS = (
    "see Locust's own output: users that fail to start, a wrong --host, a run that ended too soon"
)
_UNSURE_SHARE = 0.05  # of the mean response time: less than that decides nothing


# What the manifest's counters of lost evidence mean, and what to do.
_LOST = {
    "journal_dropped": (
        "journal files dropped at their size limit",
        "make shorter runs to have all requests in the journals; the figures hold them anyway",
    ),
    "journal_lost_to_disk": (
        "records that the disk did not take",
        "free some disk space; the figures hold all requests anyway",
    ),
    "unmarked": (
        "requests of clients that trilat does not see",
        "make them with HttpUser or FastHttpUser to have them attributed",
    ),
    "without_time": (
        "events without a response time",
        "let the client that fires them say how long the request took",
    ),
    "foreign_stamps": (
        "answers with the stamp of another request",
        "see that no cache answers in the service's place",
    ),
    "errors_inside": (
        "errors inside trilat",
        "see Locust's log for the first of each kind, and report it",
    ),
}


def _coverage(manifest: Manifest, total: Sketch) -> Check:
    covered = coverage(total)
    if total.matched == total.requests:
        evidence = f"all {count(total.requests)} requests have evidence from the service"
    else:
        evidence = without_evidence(total)
    outcome: CheckOutcome = "ok" if covered >= COVERAGE_MIN else "fail"
    remedy = UNANSWERED_REMEDY if unanswered(manifest, total) else coverage_remedy(total)
    return check("E001", "Server evidence", outcome, evidence, remedy)


def _stamps(manifest: Manifest, total: Sketch) -> Check:
    title = "Kernel receive stamps"
    if not total.histogram("generator").count:
        return check("E002", title, "skipped", "no request was marked")
    estimated = total.grades[Component.GENERATOR_READ] is Grade.ESTIMATED
    if manifest.kernel_stamps and not estimated:
        return check("E002", title, "ok", "the kernel told when each answer arrived")
    if manifest.kernel_stamps:
        evidence = "some answers came without the kernel's stamp; generator.read is estimated there"
    else:
        evidence = "the kernel did not tell when answers arrived; generator.read is estimated"
    remedy = "run the generator on Linux, without --trilat-no-kernel-stamps, for measured figures"
    return check("E002", title, "warn", evidence, remedy)


def _clocks(manifest: Manifest, total: Sketch) -> Check:
    title = "Network told from queue"
    if not total.matched:
        return check("E003", title, "skipped", "no request has evidence from the service")
    low, high = total.queue_bounds_ns
    unsure = queue_in_network_ns(total)
    evidence = (
        f"the service's queue took between {ms(low)} and {ms(high)} on average"
        f"{' (both sides on one host)' if manifest.same_host else ''}"
    )
    mean = total.histogram("response").mean_ns
    if unsure <= _UNSURE_SHARE * mean:
        return check("E003", title, "ok", evidence)
    return check(
        "E003",
        title,
        "warn",
        f"{evidence}; {ms(unsure)} of what counts as the network's may be the service's queue",
        # On one host with an answering kernel it is the kernel's tick: nothing to be done.
        ""
        if manifest.same_host
        else "see that the service runs under a server whose socket its middleware can ask "
        "(uvicorn), and that neither host's clock steps during the run (chrony or NTP)",
    )


def _lost(manifest: Manifest) -> Check:
    title = "Lost records"
    lost = {key: number for key, number in manifest.lost.items() if number > 0}
    if not lost:
        return check("E004", title, "ok", "nothing was lost")
    unknown = ("", "")
    seen = [
        f"{count(number)} {_LOST.get(key, unknown)[0] or clean(key.replace('_', ' '), 60)}"
        for key, number in lost.items()
    ]
    remedies = [_LOST[key][1] for key in lost if key in _LOST]
    return check("E004", title, "warn", ", ".join(seen), "; ".join(remedies))


def _generator_share(manifest: Manifest, total: Sketch, verdict: Verdict, remedies: str) -> Check:
    title = "Generator's share of the response time"
    if unanswered(manifest, total):
        return check("G001", title, "skipped", "no request was answered")
    of_mean = shares(total, None)[Side.GENERATOR]
    of_p95 = shares(total, 0.95)[Side.GENERATOR]
    decided = verdict.cause is Cause.GENERATOR
    large = max(of_mean, of_p95) > GENERATOR_SHARE_MAX
    return check(
        "G001",
        title,
        weight(verdict, Cause.GENERATOR) if large or decided else "ok",
        f"{percent(of_mean)} of the mean, {percent(of_p95)} of p95",
        remedies,
    )


def _generator_cpu(manifest: Manifest, verdict: Verdict, remedies: str) -> Check:
    title = "Generator's CPU time"
    cpu = manifest.generator_cpu_percent
    if cpu is None:
        return check("G002", title, "skipped", "it was not sampled")
    outcome: CheckOutcome = "ok"
    if cpu["mean"] >= CPU_HIGH:
        outcome = weight(verdict, Cause.GENERATOR)
    elif cpu["max"] >= CPU_HIGH:
        outcome = "warn"
    evidence = (
        f"the busiest process took {percent(cpu['mean'] / 100)} of one processor on average, "
        f"{percent(cpu['max'] / 100)} at most"
    )
    return check("G002", title, outcome, evidence, remedies)


def _failures(manifest: Manifest, total: Sketch, verdict: Verdict) -> Check:
    title = "Failed requests"
    if not total.failures:
        return check("S001", title, "ok", f"none of {count(total.requests)}")
    evidence = (
        f"{count(total.failures)} of {count(total.requests)} "
        f"({percent(total.failures / total.requests)})"
    )
    texts = error_texts(manifest)
    evidence += f": {texts}" if texts else ""
    remedy = (
        UNANSWERED_REMEDY
        if unanswered(manifest, total)
        else "see locust.log for the failures; an objective such as fail_ratio<=1% allows some"
    )
    return check("S001", title, weight(verdict, Cause.ERRORS), evidence, remedy)


def _service(total: Sketch, verdict: Verdict, service: ServiceFigures | None) -> Check:
    title = "Service's own time"
    parts = service_parts(total)
    if not parts:
        return check("S002", title, "skipped", "no request has evidence from the service")
    evidence = ", ".join(f"{each.label} {percent(part)}" for each, part in parts.items())
    outcome: CheckOutcome = "fail" if verdict.cause is Cause.SERVICE else "ok"
    return check("S002", title, outcome, f"{evidence} of it", service_remedy(total, service))
