"""Locust's two HTTP clients: where a timeline opens and where it closes.

``_send_request_safe_mode`` exists in both clients and is what Locust's timer encloses, so a
timeline opened on its first line starts a microsecond after the timer. HttpUser's timer stops when
it returns. FastHttpUser's goes on while the body is read and stops before ``request`` returns.
The response then carries the timeline to the ``request`` event, however late that is fired.
"""

from __future__ import annotations

from typing import Any

from greenlet import getcurrent

from locust.clients import HttpSession
from locust.contrib.fasthttp import FastHttpSession

from .marker import marker
from .timeline import Timeline

__all__ = ["install"]

_HttpSession: Any = HttpSession
_FastHttpSession: Any = FastHttpSession
_plain_http = _HttpSession._send_request_safe_mode
_plain_fast = _FastHttpSession._send_request_safe_mode
_plain_fast_request = _FastHttpSession.request


def install() -> None:
    """Wrap both clients; a second call changes nothing."""
    _HttpSession._send_request_safe_mode = _http
    _FastHttpSession._send_request_safe_mode = _fast
    _FastHttpSession.request = _fast_request


def _http(self: Any, method: Any, url: Any, **kwargs: Any) -> Any:
    if not marker.active:
        return _plain_http(self, method, url, **kwargs)
    greenlet: Any = getcurrent()
    outer = getattr(greenlet, "trilat_timeline", None)
    greenlet.trilat_timeline = timeline = Timeline()
    if (due := getattr(greenlet, "trilat_due", None)) is not None:
        timeline.due, greenlet.trilat_due = due, None
    try:
        response = _plain_http(self, method, url, **kwargs)
    finally:
        greenlet.trilat_timeline = outer  # an auth callable may make requests of its own
    response.trilat_timeline = timeline
    return response


def _fast(
    self: Any, method: Any, url: Any, payload: Any = None, headers: Any = None, **others: Any
) -> Any:
    # Without others, which are rare, there is no dictionary to be made and taken apart again.
    if not marker.active:
        return _plain_fast(self, method, url, payload=payload, headers=headers, **others)
    greenlet: Any = getcurrent()
    greenlet.trilat_timeline = timeline = Timeline()
    if (due := getattr(greenlet, "trilat_due", None)) is not None:
        timeline.due, greenlet.trilat_due = due, None
    if others:
        response = _plain_fast(self, method, url, payload=payload, headers=headers, **others)
    else:
        response = _plain_fast(self, method, url, payload=payload, headers=headers)
    response.trilat_timeline = timeline
    return response


def _fast_request(self: Any, *args: Any, **kwargs: Any) -> Any:
    greenlet: Any = getcurrent()
    outer = getattr(greenlet, "trilat_timeline", None)
    try:
        return _plain_fast_request(self, *args, **kwargs)
    finally:
        greenlet.trilat_timeline = outer
