"""Real runs whose locustfile is in its own way: the result says how, and which line it is."""

from __future__ import annotations

from typing import Any

import pytest

from trilat.agent.samples import read_samples, sample_files

from ..conftest import Service
from .conftest import RunLocust

USERS = """
import ctypes, gc, time
from locust.exception import StopUser
from urllib3 import PoolManager
from urllib3.exceptions import FullPoolError

TEXT = json.dumps([{{"number": number, "text": str(number)}} for number in range(60_000)])
keep_the_interpreter = ctypes.PyDLL(None).usleep
KEPT = []

def parse():
    json.loads(TEXT)

def keep():
    keep_the_interpreter(150_000)

class Parsing(FastHttpUser):
    host = "{url}"
    wait_time = constant(0.1)

    @task
    def answer(self):
        self.client.get("/item/1", name="/item/[id]")
        parse()

class Keeping(FastHttpUser):
    host = "{url}"
    wait_time = constant(0.3)

    @task
    def answer(self):
        self.client.get("/item/1", name="/item/[id]")
        keep()

class Sleeping(User):
    wait_time = constant(0.01)

    @task
    def rest(self):
        time.sleep(0.1)

class Sharing(HttpUser):
    host = "{url}"
    wait_time = constant(0.05)
    pool_manager = PoolManager(maxsize=1, block=True)
    fixed_count = 4

    @task
    def answer(self):
        try:
            self.client.get("/item/2", name="/item/[id]")
        except FullPoolError:  # what urllib3 makes of the end of a user that waits
            raise StopUser from None

class Collecting(User):
    wait_time = constant(0.2)

    @task
    def collect(self):
        KEPT[:] = [[number] for number in range(20_000)]
        gc.collect()
"""


def check_of(result: dict[str, Any], identity: str) -> dict[str, Any]:
    """One check of a result."""
    found: dict[str, Any] = next(each for each in result["checks"] if each["id"] == identity)
    return found


@pytest.mark.alone
def test_what_the_locustfile_does_to_its_own_figures_is_told(
    run_locust: RunLocust, example_service: Service
) -> None:
    """What parses, or keeps the interpreter, is named; a sleep that gives way is not."""
    users = USERS.format(url=example_service.url)
    run = run_locust(users, "-u", "8", "-r", "8", "-t", "5s", "--stop-timeout", "20")
    result = run.result
    told = result["generator"]
    named = {place["function"]: place for place in told["blocked"] if place["line"]}
    # On a machine that is busy enough either may go unseen, for want of a processor to look from.
    found = [named[function] for function in ("parse", "keep") if function in named]
    assert found, told["blocked"]
    assert "Sleeping.rest" not in named
    for place in found:
        assert place["file"].endswith("locustfile.py")
        assert place["count"] >= 1
        assert 15 < place["max_ms"] <= place["total_ms"]
    if "parse" in named:
        assert named["parse"]["called"].startswith("json/__init__.py:")
    assert told["blocks"]["count"] >= sum(place["count"] for place in told["blocked"])
    assert told["hub_lag_ms"]["p50"] <= told["hub_lag_ms"]["p99"] <= told["hub_lag_ms"]["max"]
    assert told["blocked_share"] > 0.05
    assert told["collections"]["total_ms"] > 0
    assert told["pool_wait"]["requests"] > 0
    assert (
        told["pool_wait"]["max_ms"] * told["pool_wait"]["requests"] >= told["pool_wait"]["total_ms"]
    )
    assert 0 < told["fds"]["max"] < told["fds"]["limit"]
    assert told["ports"]["taken"] >= told["ports"]["time_wait"]
    assert check_of(result, "G010")["outcome"] in ("warn", "fail")
    assert "requests waited for a free connection" in check_of(result, "G015")["evidence"]
    assert "What blocked the generator" in (run.directory / "report.html").read_text()
    assert result["run"]["lost"]["errors_inside"] == 0


def test_a_short_run_has_figures_from_its_first_second(
    run_locust: RunLocust, example_service: Service
) -> None:
    """Also where the kernel tells nothing of arrivals, and a faster timer estimates them."""
    users = USERS.format(url=example_service.url)
    options = ("-u", "1", "-t", "3s", "--trilat-no-kernel-stamps", "Sleeping")
    run = run_locust(users, *options)
    (file,) = sample_files(run.directory / "samples")
    samples = list(read_samples(file).of("vitals"))
    assert len(samples) >= 2
    assert samples[0]["wall_s"] - run.result["run"]["started_wall_ns"] / 1e9 < 30
    for sample in samples[:2]:
        assert sample["cpu_percent"] is not None
        assert sum(sample["hub_lag_spans_ms"]) > 0
    (series,) = run.result["generator"]["series"]
    assert len(series["hub_lag_ms"]) == len(series["elapsed_s"]) >= 2
    assert run.result["run"]["generator_cpu_percent"]["max"] > 0
