"""Locust with its web UI, and a headless Chromium that is told what to do and what it sees."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from ...servers import free_port

BROWSER = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_PATIENCE_S = 60.0
# A browser on a busy machine answers late, and one that is ended need not say goodbye.
_PATIENTLY: dict[str, Any] = {"ping_interval": None, "close_timeout": 0.5}


class Page:
    """One page of the browser, over the DevTools protocol.

    Attributes:
        complaints: errors, warnings and failed requests that its documents logged.
        requested: addresses that were asked for.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self.complaints: list[str] = []
        self.requested: list[str] = []
        self._socket = socket
        self._number = 0
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and give its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=_PATIENCE_S))
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self._hear(message)

    def open(self, url: str) -> None:
        """Go to an address."""
        self.send("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """Wait until an expression is true; its value."""
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            try:
                if found := self.run(f"(() => {{ try {{ return {script} }} catch {{}} }})()"):
                    return found
            except AssertionError:  # between two documents
                pass
            time.sleep(0.1)
        raise AssertionError(f"never true: {script}; {self.complaints}")

    def picture(self, path: Path, width: int, height: int) -> None:
        """Save what is seen as a PNG."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **metrics)
        time.sleep(1)  # charts are drawn anew for the new size
        shot = self.send("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    def _hear(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in {"error", "warning", "assert"}:
                self.complaints.append(json.dumps(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in {"error", "warning"}:
                self.complaints.append(json.dumps(params["entry"]))
            case "Network.requestWillBeSent":
                self.requested.append(params["request"]["url"])


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """An empty page."""
    if BROWSER is None:
        pytest.skip("no Chromium on this machine")
    profile = tmp_path / "profile"
    browser = subprocess.Popen(
        [BROWSER, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port = _port(profile / "DevToolsActivePort", browser)
        with connect(
            f"ws://127.0.0.1:{port[0]}{port[1]}", max_size=None, ping_interval=None
        ) as root:
            root.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
            while (message := json.loads(root.recv(timeout=_PATIENCE_S))).get("id") != 1:
                pass
        (target,) = (
            each["targetId"] for each in message["result"]["targetInfos"] if each["type"] == "page"
        )
        url = f"ws://127.0.0.1:{port[0]}/devtools/page/{target}"
        with connect(url, max_size=None, **_PATIENTLY) as socket:
            yield Page(socket)
    finally:
        browser.terminate()
        browser.wait(30)


def _port(file: Path, browser: subprocess.Popen[bytes]) -> list[str]:
    """Port and path of the browser, once it has written them down."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end and browser.poll() is None:
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) == 2:
            return lines
        time.sleep(0.1)
    raise AssertionError("the browser did not start")


@dataclass(slots=True)
class WebLocust:
    """A Locust process with its web UI.

    Attributes:
        url: of its index, with a slash at the end.
        code: its exit code; None while it runs.
        output: what it wrote; empty while it runs.
    """

    url: str
    code: int | None = None
    output: str = ""

    def get(self, path: str, cookie: str = "") -> tuple[int, dict[str, str], bytes]:
        """Get what is at a path under the index: status, header fields and body."""
        return self._ask("GET", path, {"Cookie": cookie} if cookie else {})

    def post(self, path: str, form: str = "") -> int:
        """Send a form to a path under the index; the answer's status."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._ask("POST", path, headers, form)[0]

    def _ask(
        self, method: str, path: str, headers: dict[str, str], body: str | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        host, _, base = self.url.removeprefix("http://").partition("/")
        connection = HTTPConnection(host, timeout=60)
        with closing(connection):
            connection.request(method, f"/{base}{path}", body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def live(self) -> Any:
        """What the page gets."""
        return json.loads(self.get("trilat/live")[2])

    def wait_for_a_run(self) -> None:
        """Wait until there are figures of one."""
        end = time.monotonic() + _PATIENCE_S
        while self.live()["run"] is None:
            assert time.monotonic() < end, "no run began"
            time.sleep(0.2)


ServeLocust = Callable[..., AbstractContextManager[WebLocust]]


@pytest.fixture
def serve_locust(tmp_path: Path) -> ServeLocust:
    """``serve_locust(source, *options, base="")``: Locust with a web UI, ended by SIGTERM."""

    @contextmanager
    def serve(source: str, *options: str, base: str = "") -> Iterator[WebLocust]:
        locustfile = tmp_path / "locustfile.py"
        locustfile.write_text(textwrap.dedent(source))
        port, workers_port = free_port(), free_port()
        log = tmp_path / "locust.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "locust", "-f", str(locustfile)),
                    *("--web-host", "127.0.0.1", "--web-port", str(port)),
                    *("--master-port", str(workers_port), "--master-bind-port", str(workers_port)),
                    *(("--web-base-path", base) if base else ()),
                    *("--trilat-out", str(tmp_path / "run")),
                    *options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        served = WebLocust(f"http://127.0.0.1:{port}{base}/")
        try:
            _wait_until_served(served, process, log)
            yield served
            process.terminate()  # an interrupt is ignored where a shell started us behind "&"
            served.code = process.wait(_PATIENCE_S)
            served.output = log.read_text()
        finally:
            process.kill()
            process.wait()

    return serve


def _wait_until_served(served: WebLocust, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        try:
            served.get("trilat/tab.js")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(log.read_text())
