"""Collecting from servers that answer what no server should, into directories that hold traps."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from trilat.agent.errors import UsageError
from trilat.agent.journal import JournalWriter
from trilat.agent.layout import SERVED, Kind
from trilat.agent.offers import FileTag, Window, head_identity
from trilat.agent.samples import SampleWriter
from trilat.agent.segment import HEADER_SIZE
from trilat.correlator.collect.collected import Collected
from trilat.correlator.collect.collecting import Order, collect
from trilat.correlator.run.rundir import RunDirectory

STEM = "service-web-1-4711-0badcafe"
JOURNAL = f"{STEM}-000001.trilat"
SAMPLES = f"{STEM}.jsonl"
RECORD = SERVED.struct.size


@dataclass
class Asked:
    """A request as it came: its target, and its headers in lower case."""

    target: str
    headers: dict[str, str]

    @property
    def begin(self) -> int:
        """From which byte on a file is wanted."""
        return int(self.headers.get("range", "bytes=0-")[len("bytes=") : -1])


@dataclass
class RawServer:
    """A server that answers bytes, and then closes the connection; what it was asked."""

    url: str
    asked: list[Asked] = field(default_factory=list)

    def files(self) -> list[Asked]:
        """What was asked of files."""
        return [asked for asked in self.asked if "/files/" in asked.target]


@contextmanager
def serve(reply: Callable[[Asked], bytes]) -> Iterator[RawServer]:
    """A server on a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = RawServer(f"http://127.0.0.1:{listener.getsockname()[1]}")

        def answer_all() -> None:
            while True:
                connection, _ = listener.accept()
                with connection:
                    raw = b""
                    while b"\r\n\r\n" not in raw:
                        raw += (got := connection.recv(65536))
                        if not got:
                            return  # the test is over
                    line, *rest = raw.decode("latin-1").split("\r\n\r\n")[0].split("\r\n")
                    pairs = (each.split(": ", 1) for each in rest)
                    asked = Asked(line.split()[1], {name.lower(): text for name, text in pairs})
                    server.asked.append(asked)
                    connection.sendall(reply(asked))

        thread = threading.Thread(target=answer_all, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            socket.create_connection(listener.getsockname()).close()
            thread.join(30)


def head(status: int, *lines: str) -> bytes:
    """The head of an answer."""
    return "\r\n".join([f"HTTP/1.1 {status} told", "connection: close", *lines, "", ""]).encode()


def listing_of(*files: tuple[str, FileTag]) -> bytes:
    """The answer with a listing of files."""
    listing = {
        "schema": "trilat.files/1",
        "host": 1,
        "instance": 2,
        "wall_ns": time.time_ns(),
        "journals": True,
        "files": [
            {
                "name": name,
                "kind": "journal" if name == JOURNAL else "samples",
                "bytes": tag.bytes,
                "etag": str(tag),
                "first_wall_ns": 1,
                "last_wall_ns": 2,
            }
            for name, tag in files
        ],
    }
    return head(200) + json.dumps(listing).encode()


@dataclass
class File:
    """A file of a service: what it is, and what a server that is sane says of it."""

    name: str
    raw: bytes

    @property
    def tag(self) -> FileTag:
        """As the service tells it."""
        kind: Any = "journal" if self.name == JOURNAL else "samples"
        return FileTag(head_identity(kind, self.raw) or "", len(self.raw))

    def part(self, begin: int, end: int, *lines: str) -> bytes:
        """An answer from a byte on that does not tell its length, up to another byte."""
        if begin:
            size = len(self.raw)
            lines = (f"content-range: bytes {begin}-{size - 1}/{size}", *lines)
        return head(206 if begin else 200, *lines) + self.raw[begin:end]


@pytest.fixture(params=[JOURNAL, SAMPLES])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> File:
    """A journal of 2000 requests, or samples of 200 seconds."""
    directory = tmp_path / "kept"
    directory.mkdir()
    if request.param == JOURNAL:
        facts = {"side": "service"}
        writer = JournalWriter(directory, STEM, facts, layout=SERVED, keep_new=False)
        for at in range(2000):
            times = (at, 5, 1, 2)
            rest = (-1, 0, 0, 0, 10, -1, 1, 200, 0)
            writer.append(int(Kind.SERVED), 0, 0, 1, 2, 3, 0, *times, *rest)
        writer.close()
    else:
        samples = SampleWriter(directory / SAMPLES, {"side": "service"})
        for at in range(200):
            samples.write("vitals", {"wall_s": at})
        samples.close()
    return File(request.param, (directory / request.param).read_bytes())


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """An empty run's directory."""
    return RunDirectory.create(tmp_path / "run", "0123456789ab", 0.0)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again is tried at once; no proxy of the machine is asked."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("trilat.correlator.collect.fetching._FIRST_WAIT_S", 0.0)


def fetch(run: RunDirectory, url: str) -> Collected:
    """Collect from a server."""
    (collected,) = collect(run, Order([url], "a-token", Window(), 10**8), lambda *_: None)
    return collected


def place_of(run: RunDirectory, file: File) -> Path:
    """Where a file goes."""
    return (run.journals if file.name == JOURNAL else run.samples) / file.name


def giving(file: File, give: Callable[[Asked], bytes]) -> Callable[[Asked], bytes]:
    """Replies with a listing of the file, and with what is made of it."""
    return lambda asked: (
        give(asked) if "/files/" in asked.target else listing_of((file.name, file.tag))
    )


def end_of_record(file: File, at: int) -> int:
    """The end of the record, or line, that a byte is in."""
    if file.name == JOURNAL:
        return HEADER_SIZE + -(-(at - HEADER_SIZE) // RECORD) * RECORD
    return file.raw.index(b"\n", at) + 1


@pytest.mark.parametrize("tagged", [True, False], ids=["with its tag", "without a tag"])
def test_an_answer_without_a_length_may_end_anywhere(
    file: File, run: RunDirectory, tagged: bool
) -> None:
    """What ends at a record's end looks whole; the listing tells that it is not."""
    cut = end_of_record(file, len(file.raw) // 2)
    lines = [f"etag: {file.tag}"] if tagged else []

    def give(asked: Asked) -> bytes:
        return file.part(asked.begin, len(file.raw) if asked.begin else cut, *lines)

    with serve(giving(file, give)) as server:
        collected = fetch(run, server.url)
    assert collected.errors == []
    assert [asked.begin for asked in server.files()] == [0, cut]
    assert place_of(run, file).read_bytes() == file.raw


@pytest.mark.parametrize("come", [0, 10, HEADER_SIZE + RECORD])
def test_an_answer_that_stays_short_is_an_error(file: File, run: RunDirectory, come: int) -> None:
    """It is not a file; what came is kept for the next time."""
    come = end_of_record(file, 300) if file.name == SAMPLES and come > 10 else come
    with serve(giving(file, lambda asked: file.part(asked.begin, come))) as server:
        collected = fetch(run, server.url)
    (error,) = collected.errors
    missing = len(file.raw) - come
    assert error == f"{server.url}: {file.name}: ended {missing:,} bytes too early"
    assert collected.files == {}
    assert not place_of(run, file).exists()
    assert place_of(run, file).with_name(f"{file.name}.part").stat().st_size == come


def test_a_part_that_is_larger_than_the_file_is_dropped(file: File, run: RunDirectory) -> None:
    """A file never shrinks, so nothing of it can be trusted."""
    place_of(run, file).with_name(f"{file.name}.part").write_bytes(file.raw + file.raw[-50:])
    with serve(giving(file, lambda asked: file.part(asked.begin, len(file.raw)))) as server:
        collected = fetch(run, server.url)
    assert [asked.begin for asked in server.files()] == [0]
    assert (collected.errors, collected.files[file.name].outcome) == ([], "fetched")
    assert place_of(run, file).read_bytes() == file.raw


@pytest.mark.parametrize("where", ["part", "file"])
def test_what_a_crash_damaged_is_fetched_anew(file: File, run: RunDirectory, where: str) -> None:
    """After a power failure the end of a file may be zeros, or its bytes others'."""
    path = place_of(run, file)
    end = len(file.raw) - 2 * RECORD
    damaged = file.raw[: end - RECORD] + bytes(RECORD)
    (path if where == "file" else path.with_name(f"{path.name}.part")).write_bytes(damaged)
    with serve(giving(file, lambda asked: file.part(asked.begin, len(file.raw)))) as server:
        collected = fetch(run, server.url)
    if file.name == JOURNAL:  # of samples, a damaged line is left out by those who read them
        assert [asked.begin for asked in server.files()] == [len(damaged), 0]
        assert path.read_bytes() == file.raw
    assert collected.errors == []
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_part_of_another_file_is_not_put_behind_this_one(file: File, run: RunDirectory) -> None:
    """A proxy may answer with the rest of a file that has taken the name meanwhile."""
    path = place_of(run, file)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(file.raw[: HEADER_SIZE + RECORD])
    other = f'etag: "ffffffffffffffff-{len(file.raw)}"'
    with serve(giving(file, lambda asked: file.part(asked.begin, len(file.raw), other))) as server:
        (error,) = fetch(run, server.url).errors
    assert error == f"{server.url}: answered another part than it was asked for"
    assert part.read_bytes() == file.raw[: HEADER_SIZE + RECORD]


@pytest.mark.parametrize(
    "location", ["http://[::1", "http://127.0.0.1:99999999/", "http://xn--a/\x7f", "//", "\xff"]
)
def test_a_malformed_redirect_is_refused_at_once(location: str, run: RunDirectory) -> None:
    """It is one as well as any other, and asking again does not make it better."""
    with serve(lambda _: head(302, f"location: {location}")) as server:
        (error,) = fetch(run, server.url).errors
    assert error.startswith(f"{server.url}: moved to ")
    assert error.isprintable()
    assert len(server.asked) == 1


def test_urls_are_asked_for_as_they_were_written(file: File, run: RunDirectory) -> None:
    """A question mark in a path is not the beginning of a query."""
    with serve(giving(file, lambda asked: file.part(asked.begin, len(file.raw)))) as server:
        collected = fetch(run, f"{server.url}/a%3Fb/%23/ä//")
    assert collected.errors == []
    assert [asked.target.partition("?")[0] for asked in server.asked] == [
        "/a%3Fb/%23/%C3%A4/files",
        f"/a%3Fb/%23/%C3%A4/files/{file.name}",
    ]


@pytest.mark.parametrize("suffix", ["", ".part"])
@pytest.mark.parametrize("trap", ["link", "dangling link", "pipe", "folder"])
def test_what_is_in_the_way_is_neither_followed_nor_removed(
    file: File, run: RunDirectory, tmp_path: Path, trap: str, suffix: str
) -> None:
    """A run's directory may come from somebody else; a line says what to remove."""
    victim = tmp_path / "victim"
    path = place_of(run, file).with_name(f"{file.name}{suffix}")
    if trap == "link":
        victim.write_bytes(file.raw[: HEADER_SIZE + RECORD])  # as if it were the same file
    if "link" in trap:
        path.symlink_to(victim)
    elif trap == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    before = os.lstat(path)
    with serve(giving(file, lambda asked: file.part(asked.begin, len(file.raw)))) as server:
        (error,) = fetch(run, server.url).errors
    assert error.startswith(f"{path}: ")
    assert "remove it" in error
    assert os.lstat(path) == before
    assert victim.exists() == (trap == "link")
    if victim.exists():
        assert victim.read_bytes() == file.raw[: HEADER_SIZE + RECORD]


@pytest.mark.parametrize("folder", ["journals", "samples"])
@pytest.mark.parametrize("leads", ["to a folder", "nowhere"])
def test_folders_are_not_followed_either(
    folder: str, leads: str, run: RunDirectory, tmp_path: Path
) -> None:
    """Nothing is written outside of the run's directory."""
    elsewhere = tmp_path / "elsewhere"
    if leads == "to a folder":
        elsewhere.mkdir()
    (run.path / folder).rmdir()
    (run.path / folder).symlink_to(elsewhere)
    with pytest.raises(UsageError, match="a link, which is not followed"):
        fetch(run, "http://127.0.0.1:1")
    assert not elsewhere.exists() or list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("ALL_PROXY", "http://[::1", "proxies"),
        ("HTTP_PROXY", "ftp://proxy", "proxies"),
        ("SSL_CERT_FILE", "/nowhere", "certificates"),
        ("SSL_CERT_FILE", "/etc/passwd", "certificates"),
    ],
)
def test_an_environment_that_cannot_be_used_is_one_line(
    name: str, value: str, told: str, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no defect of trilat, and the line names the variables."""
    for known in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(known, raising=False)
        monkeypatch.delenv(known.lower(), raising=False)
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=told) as raised:
        fetch(run, "http://127.0.0.1:1")
    assert name in str(raised.value)
