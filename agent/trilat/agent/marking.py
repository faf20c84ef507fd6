"""The two headers that mark a request: ``Trilat-Run`` and the W3C ``traceparent``.

``Trilat-Run: <run id>`` or ``Trilat-Run: <run id>;token=<token>`` says which run a request belongs
to and that the answer may carry stamps. ``traceparent`` (https://www.w3.org/TR/trace-context/,
level 1) names the request; one that is already there is kept.
"""

from __future__ import annotations

import secrets
from hmac import compare_digest
from typing import NamedTuple

__all__ = [
    "RUN_HEADER",
    "RUN_ID_LENGTH",
    "TRACEPARENT_HEADER",
    "TraceContext",
    "new_run_id",
    "parse_traceparent",
    "run_header",
    "run_is_allowed",
]

RUN_HEADER = "Trilat-Run"
TRACEPARENT_HEADER = "traceparent"
RUN_ID_LENGTH = 12
_MAX_HEADER = 256
_HEX = frozenset("0123456789abcdef")


class TraceContext(NamedTuple):
    """Trace id (128 bits) and span id (64 bits) of a request."""

    trace: int
    span: int


def new_run_id() -> str:
    """A random run id: 12 hexadecimal digits."""
    return secrets.token_hex(RUN_ID_LENGTH // 2)


def run_header(run_id: str, token: str | None) -> str:
    """The value of ``Trilat-Run`` for a run."""
    return f"{run_id};token={token}" if token else run_id


def run_is_allowed(value: bytes, token: bytes | None) -> bool:
    """Whether a request with this ``Trilat-Run`` value may be answered with stamps.

    The token is compared in constant time (`hmac.compare_digest`). Anything malformed or longer
    than 256 bytes is refused.
    """
    if not value or len(value) > _MAX_HEADER:
        return False
    if token is None:
        return True
    _, _, given = value.partition(b";token=")
    return compare_digest(given, token)


def parse_traceparent(value: str) -> TraceContext | None:
    """Read a ``traceparent`` header; None where it does not follow the specification."""
    version, trace, span, flags = value[:2], value[3:35], value[36:52], value[53:55]
    if (
        len(value) < 55
        or value[2:3] + value[35:36] + value[52:53] != "---"
        or (len(value) > 55 and (version == "00" or value[55] != "-"))
        or version == "ff"
        or not _HEX.issuperset(version + trace + span + flags)
    ):
        return None
    context = TraceContext(int(trace, 16), int(span, 16))
    return context if context.trace and context.span else None
