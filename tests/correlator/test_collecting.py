"""Collecting: files come whole, once, from servers that fail, lie or are gone."""

from __future__ import annotations

import asyncio
import fcntl
import gzip
import json
import os
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from trilat.agent.clock import Clock
from trilat.agent.errors import InputError, UsageError
from trilat.agent.journal import JournalWriter
from trilat.agent.layout import EXCHANGE, SERVED, Kind
from trilat.agent.offers import FileTag, Window, head_identity
from trilat.agent.samples import SampleWriter
from trilat.agent.segment import HEADER_SIZE, read_segment
from trilat.correlator.collect.collected import Collected
from trilat.correlator.collect.collecting import Order, collect
from trilat.correlator.collect.listing import parse_listing
from trilat.correlator.run.rundir import RunDirectory
from trilat.middleware.collecting import CollectApp

TOKEN = "only-for-collectors"
STEM = "service-web-1-4711-0badcafe"
JOURNAL = f"{STEM}-000001.trilat"
SAMPLES = f"{STEM}.jsonl"
RECORDS = 6000  # several pieces
ALL = Window(0, 10**13)
App = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass
class Served:
    """A server on loopback: its address, and what it was asked."""

    url: str = ""
    asked: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    tokens: list[bytes] = field(default_factory=list)

    def files(self) -> list[str]:
        """The names of the files that were asked for."""
        return [path.rpartition("/")[2] for path in self.asked if "/files/" in path]


@contextmanager
def serve(app: App) -> Iterator[Served]:
    """A uvicorn on a thread that serves an application."""
    served = Served()

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        served.asked.append(scope["path"])
        served.tokens.append(headers.get(b"authorization", b""))
        if b"range" in headers:
            served.ranges.append(headers[b"range"].decode())
        await app(scope, receive, send)

    config = uvicorn.Config(
        watched, port=0, lifespan="off", ws="none", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.005)
        served.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        yield served
    finally:
        server.should_exit = True
        thread.join(30)


@dataclass
class Kept:
    """A station with a directory."""

    directory: Path | None
    instance: int = 77


def put(writer: JournalWriter, count: int = 1) -> None:
    """Record some requests, one a second since the epoch."""
    name = writer.name_id("GET\t/")
    for second in range(count):
        times = (second * 10**9, 5, 1, 2)
        writer.append(int(Kind.SERVED), 0, name, 1, 2, 3, 0, *times, -1, 0, 0, 0, 10, -1, 1, 200, 0)


def keep_journal(directory: Path, stem: str = STEM) -> JournalWriter:
    """An open journal of a service."""
    return JournalWriter(
        directory, stem, {"side": "service", "in": str(directory)}, layout=SERVED, keep_new=False
    )


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The directory of a service with a journal and samples."""
    directory = tmp_path / "kept"
    directory.mkdir()
    writer = keep_journal(directory)
    put(writer, RECORDS)
    writer.close()
    samples = SampleWriter(directory / SAMPLES, {"side": "service"})
    samples.write("vitals", {"wall_s": 3.5})
    samples.close()
    return directory


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """An empty run's directory."""
    return RunDirectory.create(tmp_path / "run", "0123456789ab", 0.0)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again is tried at once; no proxy of the machine is asked."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("trilat.correlator.collect.fetching._FIRST_WAIT_S", 0.0)


def app_of(directory: Path | None, clock: Clock | None = None) -> CollectApp:
    """A service's application."""
    now = clock or Clock(time.perf_counter_ns, time.time_ns)
    return CollectApp(TOKEN, station=Kept(directory), clock=now)


def fetch(
    run: RunDirectory,
    *urls: str,
    window: Window = ALL,
    bytes_max: int = 10**8,
    watch: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Collected]:
    """Collect from servers."""
    return collect(run, Order(urls, TOKEN, window, bytes_max), watch)


def outcomes(collected: Collected) -> dict[str, str]:
    """What became of each file."""
    assert collected.errors == []
    return {name: file.outcome for name, file in collected.files.items()}


def left(run: RunDirectory) -> list[str]:
    """All files in a run's directory."""
    return sorted(path.name for folder in (run.journals, run.samples) for path in folder.iterdir())


def test_files_come_once(kept: Path, run: RunDirectory) -> None:
    """They are what the service has; who asks again gets the listing only."""
    seen: list[tuple[int, int]] = []
    with serve(app_of(kept)) as served:
        (first,) = fetch(run, served.url + "/", watch=lambda _, *sizes: seen.append(sizes))
        assert outcomes(first) == {JOURNAL: "fetched", SAMPLES: "fetched"}
        (again,) = fetch(run, served.url)
        assert outcomes(again) == {JOURNAL: "present", SAMPLES: "present"}
    assert (run.journals / JOURNAL).read_bytes() == (kept / JOURNAL).read_bytes()
    assert (run.samples / SAMPLES).read_bytes() == (kept / SAMPLES).read_bytes()
    assert served.files() == [JOURNAL, SAMPLES]
    assert left(run) == [JOURNAL, SAMPLES]
    total = sum(path.stat().st_size for path in kept.iterdir())
    assert seen == sorted(seen)
    assert seen[-1] == (total, total)


def test_only_files_of_the_run_come(kept: Path, run: RunDirectory) -> None:
    """The service is asked for the run's time."""
    with serve(app_of(kept)) as served:
        assert outcomes(*fetch(run, served.url, window=Window(0, 10**9))) == {JOURNAL: "fetched"}
        assert outcomes(*fetch(run, served.url, window=Window(10**14, 10**15))) == {}


def cut_after(app: App, pieces: int, times: int) -> App:
    """An application whose first answers with files break off after some pieces."""
    cut = 0

    async def cutting(scope: Any, receive: Any, send: Any) -> None:
        sent = 0

        async def counting(message: Any) -> None:
            nonlocal sent, cut
            if message.get("body"):
                sent += 1
                if "/files/" in scope["path"] and sent > pieces and cut < times:
                    cut += 1
                    raise ConnectionResetError
            await send(message)

        await app(scope, receive, counting)

    return cutting


def test_what_breaks_off_goes_on(kept: Path, run: RunDirectory) -> None:
    """Each time only the rest is asked for; the file is the same in the end."""
    with serve(cut_after(app_of(kept), pieces=1, times=2)) as served:
        assert outcomes(*fetch(run, served.url))[JOURNAL] == "fetched"
    assert (run.journals / JOURNAL).read_bytes() == (kept / JOURNAL).read_bytes()
    assert len(served.ranges) == 2
    assert served.ranges == sorted(set(served.ranges))


def test_a_service_that_breaks_off_always_is_given_up(kept: Path, run: RunDirectory) -> None:
    """Without a byte more, some tries are enough; what came is kept for the next time."""
    with serve(cut_after(app_of(kept), pieces=0, times=10**9)) as served:
        (collected,) = fetch(run, served.url)
    assert len(collected.errors) == 2
    assert all("cannot be reached" in error for error in collected.errors)
    assert collected.files == {}
    assert len(served.files()) == 10


def test_an_interrupted_collection_is_resumed(kept: Path, run: RunDirectory) -> None:
    """The part stays, without the file's name, and only the rest is fetched."""
    whole = (kept / JOURNAL).stat().st_size

    def interrupt(url: str, done: int, total: int) -> None:
        if done > whole // 2:
            raise KeyboardInterrupt

    with serve(app_of(kept)) as served:
        with pytest.raises(KeyboardInterrupt):
            fetch(run, served.url, watch=interrupt)
        assert left(run) == [f"{JOURNAL}.part"]
        size = (run.journals / f"{JOURNAL}.part").stat().st_size
        assert HEADER_SIZE < size < whole
        assert outcomes(*fetch(run, served.url)) == {JOURNAL: "resumed", SAMPLES: "fetched"}
    assert served.ranges == [f"bytes={size}-"]
    assert (run.journals / JOURNAL).read_bytes() == (kept / JOURNAL).read_bytes()
    assert left(run) == [JOURNAL, SAMPLES]


@pytest.mark.parametrize(
    "part", [b"", b"x" * 10, b"x" * 10_000], ids=["empty", "short", "of another file"]
)
def test_a_part_that_does_not_fit_is_dropped(part: bytes, kept: Path, run: RunDirectory) -> None:
    """It may be of an earlier file of the same name."""
    (run.journals / f"{JOURNAL}.part").write_bytes(part)
    with serve(app_of(kept)) as served:
        assert outcomes(*fetch(run, served.url))[JOURNAL] == "fetched"
    assert (run.journals / JOURNAL).read_bytes() == (kept / JOURNAL).read_bytes()
    assert served.ranges == []


def test_a_file_that_has_grown_gets_the_rest(kept: Path, run: RunDirectory) -> None:
    """A journal that is being written is collected as far as it goes, and later once more."""
    (kept / JOURNAL).unlink()
    writer = keep_journal(kept)
    put(writer, 100)
    with serve(app_of(kept)) as served:
        assert outcomes(*fetch(run, served.url))[JOURNAL] == "fetched"
        first = (run.journals / JOURNAL).stat().st_size
        put(writer, 100)
        assert outcomes(*fetch(run, served.url)) == {JOURNAL: "resumed", SAMPLES: "present"}
    assert served.ranges == [f"bytes={first}-"]
    writer.close()
    assert (run.journals / JOURNAL).read_bytes() == (kept / JOURNAL).read_bytes()


def test_a_file_that_is_renamed_meanwhile_comes_too(kept: Path, run: RunDirectory) -> None:
    """Samples are rotated: what was listed has another name by then, so it is looked for again."""
    app = app_of(kept)
    before = (kept / SAMPLES).read_bytes()

    async def rotating(scope: Any, receive: Any, send: Any) -> None:
        older = kept / f"{STEM}.1.jsonl"
        if scope["path"].endswith(SAMPLES) and not older.exists():
            (kept / SAMPLES).rename(older)
            samples = SampleWriter(kept / SAMPLES, {"side": "service", "again": True})
            samples.write("vitals", {"wall_s": 4.5})
            samples.close()
        await app(scope, receive, send)

    with serve(rotating) as served:
        (collected,) = fetch(run, served.url)
    assert set(outcomes(collected)) == {JOURNAL, SAMPLES, f"{STEM}.1.jsonl"}
    assert (run.samples / f"{STEM}.1.jsonl").read_bytes() == before
    assert (run.samples / SAMPLES).read_bytes() == (kept / SAMPLES).read_bytes()
    assert served.files().count(JOURNAL) == 1


def test_a_file_that_is_gone_is_said(kept: Path, run: RunDirectory) -> None:
    """Services keep what there is room for; who misses it is told what, and how much it was."""
    app = app_of(kept)

    async def dropping(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].endswith(JOURNAL):
            (kept / JOURNAL).unlink(missing_ok=True)
        await app(scope, receive, send)

    with serve(dropping) as served:
        (collected,) = fetch(run, served.url)
    (error,) = collected.errors
    assert error.startswith(f"{served.url}: {JOURNAL}: listed, and then not there (")
    assert list(collected.files) == [SAMPLES]


def test_a_file_that_is_listed_and_never_there_is_named_once(run: RunDirectory) -> None:
    """The service says so each time; then the URL leads to two hosts, or it lies."""

    async def gone(scope: Any, receive: Any, send: Any) -> None:
        if "/files/" in scope["path"]:
            await answer(send, 410)
        else:
            await answer(send, 200, listing_of(file_of()))

    with serve(gone) as served:
        (collected,) = fetch(run, served.url)
    (error,) = collected.errors
    assert f"{JOURNAL}: listed, and then not there (5,000 bytes)" in error
    assert len(served.files()) == 3


def test_workers_of_one_directory_give_each_file_once(kept: Path, run: RunDirectory) -> None:
    """Any worker answers for all of them; who names several loses nothing."""
    app = app_of(kept)
    with serve(app) as one, serve(app_of(kept)) as other:
        first, second = fetch(run, one.url, other.url)
    assert set(outcomes(first)) == set(outcomes(second)) == {JOURNAL, SAMPLES}
    assert sorted(one.files() + other.files()) == [JOURNAL, SAMPLES]


def test_two_files_of_one_name_do_not_spoil_each_other(
    kept: Path, run: RunDirectory, tmp_path: Path
) -> None:
    """One of them is kept whole, and the other one is an error."""
    (tmp_path / "other").mkdir()
    writer = keep_journal(tmp_path / "other")
    put(writer, 10)
    with serve(app_of(kept)) as one, serve(app_of(tmp_path / "other")) as other:
        found = fetch(run, one.url, other.url)
    writer.close()
    assert len([error for each in found for error in each.errors]) == 1
    assert len(read_segment(run.journals / JOURNAL).records) in {
        len(read_segment(directory / JOURNAL).records) for directory in (kept, tmp_path / "other")
    }


def test_one_that_fails_does_not_keep_the_others_from_coming(kept: Path, run: RunDirectory) -> None:
    """Errors name the service, and what to do."""

    async def locked(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, 401)

    with serve(app_of(kept)) as good, serve(locked) as bad:
        gone = "http://127.0.0.1:1/trilat"
        first, second, third = fetch(run, bad.url, gone, good.url)
    assert first.errors == [
        f"{bad.url}: the token was refused; is it the one that CollectApp was given?"
    ]
    assert third.errors == []
    assert second.errors[0].startswith(f"{gone}: cannot be reached (")
    assert (second.ahead_ns, second.files) == (None, {})
    assert set(outcomes(third)) == {JOURNAL, SAMPLES}


def test_a_clock_that_is_off_is_allowed_for(kept: Path, run: RunDirectory) -> None:
    """The service's files carry its own times; the run's window is ours."""
    behind_ns = time.time_ns() - 5 * 10**9  # there it is five seconds after the epoch
    clock = Clock(time.perf_counter_ns, lambda: time.time_ns() - behind_ns)
    window = Window(time.time_ns() - 10**9, time.time_ns() + 10**9)
    with serve(app_of(kept, clock)) as served:
        (collected,) = fetch(run, served.url, window=window)
    assert JOURNAL in outcomes(collected)
    assert "its clock is -" in collected.remarks[0]


def test_a_service_without_journals_is_told_what_to_do(run: RunDirectory) -> None:
    """Nothing of that time is another thing."""
    with serve(app_of(None)) as served:
        (collected,) = fetch(run, served.url)
    assert collected.remarks == ["keeps no journals: give TrilatMiddleware a directory (journal=…)"]
    assert outcomes(collected) == {}


def test_there_is_an_upper_bound(kept: Path, run: RunDirectory) -> None:
    """It holds for all services together; what came is kept."""
    with serve(app_of(kept)) as served:
        (collected,) = fetch(run, served.url, bytes_max=300_000)
        assert "--max-mb" in collected.errors[0]
        assert collected.files == {}
        assert outcomes(*fetch(run, served.url))[JOURNAL] == "resumed"


def test_only_one_collects_at_a_time(kept: Path, run: RunDirectory) -> None:
    """Two would write into the same parts."""
    descriptor = os.open(run.path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another trilat collect"):
            fetch(run, "http://127.0.0.1:1")
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop",
        "shop:8000/trilat",
        "ftp://shop/trilat",
        "file:///etc",
        "http://",
        "http://user:secret@shop/trilat",
        "http://shop/trilat?token=secret",
        "http://shop/trilat#secret",
        "http://[::1/trilat",
        "http://shop:99999999/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:0/",
        "http://xn--a/",
        "http://xn--/",
        "http://user:secret@xn--a/",
        "http://127.0.0.1/\udcff",
        "http://127.0.0.1/\0",
    ],
)
def test_urls_are_checked_first(url: str, run: RunDirectory) -> None:
    """Nothing is asked of anybody, and secrets are not repeated."""
    with pytest.raises(UsageError) as raised:
        fetch(run, url)
    assert "secret" not in str(raised.value)


async def answer(
    send: Any, status: int, body: bytes = b"", headers: dict[str, str] | None = None
) -> None:
    """Send a whole answer."""
    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    sized = [*raw, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": sized})
    await send({"type": "http.response.body", "body": body})


def listing_of(*files: dict[str, Any], **changes: Any) -> bytes:
    """A listing with some files."""
    good = {
        "schema": "trilat.files/1",
        "host": 1,
        "instance": 2,
        "wall_ns": time.time_ns(),
        "journals": True,
        "files": list(files),
    }
    return json.dumps(good | changes).encode()


def file_of(**changes: Any) -> dict[str, Any]:
    """An entry of a listing."""
    good = {
        "name": JOURNAL,
        "kind": "journal",
        "bytes": 5000,
        "etag": str(FileTag("0" * 16, 5000)),
        "first_wall_ns": 1,
        "last_wall_ns": 2,
    }
    return good | changes


def giving(raw: bytes, status: int = 200, **headers: str) -> App:
    """An application that answers all with this."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, status, raw, {k.replace("_", "-"): v for k, v in headers.items()})

    return app


LISTINGS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not JSON"),
    "no JSON": (b"<html>", "not JSON"),
    "no object": (b"[]", "not of type object"),
    "another version": (listing_of(schema="trilat.files/2"), "trilat.files/2"),
    "no number": (b'{"schema": NaN}', "not JSON"),
    "huge number": (listing_of(wall_ns=10**40), "out of range"),
    "deep": (b"[" * 200_000, "not JSON"),
    "way out": (listing_of(file_of(name="../run.json")), "is none"),
    "way out of a good start": (listing_of(file_of(name="service-/../a.trilat")), "is none"),
    "absolute": (listing_of(file_of(name="/tmp/service-a.trilat")), "is none"),
    "line break": (listing_of(file_of(name=f"{JOURNAL}\n")), "is none"),
    "escape": (listing_of(file_of(name="\x1b[2J")), "is none"),
    "another kind": (listing_of(file_of(kind="samples")), "is none"),
    "no kind": (listing_of(file_of(kind="program")), "none of"),
    "size without end": (listing_of(file_of(bytes=10**12)), "is none"),
    "large": (
        listing_of(file_of(bytes=10**12, etag=str(FileTag("0" * 16, 10**12)))),
        "larger than",
    ),
    "no size": (listing_of(file_of(bytes=0)), "out of range"),
    "tag of nothing": (listing_of(file_of(etag="W/x")), "is none"),
    "twice": (listing_of(file_of(), file_of()), "twice"),
    "too many": (listing_of(*([file_of()] * 5001)), "a list of 5001"),
}


@pytest.mark.parametrize(("raw", "told"), LISTINGS.values(), ids=LISTINGS)
def test_listings_are_not_trusted(raw: bytes, told: str) -> None:
    """One line says what is wrong, whatever it is."""
    with pytest.raises(InputError, match=re.escape(told)) as raised:
        parse_listing(raw, 0, "http://shop")
    assert str(raised.value).startswith("http://shop: ")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("raw", "told"),
    [(LISTINGS["way out"][0], "is none"), (b" " * 9 * 2**20, "too much")],
    ids=["way out", "without an end"],
)
def test_nothing_is_fetched_by_such_a_listing(raw: bytes, told: str, run: RunDirectory) -> None:
    """Nor is anything written; a listing that is too long is not read."""
    with serve(giving(raw)) as served:
        (collected,) = fetch(run, served.url)
    assert told in collected.errors[0]
    assert len(served.asked) == 1
    assert left(run) == []


def journal_bytes(directory: Path, side: str = "service", layout: Any = SERVED) -> bytes:
    """A journal with nothing in it but its header."""
    directory.mkdir()
    JournalWriter(directory, "a", {"side": side}, layout=layout).close()
    return next(directory.iterdir()).read_bytes()


def good_journal(directory: Path) -> bytes:
    """A journal with a request."""
    directory.mkdir()
    writer = keep_journal(directory)
    put(writer)
    writer.close()
    return (directory / JOURNAL).read_bytes()


def generator_samples(directory: Path) -> bytes:
    """Samples of a load generator."""
    directory.mkdir()
    SampleWriter(directory / "a.jsonl", {"side": "generator"}).close()
    return (directory / "a.jsonl").read_bytes()


FILES: dict[str, tuple[str, Callable[[Path], bytes], str]] = {
    "garbage": (JOURNAL, lambda _: b"x" * 5000, "not a trilat journal"),
    "a generator's": (JOURNAL, lambda at: journal_bytes(at, "generator"), "not a file of a serv"),
    "requests of a generator": (
        JOURNAL,
        lambda at: journal_bytes(at, "service", EXCHANGE),
        "not a file of a service",
    ),
    "more behind": (JOURNAL, lambda at: good_journal(at) + b"x", "damaged"),
    "not samples": (SAMPLES, lambda _: b"{}\n", "not samples"),
    "a generator's samples": (SAMPLES, generator_samples, "not a file of a service"),
}


@pytest.mark.parametrize(("name", "make", "told"), FILES.values(), ids=FILES)
def test_files_are_not_trusted(
    name: str, make: Callable[[Path], bytes], told: str, run: RunDirectory, tmp_path: Path
) -> None:
    """Above all, nobody brings requests into the run's own journals."""
    raw = make(tmp_path / "made")
    kind = "journal" if name == JOURNAL else "samples"

    async def app(scope: Any, receive: Any, send: Any) -> None:
        listed = file_of(name=name, kind=kind)
        await answer(send, 200, raw if "/files/" in scope["path"] else listing_of(listed))

    with serve(app) as served:
        (collected,) = fetch(run, served.url)
    (error,) = collected.errors
    assert told in error
    assert error.startswith(served.url)
    assert left(run) == []


def stream_without_end(status: int, **headers: str) -> App:
    """An application whose files do not end."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if "/files/" not in scope["path"]:
            await answer(send, 200, listing_of(file_of()))
            return
        raw = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        for _ in range(100):  # 100 MB, where 64 are the most
            await send({"type": "http.response.body", "body": bytes(2**20), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


@pytest.mark.parametrize(
    ("app", "told"),
    [
        (stream_without_end(200), "larger than such a file can be"),
        (stream_without_end(200, content_encoding="gzip"), "compressed"),
        (stream_without_end(206, content_range="bytes 7-9/10"), "another part"),
        (stream_without_end(206), "another part"),
        (stream_without_end(403), "refused (403)"),
        (stream_without_end(418), "status 418"),
    ],
)
def test_answers_are_bounded_and_what_was_asked_for(app: App, told: str, run: RunDirectory) -> None:
    """Neither memory nor disk are at a server's mercy."""
    with serve(app) as served:
        (collected,) = fetch(run, served.url)
    (error,) = collected.errors
    assert told in error
    assert collected.files == {}


def test_nothing_is_unpacked(run: RunDirectory) -> None:
    """A small answer could become a large one."""
    with serve(giving(gzip.compress(listing_of()), content_encoding="gzip")) as served:
        (collected,) = fetch(run, served.url)
    assert "compressed" in collected.errors[0]


@pytest.mark.parametrize("status", [301, 307])
def test_the_token_does_not_follow_redirects(status: int, kept: Path, run: RunDirectory) -> None:
    """The place is named; a person decides whether it can be trusted."""
    with serve(app_of(kept)) as elsewhere:
        place = f"{elsewhere.url}/files"
        with serve(giving(b"", status, location=place)) as served:
            (collected,) = fetch(run, served.url)
        assert collected.errors == [
            f"{served.url}: moved to {place}; name that URL if it can be trusted"
        ]
        assert elsewhere.asked == []


@pytest.mark.parametrize("status", [429, 503])
def test_who_is_busy_is_asked_again(status: int, kept: Path, run: RunDirectory) -> None:
    """A service that is loaded, or a proxy before one that starts."""
    app = app_of(kept)
    busy = 0

    async def first_busy(scope: Any, receive: Any, send: Any) -> None:
        nonlocal busy
        busy += 1
        if busy % 2:
            await answer(send, status, headers={"retry-after": "0"})
        else:
            await app(scope, receive, send)

    with serve(first_busy) as served:
        assert len(outcomes(*fetch(run, served.url))) == 2
    assert len(served.asked) == 6


@pytest.mark.parametrize("after", ["0", "Tue, 01 Dec 2026 00:00:00 GMT", "-5"])
def test_who_stays_busy_is_given_up(after: str, run: RunDirectory) -> None:
    """After some tries, whatever they say about when to come back."""

    async def busy(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, 503, headers={"retry-after": after})

    with serve(busy) as served:
        (collected,) = fetch(run, served.url)
    assert collected.errors == [f"{served.url}: busy giving files to others; try again later"]
    assert len(served.asked) == 5


def test_the_token_goes_in_its_header_only(kept: Path, run: RunDirectory) -> None:
    """Addresses are logged on the way; and no error repeats it."""
    with serve(app_of(kept)) as served:
        fetch(run, served.url)
        assert set(served.tokens) == {f"Bearer {TOKEN}".encode()}
        assert not any(TOKEN in path for path in served.asked)
    assert TOKEN not in repr(Order([], TOKEN, Window(), 1))


def test_an_identity_is_told_from_what_is_here(kept: Path) -> None:
    """The collector computes it itself: no file of its own says what it has."""
    app = app_of(kept)
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/files/{JOURNAL}",
        "headers": [(b"authorization", f"Bearer {TOKEN}".encode())],
    }
    asyncio.run(app(scope, receive, send))
    raw = (kept / JOURNAL).read_bytes()
    tag = FileTag(head_identity("journal", raw) or "", len(raw))
    assert dict(sent[0]["headers"])[b"etag"] == str(tag).encode()


def test_contexts_are_closed(kept: Path, run: RunDirectory) -> None:
    """A collection leaves no open file behind, even where it is interrupted."""
    opened = Path("/proc/self/fd")
    if not opened.exists():
        pytest.skip("needs /proc")

    def interrupt(url: str, done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with serve(app_of(kept)) as served:
        fetch(run, served.url, window=Window(10**14, 10**15))
        before = len(list(opened.iterdir()))
        with pytest.raises(KeyboardInterrupt):
            fetch(run, served.url, watch=interrupt)
        fetch(run, "http://127.0.0.1:1")
        gives_up = time.monotonic() + 30
        while len(list(opened.iterdir())) > before and time.monotonic() < gives_up:
            time.sleep(0.01)  # the server closes its end of the connection when it sees ours
        assert len(list(opened.iterdir())) <= before
