"""Heads of HTTP/1 messages, as far as they have to be told apart."""

from __future__ import annotations

from typing import Any

__all__ = ["is_request", "server_timing"]

_LINE_MAX = 65536


def is_request(data: Any) -> bool:
    """Whether bytes begin with a request line."""
    line, ended, _ = bytes(data[:_LINE_MAX]).partition(b"\r\n")
    return bool(ended) and line[-9:-1] == b" HTTP/1."


def server_timing(headers: Any) -> bytes:
    """All ``Server-Timing`` of an answer, as either client keeps it: text, or a list of texts."""
    value = headers.get("server-timing") or ""
    text = value if isinstance(value, str) else ", ".join(value)
    return text.encode("latin-1", "replace")
