"""`CollectApp`: gives a service's journals and samples to `trilat collect`."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import closing
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import parse_qsl

from trilat.agent.clock import SYSTEM_CLOCK, Clock
from trilat.agent.host import host_identity
from trilat.agent.offers import FILES_SCHEMA, FileTag, Window, list_offers, open_offer

from .guard import Guard
from .serving import TEXT, Beside, answer, live, start
from .station import STATION

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from io import FileIO
    from pathlib import Path

    from trilat.agent.offers import Offer

    from .asgi import Receive, Scope, Send

__all__ = ["CollectApp", "Keeper"]

_STREAMS_MAX = 2
_PIECE = 256 * 2**10
_STALL_S = 60.0  # a client that takes no piece for so long has gone
_BUSY_S = 2
_FROM = re.compile(r"bytes=(\d{1,15})-", re.ASCII)
_MOMENT = re.compile(r"-?\d{1,19}", re.ASCII)


class Keeper(Protocol):
    """Where the files are; a `trilat.middleware.Station`."""

    @property
    def directory(self) -> Path | None:
        """The folder of journals and samples, or None."""

    @property
    def instance(self) -> int:
        """The process, as `trilat.agent.host.process_identity` tells it; 0 where it is not said."""


class CollectApp:
    """Lists the journals and samples of a service and gives them to who knows the token.

    ::

        app.mount("/trilat", CollectApp(token=os.environ["TRILAT_COLLECT_TOKEN"]))

    It may also be served by itself. ``GET files?from=<ns>&to=<ns>`` lists the files of a time
    (`trilat.agent.offers.Offer`) as JSON, ``GET files/<name>`` gives what is written of one.
    Workers that share a directory answer for each other. Nothing is written, and nothing outside
    the directory is read. Files are read on a thread and sent in pieces as fast as the client
    takes them, two at a time. The token comes in the clear where the service has no TLS.

    Args:
        token: what ``Authorization: Bearer`` must carry: see `Guard`, also on who guesses.
        station: tells where the files are; None: the process' own.
        clock: for the time of the listing and the guard.

    Attributes:
        guard: counts who was not let in.

    Raises:
        UsageError: the token is empty, or cannot be sent in a header.
    """

    def __init__(
        self, token: str, *, station: Keeper | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.guard = Guard(token, clock)
        self._station = STATION if station is None else station
        self._clock = clock
        self._beside = Beside(_STREAMS_MAX, "trilat-collect")
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; take part in the lifespan where nobody else does."""
        if scope["type"] == "lifespan":
            await live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif (status := self.guard.refusal(scope)) is not None:
            await self._refuse(send, status)
        elif scope["method"] not in {"GET", "HEAD"}:
            await _say(send, 405, "Files are for GET and HEAD.", {"allow": "GET, HEAD"})
        else:
            await self._give(scope, send)

    async def _refuse(self, send: Send, status: int) -> None:
        if status == 401:
            await _say(send, 401, "The token is missing or wrong.", {"www-authenticate": "Bearer"})
        else:
            wait = {"retry-after": str(self.guard.wait_s())}
            await _say(send, 429, "Too many wrong tokens.", wait)

    async def _give(self, scope: Scope, send: Send) -> None:
        path = _path_inside(scope)
        if path == "/files":
            await self._list(scope, send)
        elif path.startswith("/files/"):
            await self._give_file(scope, send, path.removeprefix("/files/"))
        else:
            await _say(send, 404, "There is nothing here; files are listed at files.")

    async def _list(self, scope: Scope, send: Send) -> None:
        window = _window(scope.get("query_string", b""))
        if window is None:
            await _say(send, 400, "from and to are nanoseconds since the epoch.")
            return
        directory = self._station.directory
        try:
            offers = await self._beside.run(list_offers, directory, window)
        except OSError as error:
            await _say(send, 500, f"The directory of the journals: {error.strerror}.")
            return
        listing = {
            "schema": FILES_SCHEMA,
            "host": host_identity(),
            "instance": self._station.instance,
            "wall_ns": self._clock.wall_ns(),
            "journals": directory is not None,
            "files": [_described(offer) for offer in offers],
        }
        headers = {"content-type": "application/json", "cache-control": "no-store"}
        body = json.dumps(listing).encode() + b"\n"
        await answer(send, 200, headers, body, with_body=scope["method"] == "GET")

    async def _give_file(self, scope: Scope, send: Send, name: str) -> None:
        if self._streams >= _STREAMS_MAX:
            busy = {"retry-after": str(_BUSY_S)}
            await _say(send, 503, f"{_STREAMS_MAX} files are sent at a time.", busy)
            return
        self._streams += 1
        try:
            opened = await self._beside.run(open_offer, self._station.directory, name)
            if opened is None:
                await _say(send, 404, "There is no such file.")
                return
            file, offer = opened
            with closing(_Reader(file)) as reader:
                await self._stream(scope, send, reader, offer)
        finally:
            self._streams -= 1

    async def _stream(self, scope: Scope, send: Send, reader: _Reader, offer: Offer) -> None:
        end = offer.tag.bytes
        headers = {
            "content-type": "application/octet-stream",
            "accept-ranges": "bytes",
            "cache-control": "no-store",
            "etag": str(offer.tag),
        }
        wanted = _wanted_part(scope, offer.tag)
        if wanted.start > end:
            past = {"content-range": f"bytes */{end}"}
            await _say(send, 416, "The file is shorter.", past)
            return
        if wanted.status == 206:
            headers["content-range"] = f"bytes {wanted.start}-{end - 1}/{end}"
        headers["content-length"] = str(end - wanted.start)
        await start(send, wanted.status, headers)
        at = wanted.start
        while scope["method"] == "GET" and at < end:
            piece = await self._beside.run(reader.read, at, min(_PIECE, end - at))
            at += len(piece)
            more = {"type": "http.response.body", "body": piece, "more_body": True}
            await _before_it_stalls(send(more))
        await send({"type": "http.response.body", "body": b""})


class _Reader:
    """Reads a file from threads, and closes it after the read that was cancelled has ended.

    The number of a file that is closed under a read may be another file's by then.
    """

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._lock = Lock()

    def read(self, start: int, size: int) -> bytes:
        """A piece of the file, of at most this size.

        Raises:
            OSError: it cannot be read, or somebody has cut it: the answer cannot be ended.
        """
        with self._lock:
            self._file.seek(start)
            piece: bytes = self._file.read(size)
        if not piece:
            raise OSError(f"{self._file.name}: shorter than it was")
        return piece

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()


class _Part(NamedTuple):
    """What is wanted of a file: from where on, and how that is answered."""

    status: int
    start: int


def _path_inside(scope: Scope) -> str:
    """The path behind that at which the application is mounted, if it is."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


def _window(query: bytes) -> Window | None:
    """The time that is asked for; None where it is none."""
    given = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    wanted = [given.get(name) for name in ("from", "to")]
    if not all(text is None or _MOMENT.fullmatch(text) for text in wanted):
        return None
    return Window(*(None if text is None else int(text) for text in wanted))


def _wanted_part(scope: Scope, tag: FileTag) -> _Part:
    """What ``Range`` and ``If-Range`` ask for (RFC 9110, sections 13.1.5 and 14.2).

    A file that has grown begins with what it was, so a tag of a shorter one holds as well. Forms of
    ranges that a collector does not send are answered with the whole file, as RFC 9110 allows.
    """
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    found = _FROM.fullmatch(headers.get(b"range", ""))
    if found is None:
        return _Part(200, 0)
    if (condition := headers.get(b"if-range")) is not None:
        held = FileTag.parse(condition)
        if held is None or not tag.covers(held):
            return _Part(200, 0)
    begin = int(found[1])
    return _Part(206, begin) if begin < tag.bytes else _Part(416, tag.bytes + 1)


def _described(offer: Offer) -> dict[str, Any]:
    return {
        "name": offer.name,
        "kind": offer.kind,
        "bytes": offer.tag.bytes,
        "etag": str(offer.tag),
        "first_wall_ns": offer.first_wall_ns,
        "last_wall_ns": offer.last_wall_ns,
    }


async def _before_it_stalls(sending: Awaitable[None]) -> None:
    """Wait until a piece is sent, but not forever: others wait for their turn.

    Raises:
        TimeoutError: the client took nothing of it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # trio
        await sending
        return
    async with asyncio.timeout(_STALL_S):
        await sending


async def _say(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    await answer(send, status, {"content-type": TEXT, **(headers or {})}, f"{text}\n".encode())
