"""Resolvers of routes for frameworks that leave nothing of their routing in the scope."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

from .asgi import Scope
from .routes import Resolver

__all__ = ["django_routes", "quart_routes"]

_KEPT = "trilat.route"
_PATHS_MAX = 2048


def quart_routes(app: Any) -> Resolver:
    """A resolver for a Quart application, to be made before it serves.

    ::

        service = TrilatMiddleware(app, route=quart_routes(app))

    Quart tells its rule when a request starts (its signals), so nothing is matched twice.

    Args:
        app: the ``quart.Quart``.
    """
    quart = import_module("quart")
    signals = import_module("quart.signals")

    # Coroutine functions: Quart would run others in a thread.
    async def keep_request(_app: Any, **_: Any) -> None:
        if (rule := quart.request.url_rule) is not None:
            quart.request.scope[_KEPT] = rule.rule

    async def keep_websocket(_app: Any, **_: Any) -> None:
        if (rule := quart.websocket.url_rule) is not None:
            quart.websocket.scope[_KEPT] = rule.rule

    signals.request_started.connect(keep_request, app, weak=False)
    signals.websocket_started.connect(keep_websocket, app, weak=False)

    def resolve(scope: Scope) -> str | None:
        return scope.get(_KEPT)

    return resolve


def django_routes() -> Resolver:
    """A resolver for a Django application.

    ::

        application = TrilatMiddleware(get_asgi_application(), route=django_routes())

    Django keeps its match on its own request object, so the path is matched once more, by Django's
    resolver; the last matches are kept. A URL configuration that middleware sets for single
    requests is not seen.
    """
    urls = import_module("django.urls")

    @lru_cache(_PATHS_MAX)
    def match(path: str) -> str | None:
        try:
            return f"/{urls.resolve(path).route}"
        except urls.Resolver404:
            return None

    def resolve(scope: Scope) -> str | None:
        path, root = scope["path"], scope.get("root_path", "").rstrip("/")
        if root and path.startswith(f"{root}/"):
            path = path[len(root) :]
        return match(path)

    return resolve
