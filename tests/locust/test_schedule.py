"""Real runs with a schedule: intended starts, tasks that were missed, and stages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trilat.agent.layout import MarkFlag

from ..conftest import Service, StartService
from .conftest import RunLocust

PACED = """
class Paced(FastHttpUser):
    host = "{url}"
    wait_time = constant_throughput(10)

    @task
    def item(self):
        self.client.get("/item")
"""

MANY_WAYS = """
from functools import partial
from locust import TaskSet, between, constant_pacing

class OneByOne(TaskSet):
    wait_time = constant_throughput(5)

    @task
    def item(self):
        self.client.get("/health", name="taskset")

class OnTaskSet(FastHttpUser):
    host = "{url}"
    tasks = [OneByOne]

class OnInstance(FastHttpUser):
    host = "{url}"

    def __init__(self, environment):
        super().__init__(environment)
        self.wait_time = partial(constant_throughput(5), self)

    @task
    def item(self):
        self.client.get("/health", name="instance")
        self.client.get("/health", name="instance, second")

class ByMethod(FastHttpUser):
    host = "{url}"
    pacing = staticmethod(constant_pacing(0.2))

    def wait_time(self):
        return self.pacing(self)

    @task
    def item(self):
        self.client.get("/health", name="method")

class Nested(HttpUser):
    host = "{url}"
    wait_time = constant_pacing(0.2)

    @task
    class Inner(TaskSet):
        @task
        def item(self):
            self.client.get("/health", name="nested")
            if self.interrupt_next():
                self.interrupt()

        def interrupt_next(self):
            self.times = getattr(self, "times", 0) + 1
            return self.times > 2

class Thinking(FastHttpUser):
    host = "{url}"
    wait_time = between(0.1, 0.3)

    @task
    def item(self):
        self.client.get("/health", name="thinking")
"""

STEPS = """
from locust import LoadTestShape

class Paced(FastHttpUser):
    host = "{url}"
    wait_time = constant_throughput(5)

    @task
    def item(self):
        self.client.get("/health")

class Fixed(Paced):
    fixed_count = 2
    wait_time = constant_throughput(2)

class Steps(LoadTestShape):
    def tick(self):
        for until, users in ((4, 4), (8, 8)):
            if self.get_run_time() < until:
                return users, 100
        return None
"""


def test_what_a_stall_keeps_from_starting_is_seen_from_intended_starts(
    run_locust: RunLocust, start_service: StartService
) -> None:
    """A service stalls for a second, and Locust's p95 says nothing of it.

    Of users that send whatever the others do, one of six would have come in that second and waited
    for what was left of it. Counted from intended starts, with the tasks that were never started,
    that is what comes out.
    """
    users, rate = 10, 10
    with start_service(Path(__file__).with_name("stalling_service.py")) as service:
        run = run_locust(PACED.format(url=service.url), *("-u", "10", "-r", "10", "-t", "6s"))
    total, seconds = run.result["total"], run.result["run"]["measured_s"]
    # Whoever was due in the stall waited for the rest of it, but for the one period before it.
    schedule = total["schedule"]
    assert schedule["missed"] >= users * 7
    wanted = users * rate * seconds
    done = schedule["scheduled"] + schedule["missed"] + users  # a user's first task has no plan
    assert 0.8 * wanted < done < 1.02 * wanted + users
    assert schedule["missed"] == run.rows["missed"].sum()

    assert run.rows["response_ns"].max() >= 1e9
    # Independent arrivals, evenly over the run: those in the stall wait for its end.
    waits_ms = np.maximum(1000 - np.arange(0, seconds * 1000, 1), 0)
    for name, quantile in (("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        seen = np.quantile(waits_ms, quantile)
        assert total["corrected_ms"][name] >= 0.8 * seen, name
    assert total["response_time_ms"]["p90"] < total["corrected_ms"]["p90"]
    checks = {each["id"]: each for each in run.result["checks"]}
    assert checks["L001"]["outcome"] == "warn"
    assert "were never started" in checks["L001"]["evidence"]
    assert "never started" in run.output


def test_intended_starts_wherever_the_wait_time_stands(
    run_locust: RunLocust, example_service: Service
) -> None:
    """On a TaskSet, an instance, in a method, around a nested TaskSet; not for think times."""
    run = run_locust(
        MANY_WAYS.format(url=example_service.url), *("-u", "10", "-r", "10", "-t", "4s")
    )
    assert run.result["run"]["lost"]["errors_inside"] == 0, run.output
    entries = {each["name"]: each for each in run.result["endpoints"]}
    for name in ("taskset", "instance", "method", "nested"):
        requests, schedule = entries[name]["requests"], entries[name]["schedule"]
        assert requests > 10, name
        # Two users of each class, whose first task has no plan. The nested TaskSet is left after
        # three tasks and entered again at once: that one had no wait before it.
        unplanned = 2 if name != "nested" else requests // 3 + 2
        assert requests - unplanned <= schedule["scheduled"] < requests, name
        assert schedule["mean_lateness_ms"] >= 0
    for name in ("instance, second", "thinking"):
        assert entries[name]["schedule"]["scheduled"] == 0
        assert entries[name]["corrected_ms"]["p95"] is None
    rows = run.rows
    assert (rows["lateness_ns"][rows["flags"] & MarkFlag.FIRST == 0] == -1).all()
    firsts = int((rows["flags"] & MarkFlag.FIRST != 0).sum())
    assert run.result["total"]["schedule"]["scheduled"] < firsts
    classes = {each["name"]: each for each in run.result["run"]["user_classes"]}
    assert classes["OnTaskSet"]["target_rate_per_s"] == pytest.approx(10)
    assert classes["Thinking"]["target_rate_per_s"] is None
    # Also of those whose schedule no class tells of: 4 classes, 2 users each, 5 tasks a second.
    assert run.result["run"]["target_rate_per_s"] > 25


def test_stages_of_a_load_shape_with_two_processes(
    run_locust: RunLocust, example_service: Service
) -> None:
    """Each number of users has its own rate wanted, by weights and fixed counts, and figures."""
    run = run_locust(STEPS.format(url=example_service.url), "--processes", "2")
    assert run.result["run"]["workers"] == 2, run.output
    held = [each for each in run.result["stages"] if not each["ramp"]]
    assert [each["users"] for each in held] == [4, 8]
    assert [each["target_rate_per_s"] for each in held] == pytest.approx([14, 34])
    assert held[0]["to_s"] <= held[1]["from_s"]
    assert all(each["requests"] > 0 for each in held)
    in_stages = sum(each["requests"] for each in run.result["stages"])
    assert in_stages <= run.result["total"]["requests"] == len(run.rows)
    for stage in held:
        assert sum(stage["shares"].values()) == pytest.approx(1, abs=0.001)
        assert stage["corrected_ms"]["p95"] >= stage["response_time_ms"]["p50"]
        assert stage["reached_rate_per_s"] < 1.3 * stage["target_rate_per_s"]
    assert run.result["run"]["target_rate_source"] == "wait_time"
