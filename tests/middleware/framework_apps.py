"""The same route in every framework, behind one server; the first path segment chooses one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django  # type: ignore[import-untyped]
import litestar
import quart
from django.conf import settings  # type: ignore[import-untyped]
from django.core.asgi import get_asgi_application  # type: ignore[import-untyped]
from django.http import HttpRequest, HttpResponse  # type: ignore[import-untyped]
from django.urls import path  # type: ignore[import-untyped]
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from trilat.middleware import MetricsApp, TrilatMiddleware
from trilat.middleware.asgi import ASGIApp, Receive, Scope, Send
from trilat.middleware.frameworks import django_routes, quart_routes

if TYPE_CHECKING:
    from starlette.requests import Request


async def plain(scope: Scope, _receive: Receive, send: Send) -> None:
    """An application without a framework."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].rpartition("/")[2].encode()})


def plain_route(scope: Scope) -> str | None:
    """A resolver as a user writes one."""
    parts = scope["path"].split("/")
    if parts[-1] == "raise":
        raise LookupError("on purpose")
    return "/plain/items/{item}" if parts[2:3] == ["items"] else None


async def starlette_item(request: Request) -> PlainTextResponse:
    """Send the item back."""
    return PlainTextResponse(str(request.path_params["item"]))


starlette_app = Starlette(
    routes=[Mount("/starlette", routes=[Route("/items/{item:int}", starlette_item)])]
)
fastapi_app = FastAPI()


@fastapi_app.get("/fastapi/items/{item}")
async def fastapi_item(item: int) -> int:
    """Send the item back."""
    return item


@litestar.get("/litestar/items/{item:int}")
async def litestar_item(request: litestar.Request[Any, Any, Any]) -> int:
    """Send the item back."""
    item: int = request.path_params["item"]
    return item


quart_app = quart.Quart(__name__)


@quart_app.get("/quart/items/<int:item>")
async def quart_item(item: int) -> str:
    """Send the item back."""
    return str(item)


@quart_app.websocket("/quart/echo/<room>")
async def quart_echo(room: str) -> None:
    """Send one message back."""
    await quart.websocket.send(await quart.websocket.receive())


async def django_item(_request: HttpRequest, item: int) -> HttpResponse:
    """Send the item back."""
    return HttpResponse(str(item))


urlpatterns = [path("django/items/<int:item>", django_item)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="of-a-test")
django.setup()

# Their types of ASGI are narrower than ours.
typed: dict[str, Any] = {"litestar": litestar.Litestar([litestar_item]), "quart": quart_app}
APPS: dict[str, ASGIApp] = {
    "plain": TrilatMiddleware(plain, route=plain_route),
    "starlette": TrilatMiddleware(starlette_app),
    "fastapi": TrilatMiddleware(fastapi_app),
    "litestar": TrilatMiddleware(typed["litestar"]),
    "quart": TrilatMiddleware(typed["quart"], route=quart_routes(quart_app)),
    "django": TrilatMiddleware(get_asgi_application(), route=django_routes()),
    "metrics": MetricsApp(),
    "ready": plain,
}


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Hand each request to its application."""
    if scope["type"] != "lifespan":
        await APPS[scope["path"].split("/")[1]](scope, receive, send)
        return
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
