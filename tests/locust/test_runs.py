"""Real runs: what Locust measured, cut into parts, judged and written down."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme

from trilat.agent.layout import MarkFlag
from trilat.agent.records import Component, Grade

from ..conftest import Service, StartService
from .conftest import Run, RunLocust

USERS = """
class Shopper({client}):
    host = "{url}"
    wait_time = {wait_time}

    @task
    def item(self):
        self.client.get("/item/1", name="/item/[id]")
"""
FEW = ("-u", "5", "-r", "5", "-t", "2s")


@pytest.fixture(scope="module")
def odd_service(start_service: StartService) -> Iterator[Service]:
    """A service that does what well-behaved ones do not."""
    with start_service(Path(__file__).with_name("odd_service.py")) as service:
        yield service


def users(client: str, url: str, wait_time: str = "constant(0.08)") -> str:
    """A user class that asks for an item about ten times a second, without a rate to reach."""
    return USERS.format(client=client, url=url, wait_time=wait_time)


def assert_everything_adds_up(run: Run) -> None:
    """R is Locust's own, and for every request the parts add up to it exactly."""
    cut = run.attributed
    theirs = sorted(round(ms * 1e6) for _, _, ms, _ in run.seen)
    assert sorted(cut.response_ns.tolist()) == theirs
    assert (cut.components_ns >= 0).all()
    assert (cut.unattributed_ns >= 0).all()
    total = cut.components_ns.sum(axis=1) + cut.unattributed_ns
    np.testing.assert_array_equal(total, cut.response_ns)


@pytest.mark.parametrize("client", ["HttpUser", "FastHttpUser"])
def test_a_run_passes_and_every_request_adds_up(
    run_locust: RunLocust, example_service: Service, client: str
) -> None:
    """All requests are matched, their parts add up to Locust's own R, and the verdict is a pass."""
    run = run_locust(users(client, example_service.url), *FEW, "--trilat-slo", "p95<=5s")
    assert run.code == 0, run.output
    assert_everything_adds_up(run)
    cut, result = run.attributed, run.result
    assert cut.matched.all()
    assert not cut.unattributed_ns.any()
    assert cut.components_ns[:, Component.SERVICE_APP].min() >= 19_000_000  # a timer may be early
    assert result["verdict"]["outcome"] == "pass"
    assert result["total"]["requests"] == result["total"]["matched"] == len(run.seen)
    assert result["total"]["components_ms"]["generator.read"]["grade"] == "measured"
    assert result["endpoints"][0]["name"] == "/item/[id]"
    assert (run.directory / "report.html").stat().st_size > 10_000
    assert "trilat" in run.output


def test_the_conditions_of_a_run_are_recorded(
    run_locust: RunLocust, example_service: Service
) -> None:
    """Versions, user classes, wait times, rate and CPU stand in the result; the token does not."""
    paced = users("HttpUser", example_service.url, "constant_throughput(10)")
    run = run_locust(paced, *FEW, "--trilat-token", "hush-hush-hush")
    told = run.result["run"]
    assert told["locust"].startswith("2.")
    shopper = told["user_classes"][0]
    assert shopper["name"] == "Shopper"
    assert shopper["client"] == "HttpUser"
    assert shopper["wait_time"] == "constant_throughput(10)"
    assert told["users"] == shopper["count"] == 5
    assert told["target_rate_source"] == "wait_time"
    assert 30 < told["target_rate_per_s"] <= 60
    assert told["generator_cpu_percent"]["max"] > 0
    assert told["kernel_stamps"] is True
    assert told["same_host"] is True
    for file in run.directory.rglob("*"):
        assert not file.is_file() or b"hush-hush" not in file.read_bytes()


def test_over_tls(run_locust: RunLocust, start_service: StartService, tmp_path: Path) -> None:
    """Both clients over HTTPS: matched, measured, and the handshake is the network's."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    key, chain = tmp_path / "key.pem", tmp_path / "chain.pem"
    certificate.private_key_pem.write_to_path(str(key))
    certificate.cert_chain_pems[0].write_to_path(str(chain))
    app = Path(__file__).parents[2] / "examples/fastapi/service.py"
    with start_service(app, "--ssl-keyfile", str(key), "--ssl-certfile", str(chain)) as service:
        both = users("FastHttpUser", service.url) + users("HttpUser", service.url).replace(
            "Shopper", "Other"
        )
        both += "\n    def on_start(self):\n        self.client.verify = False\n"
        run = run_locust(both, *FEW, environment={"PYTHONWARNINGS": "ignore"})
    assert run.code == 0, run.output
    assert_everything_adds_up(run)
    rows = run.rows
    assert run.attributed.matched.all()
    assert (rows["flags"] & MarkFlag.TLS).all()
    assert (rows["last_lay_ns"] >= 0).all()
    connects = rows["connect_ns"][rows["flags"] & MarkFlag.CONNECTED != 0]
    # Of some all that came had lain there before the client came for it.
    assert connects.min() > 0
    assert connects.max() > 100_000


def test_a_body_that_takes_its_time_is_the_services(
    run_locust: RunLocust, odd_service: Service
) -> None:
    """What comes after the first byte of an answer goes to service.body, as bounded."""
    run = run_locust(users("HttpUser", odd_service.url).replace("/item/1", "/drip"), *FEW)
    assert_everything_adds_up(run)
    cut = run.attributed
    # Not of each request: a generator that comes late for the first byte finds more than that one.
    assert np.median(cut.components_ns[:, Component.SERVICE_BODY]) >= 25_000_000
    assert (cut.grades[:, Component.SERVICE_BODY] == Grade.BOUNDED).all()


def test_without_kernel_stamps_reads_are_estimates(
    run_locust: RunLocust, example_service: Service
) -> None:
    """As on macOS and Windows: everything still adds up, and the grade says what it is worth."""
    run = run_locust(users("FastHttpUser", example_service.url), *FEW, "--trilat-no-kernel-stamps")
    assert_everything_adds_up(run)
    assert (run.rows["last_lay_ns"] == -1).all()
    assert (run.rows["hub_lag_ns"] >= 0).all()
    assert run.result["total"]["components_ms"]["generator.read"]["grade"] == "estimated"
    assert run.result["run"]["kernel_stamps"] is False


def test_a_refused_connection_fails_by_errors(run_locust: RunLocust) -> None:
    """Nothing listens: code 1, and the time of the attempts is unattributed."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        run = run_locust(users("HttpUser", url), *FEW)
    assert run.code == 1, run.output
    verdict = run.result["verdict"]
    assert (verdict["outcome"], verdict["cause"]) == ("fail", "errors")
    assert_everything_adds_up(run)
    assert run.attributed.failed.all()
    assert run.attributed.unattributed_ns.min() > 0


def test_a_service_without_the_middleware_gives_no_evidence(
    run_locust: RunLocust, odd_service: Service
) -> None:
    """Code 5; the generator's own part is known all the same."""
    run = run_locust(users("FastHttpUser", odd_service.url).replace("/item/1", "/bare"), *FEW)
    assert run.code == 5, run.output
    verdict = run.result["verdict"]
    assert (verdict["outcome"], verdict["cause"]) == ("invalid", "evidence")
    assert_everything_adds_up(run)
    assert run.attributed.components_ns[:, Component.GENERATOR_SEND].min() > 0


def test_hostile_answers_are_counted_and_change_nothing(
    run_locust: RunLocust, odd_service: Service
) -> None:
    """A stamp for another request, or garbage in its place, is no evidence and no error."""
    run = run_locust(users("FastHttpUser", odd_service.url).replace("/item/1", "/hostile"), *FEW)
    assert run.code == 5, run.output
    assert not run.attributed.matched.any()
    assert run.result["run"]["lost"]["foreign_stamps"] > 0
    assert run.result["run"]["lost"]["errors_inside"] == 0
    assert not any(failed for *_, failed in run.seen)


def test_a_client_of_ones_own_is_recorded_without_marks(
    run_locust: RunLocust, example_service: Service
) -> None:
    """A locustfile that fires the event itself: nothing is known of its response times."""
    own = f"""
    class Own(User):
        host = "{example_service.url}"
        wait_time = constant(0.1)

        @task
        def thing(self):
            with self.environment.events.request.measure("SQL", "select"):
                pass
    """
    run = run_locust(own, *FEW)
    assert run.code == 5, run.output
    assert_everything_adds_up(run)
    assert (run.rows["flags"] & MarkFlag.UNMARKED).all()
    assert run.result["run"]["lost"]["unmarked"] == len(run.seen)


def test_catch_response_with_a_request_inside_the_block(
    run_locust: RunLocust, example_service: Service
) -> None:
    """The outer request's timeline is its own, however late its event fires."""
    nested = f"""
    class Nested(FastHttpUser):
        host = "{example_service.url}"
        wait_time = constant(0.1)

        @task
        def outer(self):
            with self.client.get("/item/1", name="outer", catch_response=True) as response:
                self.client.get("/health", name="inner")
                response.success()
    """
    run = run_locust(nested, *FEW)
    assert run.code == 0, run.output
    assert_everything_adds_up(run)
    assert run.attributed.matched.all()
    named = {entry["name"]: entry for entry in run.result["endpoints"]}
    assert named["outer"]["requests"] == named["inner"]["requests"]
    assert named["outer"]["components_ms"]["service.app"]["p50"] >= 19
    assert named["inner"]["components_ms"]["service.app"]["p50"] < 19


def test_a_request_inside_a_request_keeps_both_timelines(
    run_locust: RunLocust, example_service: Service
) -> None:
    """An auth callable that fetches a token takes nothing from the request it is for."""
    with_auth = f"""
    class Careful(HttpUser):
        host = "{example_service.url}"
        wait_time = constant(0.1)

        def sign(self, request):
            self.client.get("/health", name="token")
            return request

        @task
        def item(self):
            self.client.get("/item/1", name="item", auth=self.sign)
    """
    run = run_locust(with_auth, *FEW)
    assert run.code == 0, run.output
    assert_everything_adds_up(run)
    assert run.attributed.matched.all()


def test_a_user_without_a_pause_is_described(
    run_locust: RunLocust, example_service: Service
) -> None:
    """``constant_pacing(0)`` is no schedule, and no reason to lose the run."""
    run = run_locust(
        "from locust import constant_pacing\n"
        + users("HttpUser", example_service.url, "constant_pacing(0)"),
        *("-u", "1", "-t", "2s"),
    )
    assert run.code == 0, run.output
    assert run.result["run"]["user_classes"][0]["wait_time"] == "constant_pacing(0)"
    assert run.result["run"]["target_rate_per_s"] is None


@pytest.mark.alone
def test_a_rate_by_option_survives_reset_stats(
    run_locust: RunLocust, example_service: Service
) -> None:
    """Locust forgets what came before the reset; what was made since then counts."""
    paced = users("HttpUser", example_service.url, "constant_throughput(10)")
    run = run_locust(
        paced, *("-u", "4", "-r", "2", "-t", "5s"), *("--trilat-target-rate", "36", "--reset-stats")
    )
    assert run.result["run"]["reached_rate_per_s"] > 30
    assert run.result["run"]["target_rate_source"] == "option"


def test_an_error_inside_the_recorder_costs_no_request(
    run_locust: RunLocust, example_service: Service
) -> None:
    """Our own failure is counted and logged once; Locust's statistics are complete."""
    broken = users("HttpUser", example_service.url) + (
        "\nimport trilat.locust.recorder as recorder\n"
        "def broken(*_):\n    raise RuntimeError('injected')\n"
        "recorder.Recorder._write = broken\n"
    )
    run = run_locust(broken, *FEW)
    assert run.code == 5, run.output
    assert len(run.seen) > 20
    assert not any(failed for *_, failed in run.seen)
    assert run.output.count("injected") == 1
    assert run.result["run"]["lost"]["errors_inside"] == len(run.seen)


def test_ctrl_c_leaves_a_whole_run_directory(
    run_locust: RunLocust, example_service: Service
) -> None:
    """Interrupted, the run is judged by what it has, and holds every request that Locust saw."""
    run = run_locust(
        users("HttpUser", example_service.url), "-u", "5", "-r", "5", interrupt_after=60
    )
    assert run.code == 0, run.output
    assert run.result["total"]["requests"] == len(run.seen) >= 60
    assert_everything_adds_up(run)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--trilat-slo", "p95<50"), "--trilat-slo"),
        (("--trilat-slo", "speed<=50ms"), "--trilat-slo"),
        (("--trilat-target-rate", "0"), "--trilat-target-rate"),
    ],
)
def test_options_that_cannot_hold_stop_before_the_first_request(
    run_locust: RunLocust, example_service: Service, options: tuple[str, ...], said: str
) -> None:
    """Code 2 and one line; no request is made."""
    run = run_locust(users("HttpUser", example_service.url), *FEW, *options)
    assert run.code == 2
    assert said in run.output
    assert "Traceback" not in run.output
    assert run.seen == []


def test_a_run_directory_that_is_not_empty_is_refused(
    run_locust: RunLocust, example_service: Service, tmp_path: Path
) -> None:
    """Code 2 and one line; what is there stays."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("keep")
    run = run_locust(users("HttpUser", example_service.url), *FEW)
    assert run.code == 2, run.output
    assert [line for line in run.output.splitlines() if line.startswith("trilat: error: ")]
    assert "Traceback" not in run.output
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious"]
    assert run.seen == []


def test_two_processes_add_up_to_one_result(
    run_locust: RunLocust, example_service: Service
) -> None:
    """With ``--processes 2`` the master's total is the sum over the workers' journals."""
    options = ("-u", "5", "-r", "5", "-t", "4s", "--processes", "2")
    run = run_locust(users("HttpUser", example_service.url), *options)
    assert run.code == 0, run.output
    result = run.result
    assert result["total"]["requests"] == len(run.seen) == len(run.rows)
    assert result["total"]["matched"] == len(run.seen)
    assert result["run"]["workers"] == result["run"]["processes"] == 2
    assert result["run"]["users"] == result["run"]["user_classes"][0]["count"] == 5
    assert result["run"]["run_mode"] == "master"
    assert result["run"]["same_host"] is True
    assert_everything_adds_up(run)


@pytest.mark.alone
def test_users_in_step_are_seen_though_the_cpu_is_idle(
    run_locust: RunLocust, example_service: Service
) -> None:
    """Users that fire in the same instant queue for their own process; a CPU gauge sees nothing."""
    in_step = users("HttpUser", example_service.url, "constant_throughput(1)")
    run = run_locust(in_step, "-u", "50", "-r", "50", "-t", "5s")
    shares: Any = run.result["total"]["shares"]["mean"]
    assert shares["generator"] > 0.2
    assert run.result["run"]["generator_cpu_percent"]["mean"] < 80
