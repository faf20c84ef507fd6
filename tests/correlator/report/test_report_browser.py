"""The page in a real browser: its script runs, hostile names stay text, nothing is requested."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trilat.correlator.report.html import render

BROWSER = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")

Open = Callable[[str], str]


@pytest.fixture
def browse(tmp_path: Path) -> Open:
    """Opens a page from its file and gives the document as it is after its scripts ran."""

    def browse(page: str) -> str:
        assert BROWSER is not None
        file = tmp_path / "report.html"
        file.write_text(page, encoding="utf-8")
        done = subprocess.run(
            [
                BROWSER,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                f"--user-data-dir={tmp_path / 'profile'}",
                "--virtual-time-budget=5000",
                "--dump-dom",
                file.as_uri(),
            ],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=True,
        )
        return done.stdout

    return browse


@pytest.fixture
def listener() -> Iterator[tuple[str, list[str]]]:
    """A server; its address, and the first line of what came on each connection to it."""
    heard: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(5)
                    heard.append(connection.recv(1000).decode("latin-1").partition("\r\n")[0])
                    connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        host, port = server.getsockname()
        yield f"http://{host}:{port}", heard
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def root(document: str) -> str:
    """The start tag of the document's root, where the page's script leaves its state."""
    found = re.search(r"<html[^>]*>", document)
    assert found is not None
    return found[0]


def test_the_chart_is_drawn(result: dict[str, Any], browse: Open) -> None:
    """The script runs to its end, sizes the canvas, and shows one endpoint's tables."""
    document = browse(render(result))
    assert 'data-ready="true"' in root(document)
    assert "data-error" not in root(document)
    canvas = re.search(r'<canvas[^>]*width="(\d+)"', document)
    assert canvas is not None
    assert int(canvas[1]) > 300
    hidden = re.findall(r"<article[^>]*hidden[^>]*>", document)
    assert len(hidden) == len(result["endpoints"])


def test_the_charts_over_time_are_drawn(sampled: dict[str, Any], browse: Open) -> None:
    """Each canvas is sized by the library, and nothing fails in the page."""
    document = browse(render(sampled))
    assert 'data-ready="true"' in root(document)
    assert "data-error" not in root(document)
    canvases = re.findall(r"<canvas[^>]*data-time[^>]*>", document)
    assert len(canvases) >= 4
    assert all(re.search(r'width="[1-9]\d\d+"', canvas) for canvas in canvases)


def test_an_empty_result_is_shown(browse: Open) -> None:
    """A result without figures raises nothing in the page and hides the chart."""
    document = browse(render({}))
    assert 'data-ready="true"' in root(document)
    assert "data-error" not in root(document)
    assert re.search(r'<div class="chart needs-script"[^>]*hidden', document)


def test_hostile_names_stay_text(
    result: dict[str, Any], browse: Open, listener: tuple[str, list[str]]
) -> None:
    """Markup in names, reasons and facts of the run makes no element and no request."""
    address, heard = listener
    mark = "document.documentElement.dataset.owned=1"
    hostile = f"</script></select><img src={address}/x onerror={mark}><script>{mark}</script>"
    for entry in result["endpoints"]:
        entry["name"] = hostile
    result["verdict"]["reasons"] = [hostile]
    result["run"]["target_host"] = hostile
    document = browse(render(result))
    assert 'data-ready="true"' in root(document)
    assert "data-owned" not in root(document)
    assert "<img" not in re.sub(r"<script.*?</script>", "", document, flags=re.DOTALL)
    assert heard == []


def test_the_policy_stops_what_might_slip_through(
    result: dict[str, Any], browse: Open, listener: tuple[str, list[str]]
) -> None:
    """Even markup put into the page itself cannot run, load or ask for anything."""
    address, heard = listener
    mark = "document.documentElement.dataset.owned=1"
    injected = (
        f"<script>{mark}; fetch('{address}/fetch')</script>"
        f"<img src='{address}/image' onerror='{mark}'>"
        f"<link rel=stylesheet href='{address}/style'><iframe src='{address}/frame'></iframe>"
        f"<script src='{address}/script'></script>"
        f"<style>body {{ background: url({address}/background) }}</style></main>"
    )
    page = render(result).replace("</main>", injected)
    assert injected in page
    document = browse(page)
    assert 'data-ready="true"' in root(document)
    assert "data-owned" not in root(document)
    # The browser's look-ahead may open a connection, which no policy rules; it carries nothing.
    assert [line for line in heard if line] == []


def test_the_listener_would_have_heard(browse: Open, listener: tuple[str, list[str]]) -> None:
    """Without the policy the same image is asked for: the silence above means something."""
    address, heard = listener
    browse(f"<!doctype html><img src='{address}/image'>")
    assert "GET /image HTTP/1.1" in heard
