"""The tab in Locust's web UI, in a real browser, while a real run goes on."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ...conftest import Service, StartService
from .conftest import Page, ServeLocust, WebLocust

HOSTILE = "<img src=/x onerror=document.documentElement.dataset.owned=1></script><script>"
USERS = """
import trilat.locust
from locust import FastHttpUser, constant_throughput, task

class Shopper(FastHttpUser):
    host = "{url}"
    wait_time = constant_throughput(10)

    @task(3)
    def item(self):
        self.client.get("/item/1", name="/item/[id]")

    @task
    def other(self):
        self.client.get("/item/2", name={other!r})
"""
JUDGED = {0, 3}  # a busy machine does not make the rate
# With this set to docs/images the picture of the documentation is taken: of a longer run, and
# without the name that only a test needs.
PICTURES = os.environ.get("TRILAT_PICTURES")
OTHER = "/item/[id]/price" if PICTURES else HOSTILE
PICTURE_BYTES_MAX = 200_000

# The page is in a frame in the tab.
INNER = "document.querySelector('trilat-attribution iframe').contentDocument"
ROOT = f"{INNER}.documentElement"
DRAWN = (
    f"{INNER}.defaultView.Chart.getChart({INNER}.getElementById('parts'))"
    ".data.datasets.map(each => each.label).join()"
)
TOGGLE_THEME = "[...document.querySelectorAll('header button')].at(-1).click()"
SECONDS = (
    f"{INNER}.defaultView.Chart.getChart({INNER}.getElementById('parts'))"
    ".data.datasets[0].data.at(-1).x"
)
STATE = f"{INNER}.querySelector('#facts dd').textContent"


def _users(service: Service) -> str:
    return USERS.format(url=service.url, other=OTHER)


@pytest.fixture
def collected(
    start_service: StartService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Service]:
    """A service whose samples can be asked for."""
    monkeypatch.setenv("TRILAT_COLLECT_TOKEN", "of-a-test")
    monkeypatch.setenv("A_JOURNAL", str(tmp_path / "journal"))
    with start_service(Path(__file__).with_name("collected_service.py")) as service:
        yield service


def _look_at_the_tab(page: Page, locust: WebLocust) -> None:
    locust.wait_for_a_run()  # before it there is Locust's form, without tabs
    page.open(f"{locust.url}?tab=trilat")
    page.wait_for(f"{ROOT}.dataset.ready === 'true'")
    page.wait_for(f"{DRAWN} === 'service,network,generator,unattributed'")


def _assert_nothing_is_wrong(page: Page, url: str) -> None:
    """No error, no script out of a name, and no address but Locust's own."""
    assert page.run(f"{ROOT}.dataset.error ?? null") is None
    assert page.run(f"{ROOT}.dataset.owned ?? document.documentElement.dataset.owned") is None
    assert page.complaints == []
    host = url.split("/")[2]
    assert {each.split("/")[2] for each in page.requested if each.startswith("http")} == {host}


def test_the_tab_shows_a_run_while_it_goes_on(
    page: Page, serve_locust: ServeLocust, collected: Service, tmp_path: Path
) -> None:
    """Charts and table live and by name, in both themes, and the run's end; a picture is taken."""
    options = ("--autostart", "-u", "10", "-r", "10", "--trilat-collect", f"{collected.url}/trilat")
    with serve_locust(_users(collected), *options) as locust:
        _look_at_the_tab(page, locust)
        first = page.wait_for(f"{INNER}.querySelector('#endpoints tr td:nth-child(3)').textContent")
        page.wait_for(
            f"{INNER}.querySelector('#endpoints tr td:nth-child(3)').textContent !== {first!r}"
        )
        names = page.run(
            f"[...{INNER}.querySelectorAll('#endpoints td:nth-child(2)')].map(td => td.textContent)"
        )
        assert names == ["/item/[id]", OTHER]
        page.wait_for(f"{INNER}.getElementById('cpus').textContent === 'generatorservice'")
        assert locust.live()["now"]["service"]["cpu_percent"] > 0
        page.run(f"{INNER}.querySelector('[data-statistic=p95]').click()")
        page.wait_for(f"{DRAWN} === 'service,network,generator,unattributed'")
        page.run(f"{INNER}.querySelector('[data-statistic=mean]').click()")
        assert page.run(f"{ROOT}.dataset.theme") == "light"
        page.run(TOGGLE_THEME)
        page.wait_for(f"{ROOT}.dataset.theme === 'dark'")
        page.run(TOGGLE_THEME)
        page.wait_for(f"{ROOT}.dataset.theme === 'light'")
        if PICTURES:
            page.wait_for(f"{SECONDS} > 45")
        picture = Path(PICTURES or tmp_path) / "web-tab.png"
        page.picture(picture, 1280, 1080)
        assert 10_000 < picture.stat().st_size < PICTURE_BYTES_MAX
        assert locust.post("stop") == 200
        page.wait_for(f"{STATE} === 'stopped'")
        _assert_nothing_is_wrong(page, locust.url)
    assert locust.code in JUDGED, locust.output


def _assert_there_is_no_run_yet(locust: WebLocust) -> None:
    """No figures; paths and questions that make no sense get no error of ours."""
    assert locust.live() == {"run": None}
    assert locust.get("trilat/attribution.csv")[0] == 404
    assert locust.get("trilat/page.html")[0] == 404
    assert locust.get("trilat/..%2f..%2fplugin.py")[0] == 404
    status, headers, _ = locust.get("trilat/")
    assert status == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_master_under_another_path(
    page: Page, serve_locust: ServeLocust, example_service: Service, tmp_path: Path
) -> None:
    """What workers report is shown; links, scripts and downloads follow ``--web-base-path``.

    At the end the files hold all that the workers made.
    """
    requests = tmp_path / "requests.jsonl"
    options = ["--processes", "2", "--csv", str(tmp_path / "shop")]
    options += ["--trilat-requests", str(requests)]
    with serve_locust(_users(example_service), *options, base="/load/here") as locust:
        _assert_there_is_no_run_yet(locust)
        assert locust.post("swarm", "user_count=10&spawn_rate=10") == 200
        _look_at_the_tab(page, locust)
        page.wait_for(f"{INNER}.querySelectorAll('#endpoints tr').length === 2")
        figures = locust.live()["now"]
        assert figures["users"] == 10
        assert figures["generator"]["cpu_percent"] > 0
        assert locust.get("trilat/live?of=x&known=-5&rows=%00")[0] == 200
        _assert_nothing_is_wrong(page, locust.url)
        page.open(f"{locust.url}?tab=reports")
        link = "document.querySelector('a[href=\"./trilat/attribution.csv\"]').href"
        assert page.wait_for(link) == f"{locust.url}trilat/attribution.csv"
        status, headers, body = locust.get("trilat/attribution.csv")
        assert status == 200
        assert headers["Content-Type"].startswith("text/csv")
        assert body.startswith(b"Type,Name,Request Count")
        assert len(body.splitlines()) == 4
        assert locust.get("trilat/attribution_history.csv")[2].startswith(b"Timestamp,User Count")
        assert locust.post("stop") == 200
    assert locust.code in JUDGED, locust.output
    made = json.loads((tmp_path / "run/result.json").read_text())["total"]["requests"]
    (*_, total) = csv.DictReader((tmp_path / "shop_attribution.csv").read_text().splitlines())
    assert int(total["Request Count"]) == made
    (*_, last) = csv.DictReader(
        (tmp_path / "shop_attribution_history.csv").read_text().splitlines()
    )
    assert int(last["Total Request Count"]) == made
    assert len(requests.read_text().splitlines()) == made


LOGIN = """
from flask_login import UserMixin, login_user
from locust import events

class Somebody(UserMixin):
    id = "somebody"

@events.init.add_listener
def _let_in(environment, **_):
    ui = environment.web_ui
    ui.app.config["SECRET_KEY"] = "only of a test"
    ui.login_manager.user_loader(lambda _: Somebody())
    ui.template_args["extended_tabs"] = [{"title": "Mine", "key": "mine"}]

    @ui.app.route("/let-me-in")
    def let_me_in():
        login_user(Somebody())
        return "come in"
"""


def test_behind_locust_s_login(serve_locust: ServeLocust, example_service: Service) -> None:
    """Whoever is not let in by Locust gets nothing; another's tab stays beside ours."""
    paths = ("", "live", "page.js", "page.css", "figures.js", "tab.js", "chart.js")
    with serve_locust(_users(example_service) + LOGIN, "--web-login") as locust:
        for path in (*paths, "attribution.csv", "attribution_history.csv"):
            status, headers, _ = locust.get(f"trilat/{path}")
            assert status == 302, path
            assert headers["Location"].startswith("/login")
        assert b"tab.js" not in locust.get("login")[2]
        cookie = locust.get("let-me-in")[1]["Set-Cookie"].partition(";")[0]
        for path in paths:
            assert locust.get(f"trilat/{path}", cookie)[0] == 200, path
        index = locust.get("", cookie)[2].decode()
        (tabs,) = re.findall(r'"extended_tabs": (\[.*?\])', index)
        assert [tab["key"] for tab in json.loads(tabs)] == ["mine", "trilat"]
        assert index.count('src="./trilat/tab.js"') == 1
