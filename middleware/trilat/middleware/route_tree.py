"""Where in the tree of an application's routes a request ended, by what routing left in its scope.

Starlette and FastAPI leave the matched route or endpoint, the outermost router, and for mounted
applications a ``root_path`` with concrete values in it: a label needs the templates on the way.
They are found by walking from the outermost router to the route. Nothing is imported: what looks
like a route is one (Starlette 0.4x and 1.x, FastAPI with and without its lazily included routers).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from .asgi import Scope

__all__ = ["Place", "context_of", "is_mounted", "places", "template_of"]

_REST = "/{path}"  # what `starlette.routing.Mount` ends its template with
_WRAPPERS_MAX = 16  # middleware around a mounted application


@dataclass(frozen=True, slots=True)
class Place:
    """One place of the tree where a request may have ended.

    Attributes:
        template: of all the way, mounts included; of a mount that ended the way, without its rest.
        steps: the mounts and hosts on the way, outermost first.
        leaf: what routing ended at.
        mounted: whether the leaf is a mounted application: one that has ``"routes"``, none of which
            matched, or an ``"opaque"`` one that shows none.
    """

    template: str
    steps: tuple[Any, ...]
    leaf: Any
    mounted: Literal["", "routes", "opaque"] = ""

    def holds(self, scope: Scope) -> bool:
        """Whether the request's path (and host) leads to this place."""
        path: str = scope["path"]
        root = scope.get("app_root_path", scope.get("root_path", ""))
        if root and path.startswith(root) and path[len(root) : len(root) + 1] in {"", "/"}:
            path = path[len(root) :]
        for step in self.steps:
            if _is_host(step):
                if not step.host_regex.match(_host_of(scope)):
                    return False
            elif match := step.path_regex.match(path):
                path = f"/{match['path']}"
            else:
                return False
        return _is_host(self.leaf) or self.leaf.path_regex.match(path) is not None


def context_of(scope: Scope) -> Any:
    """What FastAPI keeps of the included router through which its route was reached, or None."""
    kept = scope.get("fastapi")
    return kept.get("effective_route_context") if kept else None


def is_mounted(scope: Scope) -> bool:
    """Whether a mounted application has routed the request."""
    root = scope.get("root_path", "")
    return bool(scope.get("app_root_path", root) != root)


def template_of(route: Any) -> str | None:
    """The template of one route, None where it has none."""
    template = getattr(route, "path_format", None)
    if not isinstance(template, str):
        template = getattr(route, "path", None)
    return template if isinstance(template, str) else None


def places(scope: Scope) -> list[Place]:
    """All places of the tree where routing may have ended that left this scope."""
    route, endpoint, context = scope.get("route"), scope.get("endpoint"), context_of(scope)
    root = scope.get("router") or scope.get("app")
    if context is not None and getattr(context, "original_route", None) is not route:
        context = None  # that of an outer application's router
    # FastAPI leaves no route for what is not its own; then the route is an outer application's.
    if route is not None and endpoint is not _target(route):
        route = None
    found = []
    for place, original, node_context in _walk(_routes_of(root), (), "", (id(root),)):
        if context is not None:
            if node_context is context:
                found.append(place)
        elif route is not None:
            if original is route or place.leaf is route:
                found.append(place)
        elif _target(place.leaf) is endpoint:
            found.append(place)
    return found


def _walk(
    routes: Any, steps: tuple[Any, ...], prefix: str, above: tuple[int, ...]
) -> Iterator[tuple[Place, Any, Any]]:
    """Each place below these routes, with the route as it was declared and FastAPI's context."""
    for node, original, context in _nodes(routes):
        if getattr(node, "endpoint", None) is not None or not hasattr(node, "app"):
            template = template_of(node)
            if template is not None:
                yield Place(prefix + template, steps, node), original, context
            continue
        if _is_host(node):
            below = f"{node.host_format}{prefix}"
        else:
            below = prefix + node.path_format.removesuffix(_REST)
        inner = getattr(node, "routes", None) or _routes_of(node.app)
        yield Place(below, steps, node, "routes" if inner else "opaque"), original, context
        if id(node.app) not in above:  # a router may be mounted in itself
            yield from _walk(inner, (*steps, node), below, (*above, id(node.app)))


def _nodes(routes: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The routes as they match, as they were declared, and FastAPI's context where it has one."""
    for route in routes:
        contexts = getattr(route, "effective_route_contexts", None)
        if contexts is None:
            yield route, route, None
            continue
        for context in contexts():
            yield context.starlette_route or context, context.original_route, context


def _routes_of(app: Any) -> Any:
    """The routes of an application, also where middleware is wrapped around it."""
    for _ in range(_WRAPPERS_MAX):
        routes = getattr(app, "routes", None)
        if isinstance(routes, list | tuple):
            return routes
        app = getattr(app, "app", None)
    return ()


def _target(route: Any) -> Any:
    """What routing leaves as the endpoint for this route."""
    endpoint = getattr(route, "endpoint", None)
    return getattr(route, "app", None) if endpoint is None else endpoint


def _is_host(node: Any) -> bool:
    return hasattr(node, "host_regex")


def _host_of(scope: Scope) -> str:
    """The Host header's name in lower case, without a port."""
    for name, value in scope["headers"]:
        if name == b"host":
            return str(value.decode("latin-1").lower().partition(":")[0])
    return ""
