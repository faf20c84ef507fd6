"""What a stamp tells of bodies: whether an answer's came as a whole, how long a request's took."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

from trilat.agent.records import StampFlag
from trilat.agent.stamp import EMPTY, decode, find

from .conftest import MARKED, SPAN

if TYPE_CHECKING:
    from tests.middleware.conftest import Serve, Served

KINDS = {
    "uvicorn-h11": ("uvicorn", "--loop", "asyncio", "--http", "h11"),
    "uvicorn-httptools": ("uvicorn", "--loop", "uvloop", "--http", "httptools"),
    "hypercorn": ("hypercorn",),
    "granian": ("granian",),
}
HEADS = "".join(f"{name}: {value}\r\n" for name, value in MARKED.items())


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, served: Serve) -> Iterator[Served]:
    """The answers behind each kind of server."""
    name, *options = KINDS[request.param]
    with served(name, "bodies_app:app", *options, ready="/plain/whole") as running:
        yield running


@pytest.fixture(scope="module", params=["h11", "httptools"])
def uvicorn(request: pytest.FixtureRequest, served: Serve) -> Iterator[Served]:
    """The same behind uvicorn, which sends a start at once."""
    options = ("--http", request.param)
    with served("uvicorn", "bodies_app:app", *options, ready="/plain/whole") as running:
        yield running


@pytest.mark.parametrize(
    ("path", "flag"),
    [
        ("/plain/whole", StampFlag.WHOLE),
        ("/plain/task", StampFlag.WHOLE),
        ("/plain/pieces", StampFlag.STREAMED),
        ("/plain/empty", StampFlag(0)),
        ("/text", StampFlag.WHOLE),
        ("/streamed", StampFlag.STREAMED),
        ("/within/text", StampFlag.STREAMED),  # its body is passed on in two messages
        ("/within/streamed", StampFlag.STREAMED),
        ("/packed/text", StampFlag.WHOLE),
        ("/packed/streamed", StampFlag.STREAMED),
        ("/again/text", StampFlag.WHOLE),
        ("/no-such-path", StampFlag.WHOLE),
    ],
)
def test_a_stamp_tells_how_the_body_came(server: Served, path: str, flag: StampFlag) -> None:
    """Whole or in pieces, whatever server and middleware stand around the application."""
    response, marks = server.marked(path)
    assert StampFlag(marks.flags) == flag
    plain = server.get(path)
    assert (response.status_code, response.content) == (plain.status_code, plain.content)


def test_a_file_is_whole_if_it_is_one_message(server: Served) -> None:
    """A server that can be given a path gets one; to others it is read in pieces or at once."""
    response, marks = server.marked("/file")
    assert StampFlag(marks.flags) in {StampFlag.WHOLE, StampFlag.STREAMED}
    assert response.content == server.get("/file").content


def test_a_head_without_a_body_is_stamped(server: Served) -> None:
    """HEAD names a size and has no body; the answer does not wait for one."""
    response = httpx.head(server.url + "/text", headers=MARKED, trust_env=False)
    assert response.headers["content-length"] == "2000"
    assert decode(find(response.headers["server-timing"].encode(), SPAN)).app_ns >= 0


def _connect(server: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def _ask(conn: socket.socket, path: str, heads: str = "") -> None:
    conn.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{heads}\r\n".encode())


def _head(conn: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got:
        more = conn.recv(65536)
        assert more, got
        got += more
    return got


@pytest.mark.parametrize(
    ("kind", "heads"), [("stream-later", HEADS), ("stream-later", ""), ("sized-later", "")]
)
def test_a_start_goes_out_at_once(uvicorn: Served, kind: str, heads: str) -> None:
    """Of a stream, and of whatever nobody marked: the client has it before there is a body."""
    gate = f"{kind}-{len(heads)}"
    with _connect(uvicorn) as conn:
        _ask(conn, f"/plain/{kind}?{gate}", heads)
        head = _head(conn)
        assert head.startswith(b"HTTP/1.1 200")
        assert (b"trilat;" in head) == bool(heads)
        assert b"xxx" not in head
        uvicorn.get(f"/plain/open?{gate}")
        assert b"xxx" in conn.recv(65536)


def test_a_marked_start_that_names_its_size_comes_with_the_body(uvicorn: Served) -> None:
    """So that its stamp tells whether the body is whole."""
    with _connect(uvicorn) as conn:
        _ask(conn, "/plain/sized-later?held", HEADS)
        conn.settimeout(0.3)
        with pytest.raises(TimeoutError):
            conn.recv(1)
        conn.settimeout(30)
        uvicorn.get("/plain/open?held")
        assert b"trilat;" in _head(conn)


@pytest.mark.parametrize("kind", ["nothing", "fails", "two-starts"])
def test_a_start_is_not_lost(uvicorn: Served, kind: str) -> None:
    """An application that sends a start and then stops: the client gets what it got without."""
    got = []
    for prefix, heads in (("/bare", ""), ("", ""), ("", HEADS)):
        with _connect(uvicorn) as conn:
            _ask(conn, f"{prefix}/plain/{kind}", heads)
            answer = b""
            while more := conn.recv(65536):
                answer += more
        lines = answer.split(b"\r\n")
        got.append([line for line in lines if not line.startswith((b"date:", b"server-timing:"))])
        assert (b"trilat;" in answer) == bool(heads)
    assert got[0] == got[1] == got[2]
    assert got[0][0] == b"HTTP/1.1 200 OK"


def test_waiting_for_a_body_is_not_the_applications_time(uvicorn: Served) -> None:
    """The second half comes later: the stamp's call is later by that, and its time shorter."""
    body, pause_ns = b"y" * 1000, 400_000_000
    head = f"POST /plain/upload HTTP/1.1\r\nHost: x\r\n{HEADS}Content-Length: {len(body)}\r\n\r\n"
    with _connect(uvicorn) as conn:
        conn.sendall(head.encode() + body[:500])
        time.sleep(pause_ns / 1e9)
        sent_ns = time.time_ns()
        conn.sendall(body[500:])
        answer = _head(conn)
        while not answer.endswith(b"\r\n\r\n1000"):
            answer += conn.recv(65536)
    packed = find(answer, SPAN)
    assert packed != EMPTY
    marks = decode(packed)
    # The wait ends when the second half is there, on the same clock.
    assert marks.called_wall_ns >= sent_ns
    assert marks.called_wall_ns + marks.app_ns <= time.time_ns()
    assert marks.blocked_ns <= marks.app_ns
