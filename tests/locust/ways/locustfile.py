"""A user class for each way in which people write locustfiles, with either client.

``ways.py`` says what is to be seen of each.
"""

from __future__ import annotations

import io
import ssl
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import gevent
import gevent.pool
import gevent.ssl
import urllib3
from geventhttpclient.client import HTTPClientPool
from locust import SequentialTaskSet, TaskSet, events, task
from requests.adapters import HTTPAdapter
from tests.locust.ways.peers import HOSTILE
from tests.locust.ways.places import ODD, PLACES, REFUSED, TLS, Go, make
from tests.locust.ways.service import UPLOAD
from urllib3.util import Retry

PROXY = PLACES["proxy"]
FAST_PROXY = {"proxy_host": "127.0.0.1", "proxy_port": PROXY}
BODY = b"x" * UPLOAD


def way(
    name: str, clients: tuple[str, ...] = ("Http", "Fast"), **attributes: Any
) -> Callable[[Go], Go]:
    """Make a user class for each client whose users make the requests of a function."""

    def made(go: Go) -> Go:
        for client in clients:
            user_class = make(name, client, go, attributes)
            globals()[user_class.__name__] = user_class
        return go

    return made


def http(name: str, **attributes: Any) -> Callable[[Go], Go]:
    """A way of HttpUser alone."""
    return way(name, ("Http",), **attributes)


def fast(name: str, **attributes: Any) -> Callable[[Go], Go]:
    """A way of FastHttpUser alone."""
    return way(name, ("Fast",), **attributes)


# -- The usual ------------------------------------------------------------------------------------


@way("Plain")
@way("Localhost", host=f"http://localhost:{PLACES['plain']}")
@fast("Insecure", host=TLS)
@fast("Proxied", **FAST_PROXY)
@fast("Tunnelled", host=TLS, **FAST_PROXY)
def get_item(user: Any) -> None:
    """As most requests are made."""
    user.client.get("/item", name=user.name)


if "nginx" in PLACES:
    way("Gateway", host=f"http://127.0.0.1:{PLACES['nginx']}")(get_item)
if "ipv6" in PLACES:
    way("Six", host=f"http://[::1]:{PLACES['ipv6']}")(get_item)
way("RefiredByListener")(get_item)


@way("Methods")
def _methods(user: Any) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        user.client.request(method, "/item", name=user.name, json={"a": 1})


@way("Renamed")
def _renamed(user: Any) -> None:
    with user.client.rename_request(user.name):
        user.client.get(f"/item?id={user.left}")


@way("Failing")
def _failing(user: Any) -> None:
    user.client.get("/failing", name=user.name)


@way("Caught")
def _caught(user: Any) -> None:
    with user.client.get("/item", name=user.name, catch_response=True) as response:
        user.client.get("/item", name=user.name)
        gevent.sleep(0.01)
        response.failure("not what was expected")


@fast("Rest")
def _rest(user: Any) -> None:
    with user.rest("GET", "/item", name=user.name) as response:
        response.success()


@way("OwnTrace")
def _own_trace(user: Any) -> None:
    own = uuid4().int
    headers = {"traceparent": f"00-{own:032x}-{own & 0xFFFFFFFFFFFFFFFF:016x}-01"}
    user.client.get("/item", name=user.name, headers=headers)


# -- Several exchanges ----------------------------------------------------------------------------


@way("Redirected")
def _redirected(user: Any) -> None:
    user.client.get("/moved/2", name=user.name)


@way("RedirectedPost")
def _redirected_post(user: Any) -> None:
    user.client.post("/moved/1?code=307", name=user.name, data="x" * 2000)


@way("NotRedirected")
def _not_redirected(user: Any) -> None:
    user.client.get("/moved/1", name=user.name, allow_redirects=False)


@way("RedirectedAway")
def _redirected_away(user: Any) -> None:
    user.client.get(f"/moved-to?url={ODD}/bare", name=user.name)


@way("RedirectedNowhere")
def _redirected_nowhere(user: Any) -> None:
    user.client.get(f"/moved-to?url={REFUSED}/", name=user.name)


@fast("SilentlyRetried")
def _silently_retried(user: Any) -> None:
    user.client.get(f"/flaky/{uuid4()}", name=user.name)


@http("Retried")
def _retried(user: Any) -> None:
    retry = Retry(total=2, status_forcelist=[503], backoff_factor=0)
    user.client.mount("http://", HTTPAdapter(max_retries=retry))
    user.client.get(f"/busy/{uuid4()}", name=user.name)


@fast("RetriedTimeout", network_timeout=0.15, max_retries=1)
def _retried_timeout(user: Any) -> None:
    user.client.get("/hang", name=user.name)


# -- Greenlets, task sets and pools ---------------------------------------------------------------


@way("Spawned", concurrency=2)
def _spawned(user: Any) -> None:
    gevent.joinall([gevent.spawn(get_item, user) for _ in range(3)], raise_error=True)
    pool = gevent.pool.Pool(3)
    for _ in range(4):
        pool.spawn(get_item, user)
    pool.join()


class Steps(SequentialTaskSet):
    """A nested task set, and a step after it."""

    @task
    class Inner(TaskSet):
        """Left after its first task."""

        @task
        def nested(self) -> None:
            """Of the inner task set."""
            get_item(self.user)
            self.interrupt()  # type: ignore[no-untyped-call]

    @task
    def last(self) -> None:
        """Of the outer one."""
        get_item(self.user)
        user: Any = self.user
        user.left -= 1
        if not user.left:
            user.finish()


way("TaskSets")(get_item)
for _made in ("TaskSetsHttp", "TaskSetsFast"):
    globals()[_made].tasks = [Steps]

http("SharedPool", fixed_count=2, pool_manager=urllib3.PoolManager(maxsize=1, block=True))(get_item)
fast("SharedPool", fixed_count=2, client_pool=HTTPClientPool(concurrency=1))(get_item)


@http("Signed")
def _signed(user: Any) -> None:
    def sign(request: Any) -> Any:
        get_item(user)
        return request

    user.client.get("/item", name=user.name, auth=sign)


# -- Bodies ---------------------------------------------------------------------------------------


@way("Streamed")
def _streamed(user: Any) -> None:
    response = user.client.get("/drip", name=user.name, stream=True)
    pieces = [
        piece if isinstance(piece, str) else piece.decode() for piece in response.iter_content(7)
    ]
    assert "".join(pieces) == "drop\n" * 4


@fast("Lines")
def _lines(user: Any) -> None:
    assert list(user.client.iter_lines("/drip", name=user.name)) == ["drop"] * 4


@way("Chunked")
def _chunked(user: Any) -> None:
    assert user.client.get("/drip", name=user.name).content == b"drop\n" * 4


@way("Compressed")
def _compressed(user: Any) -> None:
    assert user.client.get("/zipped", name=user.name).content == b"item " * 5000


@way("Download")
def _download(user: Any) -> None:
    user.client.get("/download", name=user.name)


@way("Upload")
@fast("UploadTls", host=TLS)
def _upload(user: Any) -> None:
    assert user.client.post("/upload", name=user.name, data=BODY).text == str(UPLOAD)


@http("UploadFile")
def _upload_file(user: Any) -> None:
    answer = user.client.post("/upload", name=user.name, data=io.BytesIO(BODY))
    assert answer.text == str(UPLOAD)


@http("UploadChunks")
def _upload_chunks(user: Any) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(20):
            yield BODY[: UPLOAD // 20]

    assert user.client.post("/upload", name=user.name, data=pieces()).text == str(UPLOAD)


@fast("Expect")
def _expect(user: Any) -> None:
    headers = {"Expect": "100-continue"}
    answer = user.client.post("/upload", name=user.name, data=b"x" * 5000, headers=headers)
    assert answer.text == "5000"


@way("RefusedUpload")
def _refused_upload(user: Any) -> None:
    user.client.post("/early", name=user.name, data=BODY)


@way("UntilClosed", host=ODD)
def _until_closed(user: Any) -> None:
    assert user.client.get("/until-closed", name=user.name).content == b"ok"


# -- Connections ----------------------------------------------------------------------------------


@way("Closing")
def _closing(user: Any) -> None:
    user.client.get("/item", name=user.name, headers={"Connection": "close"})


@http("Insecure", host=TLS)
def _insecure(user: Any) -> None:
    user.client.get("/item", name=user.name, verify=False)


@http("Certified", host=TLS)
def _certified(user: Any) -> None:
    files = PLACES["certificate"], PLACES["key"]
    assert user.client.get("/who", name=user.name, verify=PLACES["authority"], cert=files).ok


def _with_certificate(**_: Any) -> Any:
    context = gevent.ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(PLACES["authority"])
    context.load_cert_chain(PLACES["certificate"], PLACES["key"])
    return context


@fast("Certified", host=TLS, insecure=False, ssl_context_factory=staticmethod(_with_certificate))
def _certified_fast(user: Any) -> None:
    assert user.client.get("/who", name=user.name).ok


@http("Proxied")
def _proxied(user: Any) -> None:
    user.client.get("/item", name=user.name, proxies={"http": f"http://127.0.0.1:{PROXY}"})


@http("Tunnelled", host=TLS)
def _tunnelled(user: Any) -> None:
    proxies = {"https": f"http://127.0.0.1:{PROXY}"}
    user.client.get("/item", name=user.name, proxies=proxies, verify=False)


# -- Without an answer, or half of one ------------------------------------------------------------


@http("TimedOut")
def _timed_out(user: Any) -> None:
    user.client.get("/hang", name=user.name, timeout=(60, 0.2))


@fast("TimedOut", network_timeout=0.2)
def _timed_out_fast(user: Any) -> None:
    user.client.get("/hang", name=user.name)


@http("Stalled")
def _stalled(user: Any) -> None:
    user.client.get("/stall", name=user.name, timeout=(60, 1.5))


@fast("Stalled", network_timeout=1.5)
def _stalled_fast(user: Any) -> None:
    user.client.get("/stall", name=user.name)


@way("Refused", host=REFUSED)
def _refused(user: Any) -> None:
    user.client.get("/", name=user.name)


# -- Odd answers ----------------------------------------------------------------------------------


@http("Interim", host=ODD, status=100)  # the only one that requests passes over
@fast("Interim", host=ODD, status=103)
def _interim(user: Any) -> None:
    for place in ("with", "before"):
        user.client.get(f"/interim-{place}/{user.status}", name=user.name)


@way("Trickled", host=ODD)
def _trickled(user: Any) -> None:
    user.client.get("/trickle", name=user.name)


@way("SeveralStamps", host=ODD)
def _several_stamps(user: Any) -> None:
    user.client.get("/several", name=user.name)


@way("Hostile", host=ODD)
def _hostile(user: Any) -> None:
    for number in range(len(HOSTILE)):
        user.client.get(f"/hostile/{number}", name=user.name)
    user.client.get("/garbage", name=user.name)


# -- Events of one's own --------------------------------------------------------------------------


@way("OwnClient", ("",))
def _own_client(user: Any) -> None:
    with user.environment.events.request.measure("SQL", user.name):
        gevent.sleep(0.01)


@way("Refired")
def _refired(user: Any) -> None:
    with user.client.get("/item", name=user.name, catch_response=True) as response:
        user.environment.events.request.fire(
            request_type="CHECK",
            name=f"{user.name} (own)",
            response_time=1.5,
            response_length=0,
            response=response,
            exception=None,
        )


def _fire_again(name: Any, response: Any = None, **event: Any) -> None:
    if name in {"RefiredByListenerHttp", "RefiredByListenerFast"}:
        event["request_type"] = "CHECK"
        request_event: Any = events.request
        request_event.fire(name=f"{name} (own)", response=response, **event)


events.request.add_listener(_fire_again)  # type: ignore[no-untyped-call]
