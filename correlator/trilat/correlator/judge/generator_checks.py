"""Checks of what the load generator tells of itself: its hub, its processor, and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilat.agent.records import Component
from trilat.correlator.samples.blocked_lines import inside_of
from trilat.correlator.samples.hub_blocking import (
    BLOCKED_MAX,
    COLLECTING_REMEDY,
    STARVED_REMEDY,
    hub_remedy,
    told_place,
)
from trilat.correlator.text import count, duration, milliseconds, percent

from .cause import Cause, ms
from .checking import Check, CheckOutcome, check, weight
from .remedy import generator_remedies

if TYPE_CHECKING:
    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.samples.generator import Collections, GeneratorFigures
    from trilat.correlator.sketches.sketch import Sketch

    from .verdict import Verdict

__all__ = ["generator_checks"]

_COLLECTING_MAX = 0.05
_COLLECTION_MAX_MS = 50.0
_THROTTLED_MAX = 0.05
_WAITING_MAX = 0.1
_STEAL_MAX = 5.0  # per cent of a host's processors
_FULL = 0.8  # of a limit
_KEPT_OPEN = 0.1  # connections per request, below which they are kept open
_POOL_MAX = 0.05  # of the mean response time
_SECOND_NS = 1e9


def generator_checks(
    manifest: Manifest, total: Sketch, verdict: Verdict, generator: GeneratorFigures | None
) -> list[Check]:
    """The checks; none where the generator was not sampled.

    Args:
        manifest: the run's facts.
        total: all requests of the run.
        verdict: what the run came to.
        generator: what the generator told of itself.
    """
    if generator is None:
        return []
    return [
        _hub(manifest, total, verdict, generator),
        _collector(verdict, generator.collections),
        _processor(verdict, generator),
        _descriptors(manifest, verdict, generator),
        _ports(manifest, total, verdict, generator),
        _pool(total, verdict, generator),
    ]


def _hub(manifest: Manifest, total: Sketch, verdict: Verdict, generator: GeneratorFigures) -> Check:
    title = "Generator's event loop"
    share, lag = generator.blocked_share, generator.lag
    if share is None or lag is None or not lag.whole_ns:
        return check("G010", title, "skipped", "its lag was not sampled")
    evidence = [
        f"it kept users waiting for {percent(share)} of the time, "
        f"{milliseconds(lag.max_ns / 1e6)} ms at most"
    ]
    places = generator.places
    if places:
        whole = sum(each.total_ns for each in places)
        worst = places[0]
        inside = inside_of(worst)
        told = f"{told_place(worst)} (in {inside})" if inside else told_place(worst)
        evidence.append(
            f"{_blocks(sum(each.count for each in places))} took {_span(whole)}, "
            f"{percent(worst.total_ns / whole if whole else 0.0)} of it {told}"
        )
    outcome: CheckOutcome = "ok"
    if share >= BLOCKED_MAX:
        outcome = weight(verdict, Cause.GENERATOR)
    return check(
        "G010",
        title,
        outcome,
        "; ".join(evidence),
        hub_remedy(generator) or generator_remedies(manifest, total, generator),
    )


def _collector(verdict: Verdict, found: Collections | None) -> Check:
    title = "Generator's garbage collections"
    if found is None:
        return check("G011", title, "skipped", "they were not counted")
    evidence = (
        f"{percent(found.share)} of the time, the longest {milliseconds(found.longest_ms)} ms"
    )
    large = found.share >= _COLLECTING_MAX or found.longest_ms >= _COLLECTION_MAX_MS
    decided = found.share >= _COLLECTING_MAX
    outcome: CheckOutcome = "ok"
    if large:
        outcome = weight(verdict, Cause.GENERATOR) if decided else "warn"
    return check("G011", title, outcome, evidence, COLLECTING_REMEDY)


def _processor(verdict: Verdict, generator: GeneratorFigures) -> Check:
    title = "Generator's processor"
    throttled, steal = generator.throttled_share, generator.steal_percent
    waited = generator.cpu_wait_share
    evidence, remedies = [], []
    if waited is not None:
        evidence.append(f"it waited for a processor for {percent(waited)} of the time")
        if waited >= _WAITING_MAX:
            remedies.append(STARVED_REMEDY)
    if throttled is not None:
        evidence.append(f"a CPU limit held it back for {percent(throttled)} of the time")
        if throttled >= _THROTTLED_MAX:
            remedies.append("raise the CPU limit of the generator's control group (container)")
    if steal is not None:
        evidence.append(f"the hypervisor took {percent(steal[0] / 100)} of its host's processors")
        if steal[0] >= _STEAL_MAX:
            remedies.append("run the generator on a host whose processors are not shared")
    if not evidence:
        return check("G012", title, "skipped", "neither waits nor limits are known here")
    outcome = weight(verdict, Cause.GENERATOR) if remedies else "ok"
    return check("G012", title, outcome, "; ".join(evidence), "; ".join(remedies))


def _descriptors(manifest: Manifest, verdict: Verdict, generator: GeneratorFigures) -> Check:
    title = "Generator's file descriptors"
    refused = _failures(manifest, "Too many open files")
    if generator.descriptors is None and not refused:
        return check("G013", title, "skipped", "they are not known here")
    evidence = []
    full = False
    if (found := generator.descriptors) is not None:
        full = found.max >= _FULL * found.limit
        evidence.append(f"{count(found.max)} open at most, {count(found.limit)} allowed")
    if refused:
        evidence.append(f"{count(refused)} requests failed for want of one")
    return check(
        "G013",
        title,
        weight(verdict, Cause.ERRORS, Cause.GENERATOR) if full or refused else "ok",
        "; ".join(evidence),
        "raise the limit before the run (ulimit -n), or spread the users over more processes",
    )


def _ports(
    manifest: Manifest, total: Sketch, verdict: Verdict, generator: GeneratorFigures
) -> Check:
    title = "Generator's local ports"
    ports, refused = generator.ports, _failures(manifest, "Cannot assign requested address")
    if ports is None and not refused:
        return check("G014", title, "skipped", "they are not known here")
    evidence = []
    full = False
    if ports is not None:
        full = ports.taken >= _FULL * ports.available
        if not full and not refused and ports.opened < _KEPT_OPEN * total.requests:
            return check("G014", title, "skipped", "connections are kept open")
        evidence.append(
            f"{count(ports.taken)} of {count(ports.available)} taken at most, "
            f"{count(ports.time_wait)} of them in TIME_WAIT; {count(ports.opened)} connections "
            f"were begun for {count(total.requests)} requests"
        )
    if refused:
        evidence.append(f"{count(refused)} requests failed for want of one")
    return check(
        "G014",
        title,
        weight(verdict, Cause.ERRORS, Cause.GENERATOR) if full or refused else "ok",
        "; ".join(evidence),
        "keep connections open between requests (no Connection: close on either side), or widen "
        "net.ipv4.ip_local_port_range",
    )


def _pool(total: Sketch, verdict: Verdict, generator: GeneratorFigures) -> Check:
    title = "Wait for a connection"
    pool, send = generator.pool, total.histogram(Component.GENERATOR_SEND.label)
    if pool is None:
        return check("G015", title, "skipped", "it was not sampled")
    if not pool.requests:
        return check("G015", title, "ok", "no request waited for a free connection")
    sent_ns, waited_ns = send.mean_ns * send.count, pool.total_ms * 1e6
    whole_ns = total.histogram("response").mean_ns * total.requests
    evidence = (
        f"{count(pool.requests)} requests waited for a free connection, "
        f"{ms(waited_ns / pool.requests)} on average and {milliseconds(pool.max_ms)} ms at most"
    )
    if sent_ns > 0:
        evidence += f": {percent(min(waited_ns / sent_ns, 1.0))} of generator.send"
    large = waited_ns >= _POOL_MAX * whole_ns
    return check(
        "G015",
        title,
        weight(verdict, Cause.GENERATOR) if large else "ok",
        evidence,
        "give the pool that the users share more connections (maxsize, concurrency), or each user "
        "its own",
    )


def _failures(manifest: Manifest, text: str) -> int:
    """How many requests failed with an error that says so, as far as Locust's failures tell."""
    return sum(each["count"] for each in manifest.failures if text in each["error"])


def _blocks(number: int) -> str:
    return "1 long block" if number == 1 else f"{count(number)} long blocks"


def _span(value_ns: float) -> str:
    """Milliseconds, or from a second on seconds and more."""
    return ms(value_ns) if value_ns < _SECOND_NS else duration(value_ns / _SECOND_NS)
