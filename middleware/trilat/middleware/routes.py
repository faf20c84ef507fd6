"""The label of a request's route: its template, never a value out of a path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from .asgi import Scope
from .health import HEALTH, Health
from .route_tree import Place, context_of, is_mounted, places, template_of

__all__ = [
    "METHODS",
    "MOUNT_LABEL",
    "OTHER_LABEL",
    "UNMATCHED_LABEL",
    "Resolver",
    "RouteLabels",
    "route_of",
]

Resolver: TypeAlias = Callable[[Scope], str | None]
"""Names the route of a request whose answer has started; None where it has none."""

METHODS = frozenset(
    ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE")
)
"""The methods of RFC 9110 and RFC 5789; others are one label, as a client can send anything."""
OTHER_LABEL = "(other)"
"""Stands for the labels beyond the limit, and for methods that are not known."""
UNMATCHED_LABEL = "(unmatched)"
"""Stands for requests that no route matched."""
MOUNT_LABEL = "(mount)"
"""Stands for the path of a mounted application that cannot be found in the tree of routes."""

_Key: TypeAlias = tuple[int, int, int]
_LENGTH_MAX = 200
_CACHE_MAX = 2000
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def route_of(scope: Scope) -> str:
    """The template of the route that a request matched, with those of the mounts on its way.

    Understands what Starlette, FastAPI and Litestar leave in the scope. A static files mount is
    ``/static/{path}``, a route below a ``Host`` begins with the host's template. Middleware that
    hands a copy of the scope inwards hides the route.

    Args:
        scope: of a request whose answer has started.

    Returns:
        Such as ``/tenants/{id}/items/{item}``; `UNMATCHED_LABEL` where no route matched.
    """
    return _choose(_candidates(scope), scope)


class RouteLabels:
    """Labels of routes, few and safe, at the cost of one look-up.

    What routing left in the scope is the key, so the tree of routes is walked once for each route.
    Routes that are mounted at several places are told apart by the path, each time; a place that is
    added once the route has been seen is not.

    Args:
        resolver: stands in for `route_of`; asked for every request.
        limit: so many labels are told apart; the rest becomes `OTHER_LABEL`.
        health: counts what a resolver raises.
    """

    def __init__(
        self, resolver: Resolver | None = None, limit: int = 500, *, health: Health = HEALTH
    ) -> None:
        self._resolver = resolver
        self._limit = limit
        self._health = health
        self._labels: dict[str, str] = {}
        self._known: dict[_Key, str | tuple[Place, ...]] = {}
        # Ids stay theirs while the objects live.
        self._kept: list[tuple[Any, ...]] = []

    def label(self, scope: Scope) -> str:
        """The label of a request whose answer has started, or was given up.

        Never raises: what a resolver raises is counted, and the label is `UNMATCHED_LABEL`.
        """
        try:
            if self._resolver is not None:
                return self._bounded(self._resolver(scope) or UNMATCHED_LABEL)
            get = scope.get
            # Applications may share endpoints, and routers routes.
            route, kept = get("route") or get("router"), get("fastapi")
            context = kept.get("effective_route_context") if kept else None
            key = id(route), id(get("endpoint")), id(context)
            known = self._known.get(key)
            if type(known) is str:
                return known
            if known is None:
                return self._learn(key, scope)
            return self._bounded(_choose(known, scope))
        except Exception:  # noqa: BLE001 - instrumentation fails open
            self._health.failed()
            return UNMATCHED_LABEL

    def _learn(self, key: _Key, scope: Scope) -> str:
        """Find the candidates of a key that has not been seen, and keep them."""
        found = _candidates(scope)
        label = self._bounded(_choose(found, scope))
        if scope.get("endpoint") is None:
            return label  # nothing that a key could be made of
        if len(self._known) >= _CACHE_MAX:  # routes are made anew for each request
            self._known.clear()
            self._kept.clear()
        names = ("router", "endpoint", "route")
        self._kept.append((*map(scope.get, names), context_of(scope)))
        self._known[key] = label if isinstance(found, str) else found
        return label

    def _bounded(self, name: str) -> str:
        """A name as a label, while there is room for it."""
        label = self._labels.get(name)
        if label is not None:
            return label
        if name == UNMATCHED_LABEL:
            return name
        if not isinstance(name, str):
            raise TypeError(f"a route's name is a str or None, not {type(name).__name__}")
        if len(self._labels) >= self._limit:
            return OTHER_LABEL
        label = self._labels[name] = _safe(name)
        return label


def _candidates(scope: Scope) -> str | tuple[Place, ...]:
    """The label that a scope's routes have, or the places that only the path tells apart."""
    if scope.get("endpoint") is None:
        return _without_endpoint(scope)
    found = places(scope)
    if not found:
        return _not_found(scope)
    if any(place.mounted for place in found) or len({place.template for place in found}) > 1:
        return tuple(found)
    return found[0].template or "/"


def _choose(found: str | tuple[Place, ...], scope: Scope) -> str:
    """The label of the place to which the path of a request leads."""
    if isinstance(found, str):
        return found
    place = found[0] if len(found) == 1 else next((p for p in found if p.holds(scope)), None)
    if place is None:
        return UNMATCHED_LABEL
    if not place.mounted:
        return place.template or "/"
    if template := scope.get("path_template"):  # that of a mounted Litestar application
        return f"{place.template}{template}"
    return UNMATCHED_LABEL if place.mounted == "routes" else f"{place.template}/{{path}}"


def _without_endpoint(scope: Scope) -> str:
    """The label where neither Starlette nor FastAPI found an endpoint."""
    if (template := scope.get("path_template")) is not None:
        return str(template) or f"{MOUNT_LABEL}/{{path}}"  # Litestar's; of its mounts it tells none
    # Files that FastAPI serves as a frontend: what comes before them is a path as declared.
    rest = (scope.get("fastapi") or {}).get("frontend_path")
    if rest is None or is_mounted(scope):
        return UNMATCHED_LABEL
    return f"{scope['path'].removesuffix(rest).rstrip('/')}/{{path}}"


def _not_found(scope: Scope) -> str:
    """The label of a route that no walk from the outermost router leads to."""
    template = template_of(scope.get("route"))
    if template is None or getattr(scope["route"], "endpoint", None) is not scope["endpoint"]:
        return UNMATCHED_LABEL
    return f"{MOUNT_LABEL if is_mounted(scope) else ''}{template}" or "/"


def _safe(name: str) -> str:
    """A name that fits into a line of text: bounded, without control characters."""
    if not name.isprintable():
        name = "".join(char if char.isprintable() else _REPLACEMENT for char in name)
    return name if len(name) <= _LENGTH_MAX else f"{name[: _LENGTH_MAX - 1]}…"
