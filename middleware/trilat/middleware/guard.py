"""`Guard`: lets those in who know the token, and slows down those who guess it."""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from hmac import compare_digest
from typing import TYPE_CHECKING

from trilat.agent.clock import SYSTEM_CLOCK, Clock
from trilat.agent.errors import UsageError
from trilat.agent.marking import token_bytes

if TYPE_CHECKING:
    from .asgi import Scope

__all__ = ["Guard"]

logger = logging.getLogger("trilat.middleware")

_BURST = 10  # wrong tokens at once
_REFILL_NS = 10**9  # and one a second after that


class Guard:
    """Checks ``Authorization: Bearer <token>``.

    A wrong token and a missing one are the same. Each takes one of ten tries, of which one comes
    back a second; while there are none left, nobody is let in and no token is looked at, so that
    a token cannot be guessed at speed. The tries are the process' and not an address': addresses
    are cheap, and this takes no memory. Who floods the guard keeps collectors out as well, as long
    as that lasts.

    Args:
        token: what is asked for.
        clock: gives the tries back.

    Attributes:
        refused: how many requests were not let in.

    Raises:
        UsageError: the token is empty, or cannot be sent in a header.
    """

    def __init__(self, token: str, clock: Clock = SYSTEM_CLOCK) -> None:
        try:
            self._token = token_bytes(token)
        except UsageError as error:
            raise UsageError(
                "the token of CollectApp must be 1 to 200 visible ASCII characters without spaces;"
                " it gives files of the service to who knows it"
            ) from error
        self._now_ns = clock.monotonic_ns
        self._full_at_ns = 0  # when all tries are back; each one that is out takes a second more
        self.refused = 0

    def refusal(self, scope: Scope) -> int | None:
        """401 or 429 for who is not let in; None for who is."""
        if self.wait_s() == 0 and self._is_known(scope):
            return None
        self.refused += 1
        if self.refused == 1:
            self._warn()
        if self.wait_s() > 0:
            return 429
        self._full_at_ns = max(self._full_at_ns, self._now_ns()) + _REFILL_NS
        return 401

    def wait_s(self) -> int:
        """Seconds, rounded up, until there is a try again; 0 where there is one."""
        out_ns = self._full_at_ns - self._now_ns()
        return max(math.ceil((out_ns - (_BURST - 1) * _REFILL_NS) / 1e9), 0)

    def _is_known(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(b" ")
        return compare_digest(token.strip(b" "), self._token) and scheme.lower() == b"bearer"

    def _warn(self) -> None:
        with suppress(Exception):  # a logging handler may be what is broken
            logger.warning(
                "a request to CollectApp without the right token was refused;"
                " further ones are only counted"
            )
