"""Answers of real servers, read over real sockets."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from websockets.sync.client import connect

from trilat.agent.host import host_identity, kernel_tick_us
from trilat.agent.records import ServiceMarks
from trilat.agent.stamp import EMPTY, decode, find

if TYPE_CHECKING:
    from tests.conftest import Service, StartService

RUN = "0123456789ab"
TOKEN = "a-token-of-the-tests"


@pytest.fixture(
    scope="module",
    params=[
        ("asyncio", "h11"),
        ("asyncio", "httptools"),
        ("uvloop", "h11"),
        ("uvloop", "httptools"),
    ],
    ids="-".join,
)
def service(request: pytest.FixtureRequest, start_service: StartService) -> Iterator[Service]:
    """The applications of the tests under each event loop and HTTP parser of uvicorn."""
    loop, http = request.param
    apps = Path(__file__).parent / "served_apps.py"
    with start_service(apps, "--loop", loop, "--http", http) as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    """A client that keeps its connection."""
    with httpx.Client(base_url=service.url, trust_env=False, timeout=60) as client:
        yield client


def mark(span: int = 1, run: str = RUN) -> dict[str, str]:
    """The headers of a marked request."""
    return {"Trilat-Run": run, "traceparent": f"00-{secrets.token_hex(16)}-{span:016x}-01"}


def marks_of(response: httpx.Response, span: int = 1) -> ServiceMarks:
    """The marks in an answer, which must echo this span."""
    packed = find(response.headers.get("server-timing", "").encode(), span)
    assert packed != EMPTY
    return decode(packed)


def is_stamped(response: httpx.Response) -> bool:
    """Whether an answer carries a stamp for any request."""
    return "trilat" in response.headers.get("server-timing", "")


def test_marked_request_is_answered_with_the_service_time(client: httpx.Client) -> None:
    """The stamps enclose what the handler itself saw of its time."""
    sent_wall_ns = time.time_ns()
    response = client.get("/plain/wait?ms=10", headers=mark(span=7))
    seen = response.json()
    marks = marks_of(response, span=7)
    assert marks.app_ns >= seen["took_ns"] > 5_000_000  # uvloop rounds to milliseconds
    assert sent_wall_ns <= marks.called_wall_ns <= seen["entered_wall_ns"]


def test_marked_request_is_answered_with_kernel_evidence(client: httpx.Client) -> None:
    """Each combination of loop and parser exposes the socket, and the loop's lag is followed."""
    marks = marks_of(client.get("/plain/wait", headers=mark()))
    assert marks.queue_ms >= 0
    assert marks.blocked_ns >= 0
    assert marks.tick_us == kernel_tick_us()
    assert marks.host == host_identity()
    assert marks.instance != 0


def test_header_shows_a_browser_what_the_stamp_says(client: httpx.Client) -> None:
    """The first entries are in milliseconds, and the application's own entry stays."""
    response = client.get("/plain/wait", headers=mark())
    marks = marks_of(response)
    own, ours = response.headers.get_list("server-timing")
    assert own == "db;dur=1.5"
    assert ours.startswith(f"app;dur={marks.app_ns / 1e6:.3f}, queue;dur={marks.queue_ms}, ")
    assert ", trilat;desc=" in ours


def test_one_process_keeps_its_identity(client: httpx.Client) -> None:
    """All answers of a process, whichever application gave them, name the same instance."""
    paths = ["/plain/wait", "/plain/wait", "/fastapi/state", "/starlette/hello"]
    assert len({marks_of(client.get(path, headers=mark())).instance for path in paths}) == 1


def test_unmarked_request_gets_no_header(client: httpx.Client) -> None:
    """Without the run's header an answer stays as the application made it."""
    response = client.get("/plain/wait", headers={"traceparent": mark()["traceparent"]})
    assert response.headers.get_list("server-timing") == ["db;dur=1.5"]


@pytest.mark.parametrize(
    ("run", "stamped"),
    [
        (f"{RUN};token={TOKEN}", True),
        (RUN, False),
        (f"{RUN};token=", False),
        (f"{RUN};token={TOKEN}x", False),
        (f"{RUN};token=wrong", False),
        (TOKEN, False),
    ],
)
def test_token_decides_who_gets_stamps(client: httpx.Client, run: str, stamped: bool) -> None:
    """With a token set, only requests that carry exactly it are answered with stamps."""
    response = client.get("/token/wait", headers=mark(run=run))
    assert response.status_code == 200
    assert is_stamped(response) == stamped


@pytest.mark.parametrize(
    "traceparent",
    [
        b"",
        b"00",
        b"00-" + b"0" * 32 + b"-00f067aa0ba902b7-01",
        b"00-4bf92f3577b34da6a3ce929d0e0e4736-" + b"0" * 16 + b"-01",
        b"00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
        b"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        b"\xe9" * 55,
        b"a" * 20_000,
    ],
)
def test_malformed_traceparent_is_counted_as_none(client: httpx.Client, traceparent: bytes) -> None:
    """A broken traceparent gives span 0 and one count more, and the answer is the same."""
    before = client.get("/health").json()
    headers = [(b"Trilat-Run", RUN.encode()), (b"traceparent", traceparent)]
    response = client.get("/plain/wait", headers=headers)
    after = client.get("/health").json()
    assert marks_of(response, span=0).span == 0
    assert after["malformed_traceparents"] == before["malformed_traceparents"] + 1
    assert after["errors"] == 0


@pytest.mark.parametrize("run", [b"", b"\xe9\xff", b"a" * 257, b"a" * 20_000])
def test_malformed_run_is_refused(client: httpx.Client, run: bytes) -> None:
    """A run header that is empty, oversized or not ASCII counts as refused, nothing else."""
    before = client.get("/health").json()
    response = client.get("/plain/wait", headers=[(b"Trilat-Run", run)])
    after = client.get("/health").json()
    assert response.status_code == 200
    assert not is_stamped(response)
    assert after["refused"] == before["refused"] + 1
    assert after["errors"] == 0


def test_doubled_headers_do_no_harm(client: httpx.Client) -> None:
    """The first run header counts; two different traceparents are as good as none."""
    headers = [*mark(span=1).items(), *mark(span=2).items()]
    response = client.get("/plain/wait", headers=headers)
    assert marks_of(response, span=0).span == 0
    assert response.headers["server-timing"].count("trilat;") == 1


def test_streamed_answer_is_stamped_at_its_start(client: httpx.Client) -> None:
    """The pieces of a body go through as they are, behind a stamped start."""
    response = client.get("/plain/stream", headers=mark())
    assert response.text == "one two three"
    assert marks_of(response).app_ns >= 0


def test_shared_message_does_not_gather_headers(client: httpx.Client) -> None:
    """An application that sends one object over and over gets each answer stamped once."""
    for span in (1, 2, 3):
        response = client.get("/plain/shared", headers=mark(span))
        assert len(response.headers.get_list("server-timing")) == 1
        assert marks_of(response, span).span == span
    assert not is_stamped(client.get("/plain/shared"))


@pytest.mark.parametrize("path", ["/plain/fail", "/plain/never"])
def test_application_that_never_answers_gets_the_servers_answer(
    client: httpx.Client, path: str
) -> None:
    """The server's own 500 carries no stamp, and the service goes on."""
    response = client.get(path, headers=mark())
    assert response.status_code == 500
    assert not is_stamped(response)
    assert is_stamped(client.get("/plain/wait", headers=mark()))


def test_second_start_is_the_servers_to_refuse(client: httpx.Client) -> None:
    """An application that starts its answer twice fails as it does without the middleware."""
    sent = []
    for headers in ({}, mark()):
        try:
            response = client.get("/plain/twice", headers=headers)
            sent.append((response.status_code, response.content))
        except httpx.RemoteProtocolError as error:
            sent.append((0, str(error).encode()))
    assert sent[0] == sent[1]
    assert is_stamped(client.get("/plain/wait", headers=mark()))


def test_head_is_stamped(client: httpx.Client) -> None:
    """An answer without a body has its header all the same."""
    response = client.head("/starlette/hello", headers=mark())
    assert response.content == b""
    assert marks_of(response).app_ns > 0


def test_unknown_path_is_stamped(client: httpx.Client) -> None:
    """A 404 is the application's answer."""
    response = client.get("/starlette/nowhere", headers=mark())
    assert response.status_code == 404
    assert is_stamped(response)


def test_unhandled_exception_is_stamped_only_where_all_is_wrapped(service: Service) -> None:
    """Starlette answers with a 500 outside of added middleware, inside a wrapper of the whole."""
    added, wrapped = (  # uvicorn closes the connection after each
        httpx.get(service.url + path, headers=mark(), trust_env=False, timeout=60)
        for path in ("/fastapi/fail", "/wrapped/fail")
    )
    assert (added.status_code, wrapped.status_code) == (500, 500)
    assert not is_stamped(added)
    assert is_stamped(wrapped)


def test_lifespan_passes(client: httpx.Client) -> None:
    """What the application did at its start is there for the requests."""
    assert client.get("/fastapi/state").json() == {"began": "yes"}


@pytest.mark.parametrize("path", ["/plain/echo", "/fastapi/echo"])
def test_websocket_passes(service: Service, path: str) -> None:
    """A WebSocket works, marked as it may be, and its handshake carries no stamp."""
    url = f"ws://127.0.0.1:{service.port}{path}"
    with connect(url, additional_headers=mark(), proxy=None) as websocket:
        websocket.send("hello")
        assert websocket.recv(timeout=60) == "hello"
        assert websocket.response is not None
        assert "server-timing" not in websocket.response.headers


def test_concurrent_requests_keep_their_own_marks(service: Service) -> None:
    """Each of many requests in flight gets its own span, and no less than its own time."""

    async def ask(client: httpx.AsyncClient, span: int) -> None:
        response = await client.get(f"/plain/wait?ms={span % 7 * 5}", headers=mark(span))
        marks = marks_of(response, span)
        assert marks.app_ns >= response.json()["took_ns"]
        assert marks.called_wall_ns <= response.json()["entered_wall_ns"]

    async def ask_all() -> None:
        async with httpx.AsyncClient(base_url=service.url, trust_env=False, timeout=60) as client:
            await asyncio.gather(*(ask(client, span) for span in range(1, 41)))

    asyncio.run(ask_all())


def test_wait_for_a_blocked_loop_is_seen(client: httpx.Client, service: Service) -> None:
    """A request that lay in the kernel while the loop was blocked tells of it, within a tick."""
    head = "".join(f"{name}: {value}\r\n" for name, value in mark(span=9).items())
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as waiting:
        for _ in range(5):  # again where this process did not run while the loop was blocked
            with client.stream("GET", "/plain/block") as blocking:
                pieces = blocking.iter_raw()
                next(pieces)  # from here on the loop is blocked
                waiting.sendall(f"GET /plain/wait HTTP/1.1\r\nhost: x\r\n{head}\r\n".encode())
                arrived_wall_ns = time.time_ns()
                released_wall_ns = json.loads(b"".join(pieces))["released_wall_ns"]
            answer = HTTPResponse(waiting)
            answer.begin()
            answer.read()
            if (waited_ns := released_wall_ns - arrived_wall_ns) > 50_000_000:
                break
    assert waited_ns > 50_000_000
    marks = decode(find(", ".join(answer.headers.get_all("server-timing", [])).encode(), 9))
    assert marks.called_wall_ns >= released_wall_ns
    assert marks.queue_ms >= waited_ns / 1e6 - kernel_tick_us() / 1000 - 1
