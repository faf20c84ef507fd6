"""The body of a request on its way: how long the application waited for the rest of it.

A server calls the application when a request's head is there. An application that then waits for
the body waits for whoever sends it, and for the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .asgi import Message, Receive

__all__ = ["Upload"]


class Upload:
    """Stands for a server's ``receive`` until the request's body is there.

    Args:
        receive: the server's.
        monotonic_ns: the clock.

    Attributes:
        wait_ns: how long the application has waited for the body so far.
    """

    __slots__ = ("_monotonic_ns", "_receive", "_whole", "wait_ns")

    def __init__(self, receive: Receive, monotonic_ns: Callable[[], int]) -> None:
        self._receive = receive
        self._monotonic_ns = monotonic_ns
        self._whole = False
        self.wait_ns = 0

    async def receive(self) -> Message:
        """What the application is to call for the messages of its request."""
        if self._whole:
            return await self._receive()
        began_ns = self._monotonic_ns()
        try:
            message = await self._receive()
        finally:
            self.wait_ns += self._monotonic_ns() - began_ns
        # A client that is gone sends no more of it either.
        self._whole = not message.get("more_body", False)
        return message
