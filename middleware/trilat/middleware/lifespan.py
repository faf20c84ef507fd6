"""The lifespan of an application: where a process of a service begins to observe, and is to end.

A server that is told to end may leave by the signal's own way, so that nothing that Python does at
its exit is done. The last that it runs is the end of the lifespan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .asgi import Message, Receive, Scope, Send
    from .station import Station

__all__ = ["observe_lifespan"]

_ENDS = ("lifespan.shutdown.complete", "lifespan.shutdown.failed")


async def observe_lifespan(
    app: Any, scope: Scope, receive: Receive, send: Send, station: Station
) -> None:
    """Call an application with its lifespan.

    Args:
        app: the application.
        scope: of the lifespan.
        receive: the server's.
        send: the server's.
        station: enters as the application begins, and settles before the server hears that the
            application has ended.
    """
    station.enter()  # the loop may be another one than that of the latest application

    async def send_observed(message: Message) -> None:
        if message["type"] in _ENDS:
            await station.settle()
        await send(message)

    await app(scope, receive, send_observed)
