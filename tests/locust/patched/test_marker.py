"""The marks that go into a request's head."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from trilat.agent.marking import trace_context
from trilat.locust.marks.marker import Marker
from trilat.locust.marks.timeline import Timeline

TOKEN = st.text(string.ascii_letters + "-", min_size=1, max_size=12)
VALUE = st.text(string.ascii_letters + string.digits + " /;=.", max_size=30)


def started() -> Marker:
    """A marker of a run."""
    marker = Marker()
    marker.start("0123456789ab;token=secret")
    return marker


def parsed(raw: bytes) -> tuple[str, list[tuple[str, str]], bytes]:
    """Request line, headers and body of a request's bytes."""
    head, _, body = raw.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    split = [field.partition(":") for field in fields]
    return line, [(name.lower(), value.strip()) for name, _, value in split], body


@given(method=TOKEN, path=VALUE, fields=st.lists(st.tuples(TOKEN, VALUE)), body=st.binary())
def test_marks_are_two_headers_more_and_nothing_else(
    method: str, path: str, fields: list[tuple[str, str]], body: bytes
) -> None:
    """Whatever the request, its line, headers and body stay as they were."""
    fields = [f for f in fields if f[0].lower() != "traceparent"]
    head = f"{method} /{path} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in fields) + "\r\n"
    raw = head.encode() + body
    timeline = Timeline()
    at, marks = started().lines(timeline, raw)
    if method == "CONNECT":
        assert marks == b""
        return
    line, headers, rest = parsed(raw[:at] + marks + raw[at:])
    assert line == f"{method} /{path} HTTP/1.1"
    assert rest == body
    assert headers[0] == ("trilat-run", "0123456789ab;token=secret")
    assert headers[2:] == [(name.lower(), value.strip()) for name, value in fields]
    context = trace_context(headers[1][1].encode())
    assert context is not None
    assert context == (timeline.trace_high, timeline.trace_low, timeline.span)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_request_head_are_left_alone(raw: bytes) -> None:
    """Random bytes get no marks unless they happen to be an HTTP/1 request line."""
    at, marks = started().lines(Timeline(), raw)
    assert not marks or raw[at - 11 : at - 4] == b" HTTP/1"


def test_a_proxy_is_not_sent_the_marks() -> None:
    """A CONNECT request is for the proxy, not for the service."""
    head = b"CONNECT example.test:443 HTTP/1.1\r\nHost: example.test:443\r\n\r\n"
    assert started().lines(Timeline(), head) == (0, b"")


def test_an_existing_traceparent_is_kept_and_its_ids_are_used() -> None:
    """A locustfile's own trace context goes out unchanged, whatever its header's case."""
    trace, span = 0xA5 << 120 | 7, 0xB
    theirs = f"TraceParent: 00-{trace:032x}-{span:016x}-00"
    timeline = Timeline()
    head = f"GET / HTTP/1.1\r\nHost: x\r\n{theirs}\r\n\r\n".encode()
    _, marks = started().lines(timeline, head)
    assert marks == b"Trilat-Run: 0123456789ab;token=secret\r\n"
    assert (timeline.trace_high << 64 | timeline.trace_low, timeline.span) == (trace, span)


def test_a_malformed_traceparent_is_kept_and_names_nothing() -> None:
    """What the locustfile sends is its business; we just cannot match by it."""
    timeline = Timeline()
    head = b"GET / HTTP/1.1\r\ntraceparent: nonsense\r\n\r\n"
    _, marks = started().lines(timeline, head)
    assert b"traceparent" not in marks
    assert timeline.span == 0


def test_ids_do_not_repeat() -> None:
    """Spans of ten thousand requests are all different, and so are those of another process."""
    seen = set()
    for marker in (started(), started()):
        for _ in range(10_000):
            timeline = Timeline()
            marker.lines(timeline, b"GET / HTTP/1.1\r\n\r\n")
            seen.add((timeline.trace_high, timeline.trace_low, timeline.span))
    assert len(seen) == 20_000
