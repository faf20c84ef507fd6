"""The two headers that mark a request: ``Trilat-Run`` and the W3C ``traceparent``.

``Trilat-Run: <run id>`` or ``Trilat-Run: <run id>;token=<token>`` says which run a request belongs
to and that the answer may carry stamps. ``traceparent`` (https://www.w3.org/TR/trace-context/,
level 1) names the request; one that is already there is kept.
"""

from __future__ import annotations

import secrets
from binascii import a2b_hex
from hmac import compare_digest
from struct import Struct
from typing import TypeAlias

from .errors import UsageError

__all__ = [
    "RUN_HEADER",
    "RUN_ID_LENGTH",
    "TRACEPARENT_HEADER",
    "TraceContext",
    "new_run_id",
    "run_header",
    "run_is_allowed",
    "token_bytes",
    "trace_context",
]

RUN_HEADER = "Trilat-Run"
TRACEPARENT_HEADER = "traceparent"
RUN_ID_LENGTH = 12
_MAX_HEADER = 256
_MAX_TOKEN = 200
_DASH = ord("-")
# Every hexadecimal digit becomes an h, a dash stays, all else becomes an x: the whole form of a
# traceparent is then one comparison.
_TO_SHAPE = bytes(
    ord("h") if chr(code) in "0123456789abcdef" else code if code == _DASH else ord("x")
    for code in range(256)
)
_SHAPE = b"-".join(b"h" * length for length in (2, 32, 16, 2))
_LENGTH = len(_SHAPE)
_IDS = Struct(">BQQQx")  # version, trace id in two halves, span id; the flags are left out
_FORBIDDEN_VERSION = 0xFF

TraceContext: TypeAlias = tuple[int, int, int]
"""Trace id (128 bits, in two halves) and span id (64 bits) of a request; a plain tuple, since each
request of a service has one made."""


def new_run_id() -> str:
    """A random run id: 12 hexadecimal digits."""
    return secrets.token_hex(RUN_ID_LENGTH // 2)


def run_header(run_id: str, token: str | None) -> str:
    """The value of ``Trilat-Run`` for a run."""
    return f"{run_id};token={token}" if token else run_id


def run_is_allowed(value: bytes, token: bytes | None) -> bool:
    """Whether a request with this ``Trilat-Run`` value may be answered with stamps.

    The token is compared in constant time (`hmac.compare_digest`). Anything empty, not ASCII or
    longer than 256 bytes is refused; a run id of any other form is let through, so that a person
    can ask for stamps by hand.
    """
    if not value or len(value) > _MAX_HEADER or not value.isascii():
        return False
    if token is None:
        return True
    _, _, given = value.partition(b";token=")
    return compare_digest(given, token)


def token_bytes(token: str) -> bytes:
    """The token as it is compared.

    Raises:
        UsageError: empty, longer than 200 characters, or not of visible ASCII characters. An empty
            one is most often a variable that was not set, and would let everybody in.
    """
    if not 1 <= len(token) <= _MAX_TOKEN or not all("!" <= character <= "~" for character in token):
        raise UsageError(
            f"the token must be 1 to {_MAX_TOKEN} visible ASCII characters without spaces;"
            " leave it out to answer every marked request"
        )
    return token.encode("ascii")


def trace_context(value: bytes) -> TraceContext | None:
    """Read a ``traceparent`` header; None where it does not follow the specification.

    Section 3.2 of the specification: ``version-trace-parent-flags``, lower-case hexadecimal.
    Neither id may be all zero. Version ff is forbidden; version 00 ends after its flags, and a
    later version may go on behind a dash.
    """
    if len(value) > _LENGTH:
        if value[:2] == b"00" or value[_LENGTH] != _DASH:
            return None
        value = value[:_LENGTH]
    if value.translate(_TO_SHAPE) != _SHAPE:
        return None
    version, trace_high, trace_low, span = _IDS.unpack(a2b_hex(value.replace(b"-", b"")))
    if version == _FORBIDDEN_VERSION or not span or not (trace_high or trace_low):
        return None
    return trace_high, trace_low, span
