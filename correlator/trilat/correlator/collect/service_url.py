"""`ServiceUrl`: where a service has mounted `CollectApp`, as a person wrote it."""

from __future__ import annotations

import httpx

from trilat.agent.errors import UsageError
from trilat.correlator.text import clean

__all__ = ["ServiceUrl"]

_PORTS = range(1, 2**16)


class ServiceUrl:
    """A URL that a service's files lie under.

    Args:
        text: the URL, without ``files``.

    Attributes:
        shown: without a slash at the end; fit to be shown.

    Raises:
        UsageError: not a URL of HTTP, or one with more in it than a place.
    """

    def __init__(self, text: str) -> None:
        self.shown = clean(text.rstrip("/"))
        authority = text.rpartition("://")[2].partition("/")[0]
        if "@" in authority or "?" in text or "#" in text:  # first: it may hold a secret
            raise UsageError(
                "a URL to collect from has no user, password, query or fragment: the token is"
                " taken from the environment (--token-env)"
            )
        try:
            url = httpx.URL(text)
            is_place = url.scheme in {"http", "https"} and url.host != ""
            is_place = is_place and (url.port is None or url.port in _PORTS)
            # As it was written: in a path, %3F and a question mark are not the same.
            self._base = url.copy_with(raw_path=url.raw_path.rstrip(b"/") + b"/")
        # Names of hosts are decoded when they are asked for, by a library with errors of its own.
        except (httpx.InvalidURL, ValueError) as error:
            raise UsageError(f"{self.shown}: not a URL ({clean(error, 200)})") from error
        if not is_place:
            raise UsageError(f"{self.shown}: not a URL; write it as http://host:8000/trilat")

    def below(self, target: str) -> httpx.URL:
        """The URL of something under this one.

        Args:
            target: its path and query, ASCII, percent-encoded where that is needed.
        """
        return self._base.copy_with(raw_path=self._base.raw_path + target.encode("ascii"))
