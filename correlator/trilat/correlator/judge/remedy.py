"""What to do: about a generator that is in the way, a slow service, one that does not answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trilat.agent.records import COMPONENTS, Component, Side
from trilat.correlator.samples.blocking import MOSTLY, blocked_part, blocking_remedy
from trilat.correlator.samples.hub_blocking import hub_remedy
from trilat.correlator.sketches.bunching import CELL_NS
from trilat.correlator.text import clean, count, percent

from .rate import measured_s

if TYPE_CHECKING:
    from trilat.correlator.run.manifest import Manifest
    from trilat.correlator.samples.generator import GeneratorFigures
    from trilat.correlator.samples.service import ServiceFigures
    from trilat.correlator.sketches.sketch import Sketch

__all__ = [
    "CPU_HIGH",
    "UNANSWERED_REMEDY",
    "coverage_remedy",
    "error_texts",
    "generator_remedies",
    "generator_share",
    "in_step",
    "mostly_failed",
    "service_parts",
    "service_remedy",
    "unanswered",
]

CPU_HIGH = 80.0
"""Per cent of one processor from which a generator process is taken to be saturated.

Queueing grows with 1 / (1 - utilisation): at 80 % a request waits for four others on average.
"""

_SHARE_IN_STEP = 0.15
_OTHERS_IN_STEP = 5.0
_COSTS_MAX = 3.0  # a delay of up to so many CPU times of a request is the client's own work
_CPU_LOW = 60.0
_CPU_BUSY = 50.0  # below that, cheaper requests or more processes change little
_ERRORS_MAX = 3

UNANSWERED_REMEDY = "check that the service is up and that --host is right"
"""What to do where nothing answered."""

_UNREACHED = re.compile(  # what Python's and gevent's sockets say where nothing answers
    r"refused|connect|timed? ?out|unreachable|resol|name or service|getaddrinfo|gaierror|reset"
    r"|broken pipe|remote end closed",
    re.IGNORECASE,
)
_SERVICE_REMEDIES = {
    Component.SERVICE_QUEUE: (
        "requests wait for the application to be called, so keep blocking calls out of its event "
        "loop or run more workers of it"
    ),
    Component.SERVICE_APP: (
        "profile the handlers of the slow endpoints and what they wait for, such as a database or "
        "a free thread"
    ),
    Component.SERVICE_BODY: "send smaller answers, or find out what delays their parts",
}


def generator_share(total: Sketch) -> float:
    """The part of the mean response time that the generator made."""
    made_of = total.makeup(None)
    whole = float(made_of.sum())
    own = sum(float(made_of[each]) for each in COMPONENTS if each.side is Side.GENERATOR)
    return own / whole if whole > 0 else 0.0


def in_step(manifest: Manifest, total: Sketch) -> bool | None:
    """Whether users fire in the same instant and queue for one process; None if unknown.

    They do where many more tasks start together than independent users' would
    (`trilat.correlator.sketches.bunching`), and that makes a part of the response time that
    counts: a delay in the generator, longer than a request costs the client itself, while the
    processor is far from busy. Failed requests say nothing of it (a refused connection is all
    sending).
    """
    cpu = manifest.generator_cpu_percent
    delay, cost_ns = total.histogram("generator"), _cost_ns(manifest, total)
    index = None if total.bunching is None else total.bunching.index
    if index is None or cpu is None or cost_ns is None or mostly_failed(total):
        return None
    return (
        index - 1 >= _others_together(manifest, cost_ns)
        and cpu["mean"] < _CPU_LOW
        and delay.count > 0
        and delay.mean_ns > _COSTS_MAX * cost_ns
        and generator_share(total) > _SHARE_IN_STEP
    )


def _others_together(manifest: Manifest, cost_ns: float) -> float:
    """How many others that start within the same 10 ms, beyond chance, make users be in step.

    Five; or half of all others where a process has few users; or half of what it can start in that
    time. Seen with independent users: below 1, and up to 4 on a machine whose processors were taken
    by other programs. Seen with 60 users in step: 11 (HttpUser) and 28 (FastHttpUser).
    """
    users = manifest.users / max(manifest.processes, 1)
    fit = CELL_NS / max(cost_ns, 1.0)
    return max(min(_OTHERS_IN_STEP, (users - 1) / 2, fit / 2), 1.0)


def _cost_ns(manifest: Manifest, total: Sketch) -> float | None:
    """CPU time of the generator for one request, Locust's own housekeeping included."""
    cpu, seconds = manifest.generator_cpu_percent, measured_s(manifest, total)
    if cpu is None or not seconds or not total.requests:
        return None
    return 1e9 * seconds * manifest.processes * cpu["mean"] / 100 / total.requests


def mostly_failed(total: Sketch) -> bool:
    """Whether more than half of the requests failed."""
    return 2 * total.failures > total.requests


def generator_remedies(
    manifest: Manifest, total: Sketch, generator: GeneratorFigures | None = None
) -> str:
    """What would make the generator's share smaller in this run, the most useful first.

    Args:
        manifest: the run's facts.
        total: all its requests.
        generator: what the generator told of itself; the line that blocked its hub is named.
    """
    cpu = manifest.generator_cpu_percent
    busy = cpu is None or cpu["mean"] >= _CPU_BUSY
    together = bool(in_step(manifest, total))
    cost_ns, delay = _cost_ns(manifest, total), total.histogram("generator")
    own_work = cost_ns is not None and bool(delay.count) and delay.mean_ns <= _COSTS_MAX * cost_ns
    remedies = []
    if blocking := hub_remedy(generator):
        remedies.append(blocking)
    elif together:
        remedies.append(_spread(manifest))
    client_counts = busy or ((together or own_work) and not blocking)
    if client_counts and any(each["client"] == "HttpUser" for each in manifest.user_classes):
        remedies.append(
            "use FastHttpUser in place of HttpUser, which costs about a fifth of the CPU time"
        )
    cpus = manifest.host.get("cpus")
    if busy and isinstance(cpus, int) and manifest.processes < cpus:
        remedies.append(
            f"run more processes: --processes {cpus} (there are {cpus} processors, "
            f"{manifest.processes} in use)"
        )
    elif busy and manifest.same_host:
        remedies.append("run the generator on another host than the service")
    elif busy:
        remedies.append("add Locust workers on further hosts")
    if not remedies:
        remedies.append(
            "find out what blocks the generator, whose CPU time is low: blocking calls in tasks, "
            "or other programs on its host"
        )
    return "; ".join(remedies)


def _spread(manifest: Manifest) -> str:
    """How to get users out of step: those with a period by it, others by when they start."""
    if any(each["target_rate_per_s"] for each in manifest.user_classes):
        return (
            "spread the users, which fire in the same instant: let each sleep for a random one to "
            "two of its periods in on_start, or wait with poisson(rate), and keep what blocks out "
            "of tasks"
        )
    return "users start together: lower --spawn-rate, and keep what blocks out of tasks"


def service_remedy(total: Sketch, service: ServiceFigures | None = None) -> str:
    """Where to look in a service that is too slow: its largest component.

    Args:
        total: the requests.
        service: what the service told of itself; the line that blocked its event loop is named.
    """
    parts = service_parts(total)
    if not parts:
        return "see what the service does with these requests"
    largest = max(parts, key=lambda each: parts[each])
    lead = f"look at {largest.label} ({percent(parts[largest])} of the service's time)"
    blocked = blocked_part(total, None)
    if largest is Component.SERVICE_APP and blocked is not None and blocked.share >= MOSTLY:
        return f"{lead}: {blocked.text} on average; {blocking_remedy(service)}"
    if largest is Component.SERVICE_QUEUE and service is not None and service.named:
        return f"{lead}: requests wait while the event loop is blocked; {blocking_remedy(service)}"
    return f"{lead}: {_SERVICE_REMEDIES[largest]}"


def service_parts(total: Sketch) -> dict[Component, float]:
    """The parts of the service's time; empty where none is known."""
    made_of = total.makeup(None)
    times = {each: float(made_of[each]) for each in COMPONENTS if each.side is Side.SERVICE}
    whole = sum(times.values())
    return {each: time / whole for each, time in times.items()} if whole > 0 else {}


def unanswered(manifest: Manifest, total: Sketch) -> bool:
    """Whether no request was answered at all, as far as Locust's own failures tell."""
    if total.matched or total.failures < total.requests or not total.requests:
        return False
    return all(_UNREACHED.search(each["error"]) for each in manifest.failures)


def error_texts(manifest: Manifest) -> str:
    """Locust's texts of the most frequent failures, each with how often it came."""
    texts = [
        f"{clean(each['error'], 120)} ({count(each['count'])}×)"  # noqa: RUF001 - the sign for times
        for each in manifest.failures[:_ERRORS_MAX]
    ]
    more = ", …" if len(manifest.failures) > _ERRORS_MAX else ""
    return ", ".join(texts) + more


def coverage_remedy(total: Sketch) -> str:
    """What to do where evidence from the service is missing."""
    if not total.matched:
        return (
            "add TrilatMiddleware to the service, outermost, with the same token as the run, and "
            "see that no proxy between them drops the Server-Timing header"
        )
    if 2 * total.failures > total.requests - total.matched:
        return "find out why requests failed, since those bring no evidence"
    return (
        "the other requests have it, so see which endpoints, hosts or workers of the service are "
        "without TrilatMiddleware or behind something that answers in its place"
    )
