"""The collect application: what it gives to whom, and what it keeps to itself."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from trilat.agent.clock import Clock
from trilat.agent.errors import UsageError
from trilat.agent.host import host_identity
from trilat.agent.journal import JournalWriter
from trilat.agent.layout import SERVED, Kind
from trilat.agent.samples import SampleWriter, read_samples
from trilat.agent.segment import read_segment
from trilat.middleware.collecting import CollectApp

TOKEN = "only-for-collectors"
KNOWN = ("authorization", f"Bearer {TOKEN}")
STEM = "service-web-1-4711-0badcafe"
JOURNAL = f"{STEM}-000001.trilat"
SAMPLES = f"{STEM}.jsonl"
RECORDS = 6000  # several pieces


@dataclass
class Time:
    """A clock that stands still."""

    now_ns: int = 10**12

    @property
    def clock(self) -> Clock:
        """As applications take it."""
        return Clock(lambda: self.now_ns, lambda: self.now_ns)


@dataclass
class Kept:
    """A station with a directory."""

    directory: Path | None
    instance: int = 77


@dataclass
class Answer:
    """What an application sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    ended: bool = False

    async def send(self, message: Any) -> None:
        """Take a message as a server does."""
        assert not self.ended
        if message["type"] == "http.response.start":
            assert not self.status
            self.status = message["status"]
            self.headers = {
                name.decode(): value.decode("latin-1") for name, value in message["headers"]
            }
        else:
            self.body += message.get("body", b"")
            self.ended = not message.get("more_body", False)


def request(
    path: str, *headers: tuple[str, str], method: str = "GET", root_path: str = ""
) -> dict[str, Any]:
    """The scope of a request as servers make it."""
    path, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": root_path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
    }


async def receive() -> dict[str, Any]:
    """A request without a body."""
    return {"type": "http.request", "body": b"", "more_body": False}


def ask(
    app: Any, path: str, *headers: tuple[str, str], method: str = "GET", root_path: str = ""
) -> Answer:
    """The answer of an application."""
    answer = Answer()
    scope = request(path, *headers, method=method, root_path=root_path)
    asyncio.run(app(scope, receive, answer.send))
    assert answer.ended
    if method == "GET":
        assert answer.headers["content-length"] == str(len(answer.body))
    return answer


def put(writer: JournalWriter, called_wall_ns: int) -> None:
    """Record one request."""
    name = writer.name_id("GET\t/")
    times = (called_wall_ns, 5, 1, 2)
    writer.append(int(Kind.SERVED), 0, name, 1, 2, 3, 0, *times, -1, 0, 0, 0, 10, -1, 1, 200, 0)


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    """The open journal of a service; one request a second since the epoch."""
    facts = {"side": "service"}
    writer = JournalWriter(tmp_path, STEM, facts, layout=SERVED, keep_new=False)
    for second in range(RECORDS):
        put(writer, second * 10**9)
    yield writer
    writer.close()


@pytest.fixture
def app(tmp_path: Path, journal: JournalWriter) -> CollectApp:
    """The application over an open journal and a file of samples."""
    samples = SampleWriter(tmp_path / SAMPLES, {"side": "service"})
    samples.write("vitals", {"wall_s": 3.5})
    samples.close()
    return CollectApp(TOKEN, station=Kept(tmp_path), clock=Time().clock)


def test_files_are_listed(app: CollectApp, tmp_path: Path) -> None:
    """What a collector needs to know of each, and of the service."""
    answer = ask(app, "/files", KNOWN)
    assert answer.headers["content-type"] == "application/json"
    listing = json.loads(answer.body)
    journal, samples = listing.pop("files")
    assert listing == {
        "schema": "trilat.files/1",
        "host": host_identity(),
        "instance": 77,
        "wall_ns": 10**12,
        "journals": True,
    }
    etag = samples.pop("etag")
    size = (tmp_path / SAMPLES).stat().st_size
    assert samples == {
        "name": SAMPLES,
        "kind": "samples",
        "bytes": size,
        "first_wall_ns": 3_500_000_000,
        "last_wall_ns": 3_500_000_000,
    }
    assert ask(app, f"/files/{SAMPLES}", KNOWN).headers["etag"] == etag
    assert (journal["name"], journal["kind"]) == (JOURNAL, "journal")
    assert journal["last_wall_ns"] == (RECORDS - 1) * 10**9 + 2


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("from=0&to=2000000000", [JOURNAL]),
        ("from=3500000000", [JOURNAL, SAMPLES]),
        ("to=-1", []),
        (f"from={10**15}&to={10**16}", []),
    ],
)
def test_a_window_can_be_asked_for(app: CollectApp, query: str, names: list[str]) -> None:
    """Only files with something of that time are listed."""
    files = json.loads(ask(app, f"/files?{query}", KNOWN).body)["files"]
    assert [file["name"] for file in files] == names


@pytest.mark.parametrize("query", ["from=x", "to=", "from=1.5", f"to={'9' * 50}", "from=%C2%B2"])
def test_a_window_that_is_none_is_refused(app: CollectApp, query: str) -> None:
    """It is not taken for an open one, which would bring everything."""
    assert ask(app, f"/files?{query}", KNOWN).status == 400


def test_files_are_given_as_far_as_they_are_written(app: CollectApp, tmp_path: Path) -> None:
    """A journal that is being written ends with its last whole record; it can be read."""
    for name in (JOURNAL, SAMPLES):
        answer = ask(app, f"/files/{name}", KNOWN)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/octet-stream")
        (tmp_path / f"copy-{name}").write_bytes(answer.body)
    copy = tmp_path / f"copy-{JOURNAL}"
    assert read_segment(copy).records == read_segment(tmp_path / JOURNAL).records
    assert copy.stat().st_size < (tmp_path / JOURNAL).stat().st_size
    assert len(read_samples(tmp_path / f"copy-{SAMPLES}").lines) == 1


def test_a_grown_file_goes_on_where_it_ended(app: CollectApp, journal: JournalWriter) -> None:
    """The tag of what was there holds, and only the rest is sent."""
    before = ask(app, f"/files/{JOURNAL}", KNOWN)
    put(journal, 10**15)
    size = len(before.body)
    headers = (("range", f"bytes={size}-"), ("if-range", before.headers["etag"]))
    rest = ask(app, f"/files/{JOURNAL}", KNOWN, *headers)
    after = ask(app, f"/files/{JOURNAL}", KNOWN)
    assert rest.status == 206
    assert rest.headers["content-range"] == f"bytes {size}-{len(after.body) - 1}/{len(after.body)}"
    assert before.body + rest.body == after.body
    assert rest.headers["etag"] == after.headers["etag"] != before.headers["etag"]


@pytest.mark.parametrize(
    "headers",
    [
        [("range", "bytes=100-"), ("if-range", '"0123456789abcdef-100"')],
        [("range", "bytes=100-"), ("if-range", "Tue, 01 Dec 2026 00:00:00 GMT")],
        [("range", "bytes=1-5")],
        [("range", "bytes=-5")],
        [("range", "bytes=1-,7-")],
        [("range", "lines=1-")],
        [("range", "bytes=²-")],
    ],
)
def test_all_is_given_where_a_part_would_not_fit(
    app: CollectApp, headers: list[tuple[str, str]]
) -> None:
    """Of another file, and for forms of ranges that collectors do not use."""
    whole = ask(app, f"/files/{SAMPLES}", KNOWN)
    answer = ask(app, f"/files/{SAMPLES}", KNOWN, *headers)
    assert (answer.status, answer.body) == (200, whole.body)


def test_there_is_nothing_behind_the_end(app: CollectApp) -> None:
    """The length is told, so that a collector knows where it stands."""
    size = len(ask(app, f"/files/{SAMPLES}", KNOWN).body)
    answer = ask(app, f"/files/{SAMPLES}", KNOWN, ("range", f"bytes={size}-"))
    assert (answer.status, answer.headers["content-range"]) == (416, f"bytes */{size}")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/file",
        "/files/",
        "/files//",
        "/files/..",
        "/files/../secret.jsonl",
        "/files/service-../../secret.jsonl",
        "/files/secret.jsonl",
        "/files/service-link.jsonl",
        "/files/service-pipe.jsonl",
        "/files/service-folder.jsonl",
        "/files/service-inner/a.jsonl",
        f"/files/./{SAMPLES}",
        f"/files/{SAMPLES}/",
        f"/files/{SAMPLES}\0",
        f"/files/{SAMPLES}\n",
        f"/files/{SAMPLES}?".removesuffix("?") + "%00",
    ],
)
def test_nothing_else_is_given(app: CollectApp, path: str, tmp_path: Path) -> None:
    """Neither other files, nor ways out of the directory."""
    secret = tmp_path.parent / f"{tmp_path.name}-secret.jsonl"
    secret.write_bytes((tmp_path / SAMPLES).read_bytes())
    (tmp_path / "secret.jsonl").write_bytes(secret.read_bytes())
    (tmp_path / "service-link.jsonl").symlink_to(secret)
    os.mkfifo(tmp_path / "service-pipe.jsonl")
    (tmp_path / "service-folder.jsonl").mkdir()
    (tmp_path / "service-inner").mkdir()
    (tmp_path / "service-inner" / "a.jsonl").write_bytes(secret.read_bytes())
    answer = ask(app, path, KNOWN)
    assert answer.status == 404
    assert str(tmp_path) not in answer.body.decode()


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", "")],
        [("authorization", "Bearer")],
        [("authorization", "Bearer wrong")],
        [("authorization", f"Basic {TOKEN}")],
        [("authorization", TOKEN)],
        [("authorization", f"Bearer {TOKEN}x")],
        [("authorization", f"Bearer {TOKEN[:-1]}")],
        [("authorization", f"Bearer {TOKEN}, Bearer {TOKEN}")],
        [("authorization", "Bearer \xff\xfe")],
        [("authorization", "Bearer wrong"), KNOWN],
    ],
)
@pytest.mark.parametrize("path", ["/files", f"/files/{SAMPLES}", "/nothing"])
def test_only_who_knows_the_token_learns_anything(
    app: CollectApp, headers: list[tuple[str, str]], path: str
) -> None:
    """All others get the same answer, whatever they ask for."""
    answer = ask(app, path, *headers)
    assert (answer.status, answer.body) == (401, b"The token is missing or wrong.\n")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert app.guard.refused == 1


def test_the_schemes_name_has_no_case(app: CollectApp) -> None:
    """RFC 9110, section 11.1."""
    assert ask(app, "/files", ("Authorization", f"bearer  {TOKEN}")).status == 200


def test_tokens_cannot_be_guessed_at_speed(tmp_path: Path) -> None:
    """Ten at once and one a second; until then nobody is let in, so that no guess can be right."""
    time = Time()
    app = CollectApp(TOKEN, station=Kept(tmp_path), clock=time.clock)
    wrong = ("authorization", "Bearer guess")
    assert [ask(app, "/files", wrong).status for _ in range(12)] == [401] * 10 + [429] * 2
    known = ask(app, "/files", KNOWN)
    assert (known.status, known.headers["retry-after"]) == (429, "1")
    time.now_ns += 10**9
    assert ask(app, "/files", KNOWN).status == 200
    assert [ask(app, "/files", wrong).status for _ in range(2)] == [401, 429]
    assert app.guard.refused == 15
    time.now_ns += 3600 * 10**9
    assert [ask(app, "/files", wrong).status for _ in range(11)] == [401] * 10 + [429]


def test_refusals_are_logged_once_without_secrets(
    app: CollectApp, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the token nor what was taken for one is in the log."""
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            ask(app, "/files", ("authorization", "Bearer almost-the-token"))
        ask(app, "/files", KNOWN)
    records = [record for record in caplog.records if record.name.startswith("trilat")]
    assert len(records) == 1
    assert not any(secret in caplog.text for secret in (TOKEN, "almost"))


@pytest.mark.parametrize("token", ["", "with space", "é", "x" * 201, "line\n"])
def test_a_token_must_be_one(token: str) -> None:
    """An empty one is a variable that was not set: it must not open the door."""
    with pytest.raises(UsageError, match="CollectApp"):
        CollectApp(token)


def test_it_can_be_mounted_anywhere(app: CollectApp) -> None:
    """In FastAPI, in Starlette, in applications in those, and behind a proxy's prefix."""
    fast = FastAPI()
    fast.mount("/trilat", app)
    starlette = Starlette(routes=[Mount("/", app)])
    nested = Starlette(routes=[Mount("/a/{tenant}", Mount("/files", app))])
    outer = FastAPI()
    outer.mount("/shop", fast)
    for framework, prefix, root in (
        (app, "", ""),
        (app, "/api", "/api"),
        (app, "/api", "/api/"),
        (app, "", "/api"),
        (fast, "/trilat", ""),
        (starlette, "", ""),
        (nested, "/a/7/files", ""),
        (outer, "/shop/trilat", ""),
        (outer, "/api/shop/trilat", "/api"),
    ):
        listing = ask(framework, f"{prefix}/files", KNOWN, root_path=root)
        assert json.loads(listing.body)["files"]
        path = f"{prefix}/files/{SAMPLES}"
        assert ask(framework, path, KNOWN, root_path=root).status == 200
        assert ask(framework, path, root_path=root).status == 401


def test_two_files_are_sent_at_a_time(app: CollectApp) -> None:
    """A third client waits for its turn; a piece is sent when the one before it was taken."""

    async def show() -> None:
        go = asyncio.Event()
        answers = [Answer() for _ in range(3)]
        sent = 0

        async def send(answer: Answer, message: Any) -> None:
            nonlocal sent
            sent += 1
            if answer.body:
                await go.wait()
            await answer.send(message)

        def give(answer: Answer) -> asyncio.Task[None]:
            scope = request(f"/files/{JOURNAL}", KNOWN)
            return asyncio.create_task(app(scope, receive, lambda m: send(answer, m)))

        tasks = [give(answer) for answer in answers[:2]]
        while sent < 6:  # the heads, the first pieces, and the second ones that nobody takes
            await asyncio.sleep(0.001)
        await give(answers[2])
        assert (answers[2].status, answers[2].headers["retry-after"]) == (503, "2")
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert sent == 8
        go.set()
        await asyncio.gather(*tasks)
        assert all(answer.ended for answer in answers)
        assert len({answer.body for answer in answers[:2]}) == 1
        again = Answer()
        await give(again)
        assert again.body == answers[0].body

    asyncio.run(show())


def test_who_goes_away_makes_room(app: CollectApp) -> None:
    """A request that is cancelled leaves neither a stream nor an open file behind."""

    async def show() -> None:
        for _ in range(5):
            began = asyncio.Event()

            async def send(message: Any, began: asyncio.Event = began) -> None:
                if message["type"] == "http.response.body":
                    began.set()
                    await asyncio.Event().wait()

            scope = request(f"/files/{JOURNAL}", KNOWN)
            task = asyncio.create_task(app(scope, receive, send))
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    opened = Path("/proc/self/fd")
    before = len(list(opened.iterdir())) if opened.exists() else None
    asyncio.run(show())
    assert ask(app, f"/files/{JOURNAL}", KNOWN).status == 200
    if before is not None:
        assert len(list(opened.iterdir())) <= before


def test_who_takes_nothing_is_let_go(app: CollectApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has gone without a word must not hold a turn for ever."""
    monkeypatch.setattr("trilat.middleware.collecting._STALL_S", 0.01)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    for _ in range(3):
        with pytest.raises(TimeoutError):
            asyncio.run(app(request(f"/files/{JOURNAL}", KNOWN), receive, send))


def test_a_file_that_is_cut_ends_the_answer(app: CollectApp, tmp_path: Path) -> None:
    """The client sees that there was to be more; the answer does not go on without end."""
    answer = Answer()

    async def send(message: Any) -> None:
        await answer.send(message)
        os.truncate(tmp_path / JOURNAL, 4096 + 136)

    with pytest.raises(OSError, match="shorter"):
        asyncio.run(app(request(f"/files/{JOURNAL}", KNOWN), receive, send))
    assert not answer.ended


def test_a_service_without_journals_says_so() -> None:
    """Nothing to collect is another thing than nothing of that time."""
    listing = json.loads(ask(CollectApp(TOKEN, station=Kept(None)), "/files", KNOWN).body)
    assert (listing["journals"], listing["files"]) == (False, [])


def test_a_directory_that_cannot_be_read_is_an_error(
    app: CollectApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not look like one without files."""

    def fail(path: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", fail)
    answer = ask(app, "/files", KNOWN)
    assert answer.status == 500
    assert str(tmp_path) not in answer.body.decode()


@pytest.mark.parametrize("path", ["/files", f"/files/{JOURNAL}"])
def test_head_has_the_headers_of_get(app: CollectApp, path: str) -> None:
    """HEAD tells the length and has no body."""
    got, head = ask(app, path, KNOWN), ask(app, path, KNOWN, method="HEAD")
    assert (head.status, head.body, head.headers) == (200, b"", got.headers)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_other_methods_are_not_allowed(app: CollectApp, method: str) -> None:
    """Files are read only."""
    answer = ask(app, "/files", KNOWN, method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert ask(app, "/files", method=method).status == 401


def test_it_can_be_served_by_itself(app: CollectApp) -> None:
    """A server starts and stops it; over a WebSocket there is nothing to say."""
    sent: list[str] = []

    def talk(kind: str, *received: str) -> None:
        waiting = [{"type": f"{kind}.{name}"} for name in reversed(received)]

        async def take() -> dict[str, Any]:
            return waiting.pop()

        async def send(message: Any) -> None:
            sent.append(message["type"])

        asyncio.run(app({"type": kind}, take, send))

    talk("lifespan", "startup", "shutdown")
    talk("websocket", "connect")
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete", "websocket.close"]
