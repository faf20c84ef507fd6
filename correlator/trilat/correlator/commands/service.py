"""What a running service tells of itself: `trilat doctor --url`."""

from __future__ import annotations

import secrets

from trilat.agent.errors import InputError
from trilat.agent.host import host_identity
from trilat.agent.records import UNKNOWN, ServiceMarks

from .asking import Answer, Asker
from .finding import Finding

__all__ = ["examine_service"]

_REQUESTS = 5
# What a browser sends ahead of a request from another site; a CORS middleware answers it itself.
_PREFLIGHT = {
    "Origin": "http://trilat.invalid",
    "Access-Control-Request-Method": "GET",
}


def examine_service(url: str, token: str | None) -> list[Finding]:
    """Send a service some marked requests and see what it answers.

    Args:
        url: where; it gets five GET requests there, one for a path that does not exist, and one
            CORS preflight.
        token: the middleware's token, or None.

    Raises:
        UsageError: not a URL.
    """
    with Asker(url, token) as asker:
        try:
            answers = [asker.ask() for _ in range(_REQUESTS)]
            stamped = [answer.marks for answer in answers if answer.marks is not None]
            findings = [_stamps(answers, len(stamped), token is not None)]
            if stamped:
                findings += [_queue(stamped), _host(stamped[-1], answers), _outermost(asker)]
        except InputError as error:
            return [
                Finding(
                    "service",
                    "missing",
                    str(error),
                    "nothing can be said of this service",
                    "start it, or correct the URL",
                )
            ]
    return findings


def _stamps(answers: list[Answer], stamped: int, with_token: bool) -> Finding:
    seen = f"{stamped} of {len(answers)} marked requests were answered with a stamp"
    statuses = sorted({answer.status for answer in answers})
    if any(status >= 400 for status in statuses):
        seen += f" (status {', '.join(map(str, statuses))})"
    if stamped == len(answers):
        return Finding("stamps", "ok", seen)
    token = "the token is another" if with_token else "it wants a token (--token)"
    return Finding(
        "stamps",
        "missing",
        seen,
        "its requests stay unattributed",
        "add TrilatMiddleware to the service as its outermost middleware; if it has it, then "
        f"{token}, or something before it answers from a cache or removes Server-Timing",
    )


def _queue(stamped: list[ServiceMarks]) -> Finding:
    if any(marks.queue_ms != UNKNOWN for marks in stamped):
        return Finding("queue", "ok", "the service tells how long requests waited for it")
    return Finding(
        "queue",
        "missing",
        "the service cannot see when its requests arrived",
        "service.queue is estimated from the clocks only, or stays within the network's time",
        "serve it with uvicorn over HTTP/1.1 on Linux, with nothing that wraps receive outside "
        "the middleware",
    )


def _host(marks: ServiceMarks, answers: list[Answer]) -> Finding:
    trip_ms = min(answer.elapsed_ns for answer in answers) / 1e6
    fastest = f"fastest answer {trip_ms:.2f} ms"
    if marks.host == host_identity():
        return Finding(
            "host",
            "note",
            f"the service runs on this machine, {fastest}",
            "generator and service share its processors: a loaded generator slows the service",
            "for numbers that count, make the load from another machine",
        )
    return Finding("host", "ok", f"the service runs on another machine, {fastest}")


def _outermost(asker: Asker) -> Finding:
    """Whether answers that no endpoint makes are stamped as well."""
    unknown = asker.ask(path=f"/trilat-{secrets.token_hex(8)}")
    preflight = asker.ask("OPTIONS", headers=_PREFLIGHT)
    bare = [
        what
        for what, answer in (("an unknown path", unknown), ("a CORS preflight", preflight))
        if answer.marks is None
    ]
    if not bare:
        return Finding(
            "outermost", "ok", "an unknown path and a CORS preflight are answered with a stamp too"
        )
    return Finding(
        "outermost",
        "missing",
        f"the answer to {' and '.join(bare)} carries no stamp",
        "what runs outside the middleware is counted as service.queue or network, and what it "
        "answers by itself stays unattributed",
        "add TrilatMiddleware last, so that it is the outermost",
    )
