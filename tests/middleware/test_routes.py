"""Labels of routes, as applications route requests in process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import litestar
import pytest
from fastapi import APIRouter, FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Host, Mount, Route, Router
from starlette.staticfiles import StaticFiles

from trilat.middleware.asgi import ASGIApp, Message, Receive, Scope, Send
from trilat.middleware.health import Health
from trilat.middleware.routes import OTHER_LABEL, UNMATCHED_LABEL, RouteLabels, route_of

if TYPE_CHECKING:
    from starlette.requests import Request


def routed(app: ASGIApp, path: str, *, method: str = "GET", **more: Any) -> Scope:
    """The scope that an application leaves after a request."""
    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"eu.example.org:8000")],
        **more,
    }
    asked = 0

    async def receive() -> Message:
        nonlocal asked
        asked += 1
        if asked > 1:
            await asyncio.Event().wait()  # the client stays
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_message: Message) -> None:
        pass

    async def request() -> None:
        await app(scope, receive, send)

    asyncio.run(request())
    return scope


async def answer(_request: Request) -> PlainTextResponse:
    """Answer with nothing."""
    return PlainTextResponse("")


async def other_answer(_request: Request) -> PlainTextResponse:
    """Answer with nothing, as another endpoint."""
    return PlainTextResponse("")


async def opaque(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that shows no routes."""
    await PlainTextResponse("")(scope, receive, send)


def starlette() -> Starlette:
    """Routes of every kind."""
    inner = [Route("/items/{item:int}", answer), Route("/", other_answer)]
    return Starlette(
        routes=[
            Route("/plain/{value}", answer, methods=["GET"]),
            Route("/twin/{value}", answer),
            Mount("/tenants/{tenant}", routes=inner),
            Mount("/api", app=Starlette(routes=inner)),
            Mount("/v1", app=Router(routes=inner), middleware=[Middleware(GZipMiddleware)]),
            Mount("/wrapped", app=GZipMiddleware(Starlette(routes=inner))),
            Mount("/deep/{a}", routes=[Mount("/{b}", routes=inner)]),
            Mount("/static", app=StaticFiles(directory=Path(__file__).parent)),
            Mount("/opaque/{name}", app=opaque),
            Host("{region}.example.org", app=Router(routes=[Route("/hosted", answer)])),
        ]
    )


def fastapi() -> FastAPI:
    """Routers that are included twice, applications in applications."""
    router = APIRouter(prefix="/items")
    router.add_api_route("/{item}", lambda item: item)
    outer = APIRouter()
    outer.include_router(router, prefix="/nested")
    outer.add_route("/raw/{value}", answer)
    tenant = FastAPI()
    tenant.include_router(router)
    tenant.add_api_route("/direct/{value}", lambda value: value)
    tenant.add_route("/raw/{value}", other_answer)
    app = FastAPI()
    app.include_router(router, prefix="/v1")
    app.include_router(router, prefix="/v2")
    app.include_router(outer, prefix="/outer")
    app.mount("/tenants/{tenant}", tenant)
    app.mount("/again", tenant)
    app.mount("/starlette", starlette())
    return app


STARLETTE_LABELS = {
    "/plain/SECRET": "/plain/{value}",
    "/twin/SECRET": "/twin/{value}",
    "/tenants/SECRET/items/5": "/tenants/{tenant}/items/{item}",
    "/tenants/SECRET/": "/tenants/{tenant}/",
    "/tenants/SECRET/items/none": UNMATCHED_LABEL,
    "/api/items/5": "/api/items/{item}",
    "/api/SECRET": UNMATCHED_LABEL,
    "/v1/items/5": "/v1/items/{item}",
    "/wrapped/items/5": "/wrapped/items/{item}",
    "/deep/SECRET/SECRET/items/5": "/deep/{a}/{b}/items/{item}",
    "/static/conftest.py": "/static/{path}",
    "/static/SECRET": "/static/{path}",
    "/opaque/SECRET/a/b": "/opaque/{name}/{path}",
    "/hosted": "{region}.example.org/hosted",
    "/SECRET": UNMATCHED_LABEL,
    "/": UNMATCHED_LABEL,
}
FASTAPI_LABELS = {
    "/v1/items/SECRET": "/v1/items/{item}",
    "/v2/items/SECRET": "/v2/items/{item}",
    "/outer/nested/items/SECRET": "/outer/nested/items/{item}",
    "/outer/raw/SECRET": "/outer/raw/{value}",
    "/tenants/SECRET/items/SECRET": "/tenants/{tenant}/items/{item}",
    "/tenants/SECRET/direct/SECRET": "/tenants/{tenant}/direct/{value}",
    "/tenants/SECRET/raw/SECRET": "/tenants/{tenant}/raw/{value}",
    "/tenants/SECRET/nowhere": UNMATCHED_LABEL,
    "/again/direct/SECRET": "/again/direct/{value}",
    "/starlette/deep/SECRET/SECRET/items/5": "/starlette/deep/{a}/{b}/items/{item}",
    "/starlette/static/conftest.py": "/starlette/static/{path}",
    "/docs": "/docs",
    "/nowhere/SECRET": UNMATCHED_LABEL,
}


@pytest.mark.parametrize(("path", "label"), STARLETTE_LABELS.items())
def test_starlette_route_is_labelled_with_its_template(path: str, label: str) -> None:
    """Mounts, hosts and files have templates too; what matched nothing is one label."""
    assert route_of(routed(starlette(), path)) == label


@pytest.mark.parametrize(("path", "label"), FASTAPI_LABELS.items())
def test_fastapi_route_is_labelled_with_its_template(path: str, label: str) -> None:
    """Included routers and applications in applications show their whole way."""
    assert route_of(routed(fastapi(), path)) == label


@pytest.mark.parametrize(("path", "label"), STARLETTE_LABELS.items())
def test_scope_without_a_route_is_labelled_by_its_endpoint(path: str, label: str) -> None:
    """Starlette before 1.0 leaves the endpoint alone."""
    scope = routed(starlette(), path)
    scope.pop("route", None)
    assert route_of(scope) == label


def test_labels_are_the_same_from_the_cache() -> None:
    """The order in which routes are seen, and how often, changes no label."""
    labels = RouteLabels()
    apps = [(starlette(), STARLETTE_LABELS), (fastapi(), FASTAPI_LABELS)]
    for _ in range(3):
        for app, expected in apps:
            assert {path: labels.label(routed(app, path)) for path in expected} == expected


def test_mount_of_an_included_router_is_labelled_with_its_template() -> None:
    """FastAPI passes mounts on to whom they are included in, since it knows routers as they are."""
    router, app = APIRouter(), FastAPI()
    router.mount("/mounted/{name}", starlette())
    app.include_router(router, prefix="/outer")
    scope = routed(app, "/outer/mounted/SECRET/plain/SECRET")
    if "endpoint" not in scope:
        pytest.skip("this FastAPI includes no mounts")
    assert route_of(scope) == "/outer/mounted/{name}/plain/{value}"


def test_method_that_a_route_refuses_has_the_label_of_the_route() -> None:
    """A 405 belongs to its route."""
    scope = routed(starlette(), "/plain/x", method="POST", headers=[])
    assert route_of(scope) == "/plain/{value}"


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("/prefix/tenants/SECRET/direct/x", "/tenants/{tenant}/direct/{value}"),
        ("/prefix/again/direct/x", "/again/direct/{value}"),
        ("/prefix/v1/items/x", "/v1/items/{item}"),
        ("/v1/items/x", "/v1/items/{item}"),  # the proxy has stripped it
    ],
)
def test_path_of_a_proxy_is_no_part_of_a_label(path: str, label: str) -> None:
    """``root_path`` is left out, whether it is in the path or not."""
    assert route_of(routed(fastapi(), path, root_path="/prefix")) == label


def test_litestar_route_is_labelled_with_its_template() -> None:
    """Also where the application is mounted; of its own mounts Litestar keeps no template."""

    @litestar.get("/items/{item:str}")
    async def items() -> str:
        return ""

    @litestar.asgi("/mount", is_mount=True, copy_scope=False)
    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        await opaque(scope, receive, send)

    router = litestar.Router("/under/{name:str}", route_handlers=[items])
    app: Any = litestar.Litestar([items, router, mounted], logging_config=None)
    outer = FastAPI()
    outer.mount("/litestar/{tenant}", app)
    labels = RouteLabels()
    for _ in range(2):
        for service, path, label in (
            (app, "/items/SECRET", "/items/{item}"),
            (app, "/under/SECRET/items/SECRET", "/under/{name}/items/{item}"),
            (app, "/mount/SECRET", "(mount)/{path}"),
            (app, "/SECRET", UNMATCHED_LABEL),
            (outer, "/litestar/SECRET/items/SECRET", "/litestar/{tenant}/items/{item}"),
        ):
            assert labels.label(routed(service, path)) == label


def test_mount_that_cannot_be_found_hides_its_path() -> None:
    """Where a function stands between two applications, its mount's path is no label."""
    inner = Starlette(routes=[Route("/items/{item}", answer)])

    async def hiding(scope: Scope, receive: Receive, send: Send) -> None:
        await inner(scope, receive, send)

    app = Starlette(routes=[Mount("/tenants/{tenant}", app=hiding)])
    scope = routed(app, "/tenants/SECRET/items/SECRET")
    # Starlette before 1.0 leaves no route.
    assert route_of(scope) == ("(mount)/items/{item}" if "route" in scope else UNMATCHED_LABEL)


def test_router_that_is_mounted_in_itself_is_walked_once() -> None:
    """A cycle in the tree of routes is not followed."""
    router = Router(routes=[Route("/items/{item}", answer)])
    router.mount("/again", router)
    assert route_of(routed(router, "/items/1")) == "/items/{item}"
    assert route_of(routed(router, "/again/items/1")) == "/items/{item}"


def test_files_of_a_frontend_are_one_label(tmp_path: Path) -> None:
    """What FastAPI serves beside its routes has no route, but a declared path."""
    app = FastAPI()
    if not hasattr(app, "frontend"):
        pytest.skip("this FastAPI serves no frontend")
    (tmp_path / "SECRET.html").write_text("")
    app.frontend("/site", directory=tmp_path)
    assert route_of(routed(app, "/site/SECRET.html")) == "/site/{path}"


def test_routes_beyond_the_limit_share_a_label() -> None:
    """The first routes keep their labels."""
    app = Starlette(routes=[Route(f"/r{number}/{{x}}", answer) for number in range(6)])
    labels = RouteLabels(limit=3)
    seen = [labels.label(routed(app, f"/r{number}/1")) for number in [0, 1, 2, 3, 4, 5, 0]]
    assert seen == ["/r0/{x}", "/r1/{x}", "/r2/{x}", *[OTHER_LABEL] * 3, "/r0/{x}"]
    assert labels.label(routed(app, "/nowhere")) == UNMATCHED_LABEL


def test_routes_made_for_each_request_are_not_kept_for_ever() -> None:
    """An application that is built anew for each request costs no memory."""
    labels = RouteLabels()
    endpoints = [object() for _ in range(5000)]
    for endpoint in endpoints:
        labels.label({"type": "http", "path": "/", "endpoint": endpoint})
    assert len(labels._known) == len(labels._kept) <= 2000


def test_error_of_a_resolver_is_counted() -> None:
    """What a user's resolver raises, or gives in place of a text, has the label of no route."""
    health = Health()

    def resolver(scope: Scope) -> Any:
        if scope["path"] == "/raise":
            raise LookupError("on purpose")
        return {"/none": None, "/number": 5, "/named": "a name"}[scope["path"]]

    labels = RouteLabels(resolver, health=health)
    seen = [labels.label({"path": path}) for path in ("/raise", "/none", "/number", "/named")]
    assert seen == [UNMATCHED_LABEL, UNMATCHED_LABEL, UNMATCHED_LABEL, "a name"]
    assert health.errors == 2


@pytest.mark.parametrize(
    "scope",
    [
        {},
        {"endpoint": 1},
        {"endpoint": 1, "route": 2, "router": 3, "path": "/"},
        {"endpoint": answer, "route": answer, "root_path": None},
        {"fastapi": 5},
        {"path_template": 7},
        {"path_template": "/items/{item}"},
        {"endpoint": 1, "router": type("Odd", (), {"routes": [None, 1, object()]})()},
    ],
)
def test_scope_of_no_known_framework_is_no_error_of_the_service(scope: Scope) -> None:
    """Whatever frameworks leave there, a label comes out."""
    assert RouteLabels(health=Health()).label(scope) in {UNMATCHED_LABEL, "7", "/items/{item}"}


@given(st.text(max_size=400))
def test_label_fits_into_a_line(name: str) -> None:
    """Labels are bounded, printable and can be encoded, whatever a resolver says."""
    label = RouteLabels(lambda _scope: name).label({})
    assert label.isprintable()
    assert 0 < len(label) <= 200
    label.encode()


SEGMENT = st.text(
    st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=8
)


@given(st.lists(st.tuples(SEGMENT, SEGMENT), min_size=1, max_size=5))
def test_labels_hold_no_value_of_a_path(values: list[tuple[str, str]]) -> None:
    """However many tenants and items there are, their route has one label."""
    labels, app = RouteLabels(), FASTAPI
    for tenant, item in values:
        label = labels.label(routed(app, f"/tenants/{tenant}/direct/{item}"))
        # Starlette matches no line end at the end of a path.
        assert label in {"/tenants/{tenant}/direct/{value}", UNMATCHED_LABEL}


FASTAPI = fastapi()
