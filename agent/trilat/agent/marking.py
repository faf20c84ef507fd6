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
from typing import NamedTuple

from .errors import UsageError

__all__ = [
    "RUN_HEADER",
    "RUN_ID_LENGTH",
    "TRACEPARENT_HEADER",
    "TraceContext",
    "new_run_id",
    "parse_traceparent",
    "run_header",
    "run_is_allowed",
    "span_of",
    "token_bytes",
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
_NO_TRACE = b"0" * 32
_NO_SPAN = b"0" * 16
_SPAN = Struct(">Q")


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


def parse_traceparent(value: str) -> TraceContext | None:
    """Read a ``traceparent`` header; None where it does not follow the specification."""
    raw = value.encode("ascii", "replace")
    if not _is_traceparent(raw):
        return None
    return TraceContext(int(raw[3:35], 16), int(raw[36:52], 16))


def span_of(value: bytes) -> int:
    """The span id in a ``traceparent`` header; 0 where it does not follow the specification."""
    if not _is_traceparent(value):
        return 0
    span: int
    (span,) = _SPAN.unpack(a2b_hex(value[36:52]))
    return span


def _is_traceparent(value: bytes) -> bool:
    """Section 3.2 of the specification: ``version-trace-parent-flags``, lower-case hexadecimal.

    Neither id may be all zero. Version ff is forbidden; version 00 ends after its flags, and a
    later version may go on behind a dash.
    """
    if len(value) > _LENGTH:
        if value[:2] == b"00" or value[_LENGTH] != _DASH:
            return False
        value = value[:_LENGTH]
    return (
        value.translate(_TO_SHAPE) == _SHAPE
        and value[3:35] != _NO_TRACE
        and value[36:52] != _NO_SPAN
        and value[:2] != b"ff"
    )
