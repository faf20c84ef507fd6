"""`Source`: one service's files over HTTP, from a server that may be anything.

Answers are bounded in size and time, redirects are not followed (the token would go with them), and
nothing is decompressed. What fails for a while is tried again.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Self, TypeVar

import httpx

from trilat.agent.errors import InputError, UsageError
from trilat.agent.offers import FileTag, Offer, Window
from trilat.correlator.text import clean

from .landing import BYTES_MAX, write_all
from .listing import Listing, parse_listing
from .service_url import ServiceUrl

if TYPE_CHECKING:
    from types import TracebackType

    from .landing import Landing

__all__ = ["Gone", "Source"]

_LISTING_BYTES_MAX = 8 * 2**20
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_ANSWER_S = 900.0  # for one answer: 64 MB at 75 KB a second
_TRIES = 5  # one after the other without a byte
_TRIES_MAX = 100  # and with some
_FIRST_WAIT_S = 0.25  # doubled from try to try
_WAIT_MAX_S = 30.0
_LATER = {429, 502, 503, 504}
_GONE = {404, 410}
_DIGITS = re.compile(r"\d{1,15}", re.ASCII)
_T = TypeVar("_T")
_TOLD = {
    401: "the token was refused; is it the one that CollectApp was given?",
    403: "refused (403); does something before the service guard this path?",
    404: "nothing is collected there (404); name the URL at which CollectApp is mounted",
    429: "too many wrong tokens came there; wait, and see that no one else guesses",
    503: "busy giving files to others; try again later",
}


class Gone(InputError):
    """A file that was listed is not there any more."""


class _Later(Exception):
    """Not now: what to say if that stays so, and how long to wait, in seconds."""

    def __init__(self, text: str, wait_s: float = 0.0) -> None:
        super().__init__(text)
        self.wait_s = wait_s


class Source:
    """A service's `CollectApp`.

    Args:
        url: where it is mounted, without ``files``.
        token: what it asks for; visible ASCII.

    Attributes:
        url: without a slash at the end; fit to be shown.

    Raises:
        UsageError: not a URL of HTTP, one with more in it than a place, or the environment's
            settings of proxies or certificates cannot be used.
    """

    def __init__(self, url: str, token: str) -> None:
        self._place = ServiceUrl(url)
        self.url = self._place.shown
        self._client = _client_for(token, self._refuse_redirect)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    async def listing(self, window: Window) -> Listing:
        """The files of a time.

        Raises:
            InputError: the service cannot be reached, refuses, or answers something else.
        """
        query = f"from={window.from_ns}&to={window.to_ns}"

        async def ask() -> Listing:
            began_ns = time.time_ns()
            raw = bytearray()
            async with self._client.stream("GET", self._place.below(f"files?{query}")) as response:
                self._expect(response, {200}, _LISTING_BYTES_MAX)
                middle_ns = (began_ns + time.time_ns()) // 2
                async for piece in response.aiter_raw():
                    raw += piece
                    if len(raw) > _LISTING_BYTES_MAX:
                        raise InputError(f"{self.url}: a listing without an end")
            return parse_listing(bytes(raw), middle_ns, self.url)

        return await self._patiently(ask, lambda: 0)

    async def fetch(self, offer: Offer, landing: Landing, spend: Callable[[int], None]) -> int:
        """Bring a file into its part; what is there of it is kept.

        Args:
            offer: which file.
            landing: where it goes.
            spend: called with the bytes of each piece before it is written; may raise.

        Returns:
            How many bytes of it were there before.

        Raises:
            Gone: it is not there any more.
            InputError: it cannot be had.
            OSError: it cannot be written.
        """
        kept = came = 0

        def count(size: int) -> None:
            nonlocal came
            spend(size)
            came += size

        async def ask() -> None:
            nonlocal kept
            held = landing.prepare(offer.tag)
            if held is not None and held.covers(offer.tag):
                kept = kept if came else held.bytes
                return
            part = {} if held is None else {"Range": f"bytes={held.bytes}-", "If-Range": str(held)}
            url = self._place.below(f"files/{offer.name}")
            async with self._client.stream("GET", url, headers=part) as response:
                if response.status_code in _GONE:
                    raise Gone(f"{offer.name}: listed, and not there ({response.status_code})")
                self._expect(response, {200, 206}, BYTES_MAX[offer.kind])
                begin = self._begin(response, held)
                kept = kept if came else begin
                await self._write(response, offer, landing, begin, count)
            missing = landing.missing(offer.tag)
            if missing > 0:  # an answer that does not tell its length may end anywhere
                raise _Later(f"{self.url}: {offer.name}: ended {missing:,} bytes too early")

        await self._patiently(ask, lambda: came)
        return kept

    def _begin(self, response: httpx.Response, held: FileTag | None) -> int:
        """Where in the file an answer begins.

        Raises:
            InputError: it is a part that was not asked for.
        """
        if response.status_code == 200:
            return 0
        begin = 0 if held is None else held.bytes
        tag = FileTag.parse(response.headers.get("etag", ""))
        is_other = tag is not None and held is not None and tag.identity != held.identity
        if is_other or not response.headers.get("content-range", "").startswith(f"bytes {begin}-"):
            raise InputError(f"{self.url}: answered another part than it was asked for")
        return begin

    async def _write(
        self,
        response: httpx.Response,
        offer: Offer,
        landing: Landing,
        begin: int,
        count: Callable[[int], None],
    ) -> None:
        at = begin
        with landing.open_part(begin) as file:
            async for piece in response.aiter_raw():
                at += len(piece)
                if at > BYTES_MAX[offer.kind]:
                    raise InputError(f"{offer.name}: larger than such a file can be")
                count(len(piece))
                write_all(file, piece)

    def _expect(self, response: httpx.Response, statuses: set[int], bytes_max: int) -> None:
        """Take the head of an answer, or say what is wrong with it.

        Raises:
            InputError: the answer is another.
            _Later: the answer may be another one later.
        """
        status = response.status_code
        told = f"{self.url}: {_TOLD.get(status, f'answers with status {status}')}"
        if status in _LATER:
            after = response.headers.get("retry-after", "")
            raise _Later(told, float(after) if _DIGITS.fullmatch(after) else 0.0)
        if status not in statuses:
            raise InputError(told)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise InputError(f"{self.url}: answers compressed, which it was not asked for")
        length = response.headers.get("content-length", "0")
        if not _DIGITS.fullmatch(length) or int(length) > bytes_max:
            raise InputError(f"{self.url}: announces {length[:20]} bytes, which is too much")

    async def _refuse_redirect(self, response: httpx.Response) -> None:
        """Take no answer from another place; called before httpx looks where that is.

        Raises:
            InputError: it is there.
        """
        if response.has_redirect_location:
            place = clean(response.headers["location"], 200)
            raise InputError(f"{self.url}: moved to {place}; name that URL if it can be trusted")

    async def _patiently(self, ask: Callable[[], Awaitable[_T]], progress: Callable[[], int]) -> _T:
        """Ask again where that may help, as long as there is progress or for some tries."""
        tried = seen = 0
        told = ""
        for _ in range(_TRIES_MAX):
            wait_s = 0.0
            try:
                async with asyncio.timeout(_ANSWER_S):
                    return await ask()
            except TimeoutError as error:
                raise InputError(f"{self.url}: an answer took over {_ANSWER_S:.0f} s") from error
            except _Later as later:
                told, wait_s = str(later), later.wait_s
            except httpx.TransportError as error:
                what = clean(error) or type(error).__name__
                told = f"{self.url}: cannot be reached ({what}); does the service run there?"
            if progress() > seen:
                tried, seen = 0, progress()
            tried += 1
            if tried == _TRIES:
                break
            await asyncio.sleep(min(max(wait_s, _FIRST_WAIT_S * 2 ** (tried - 1)), _WAIT_MAX_S))
        raise InputError(told)


def _client_for(
    token: str, on_response: Callable[[httpx.Response], Awaitable[None]]
) -> httpx.AsyncClient:
    """A client that sends the token, and follows nobody elsewhere.

    Raises:
        UsageError: what the environment says of proxies or certificates cannot be used.
    """
    try:
        return httpx.AsyncClient(
            headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"},
            timeout=_TIMEOUT,
            follow_redirects=False,
            event_hooks={"response": [on_response]},
        )
    except (httpx.InvalidURL, ValueError, ImportError) as error:
        raise UsageError(
            "the proxies that the environment names cannot be used"
            f" (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY): {clean(error, 200)}"
        ) from error
    except OSError as error:
        raise UsageError(
            "the certificates that the environment names cannot be read"
            f" (SSL_CERT_FILE, SSL_CERT_DIR): {clean(error.strerror or error, 200)}"
        ) from error
