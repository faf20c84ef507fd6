"""The collector: a service's numbers as metrics for prometheus_client."""

from __future__ import annotations

import shutil
import subprocess
from bisect import bisect_left
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.openmetrics import exposition, parser
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Timestamp

from trilat.agent.collector import ServiceCollector
from trilat.agent.counters import Counters
from trilat.agent.families import BLOCKS, CORE, HTTP, LATENCY_BOUNDS, PROCESS, Histogram
from trilat.agent.workers import WorkerGroup

# The library has no types for these.
open_metrics: Callable[[CollectorRegistry], bytes] = exposition.generate_latest
parse_open: Callable[[str], Iterable[Metric]] = parser.text_string_to_metric_families
DURATION = "trilat_http_request_duration_seconds"
LABELS = {"method": "GET", "route": "/items/{id}", "status": "200"}
TRACE = b"4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def group(tmp_path: Path) -> WorkerGroup:
    """A service of one process."""
    return WorkerGroup(tmp_path / "state")


@pytest.fixture
def registry(group: WorkerGroup) -> CollectorRegistry:
    """A registry, as a user has it, with our collector in it."""
    registry = CollectorRegistry(auto_describe=True)
    registry.register(ServiceCollector(group))
    return registry


def observe(counters: Counters, *took_ns: int) -> int:
    """Count requests as the middleware does."""
    series = counters.block(HTTP, tuple(LABELS.values()))
    at = series + HTTP.places[DURATION]
    for ns in took_ns:
        counters.view[at + bisect_left(LATENCY_BOUNDS, ns)] += 1
        counters.view[at + len(LATENCY_BOUNDS) + 1] += ns
    return series


def test_a_histogram_counts_up_to_its_bounds(
    group: WorkerGroup, registry: CollectorRegistry
) -> None:
    """Buckets are cumulative, their bounds inclusive, in seconds; the sum and count agree."""
    observe(group.enter(), 500_000, 1_000_000, 1_000_001, 7_500_000, 60_000_000_000)

    def bucket(le: str) -> float | None:
        return registry.get_sample_value(f"{DURATION}_bucket", {**LABELS, "le": le})

    bounds = ["0.001", "0.002", "0.005", "0.0075", "10.0", "+Inf"]
    assert [bucket(le) for le in bounds] == [2, 3, 3, 4, 4, 5]
    assert registry.get_sample_value(f"{DURATION}_count", LABELS) == 5
    assert registry.get_sample_value(f"{DURATION}_sum", LABELS) == 60.010000001


def test_numbers_are_exposed_in_base_units(group: WorkerGroup, registry: CollectorRegistry) -> None:
    """Nanoseconds become seconds and millionths become shares, rounded once."""
    counters = group.enter()
    process = counters.block(PROCESS, ())
    counters.view[process + PROCESS.places["trilat_process_cpu_seconds_total"]] = 300_000_000
    counters.view[counters.block(CORE, ("3",))] = 250_000
    assert registry.get_sample_value("trilat_process_cpu_seconds_total") == 0.3
    assert registry.get_sample_value("trilat_host_cpu_busy_ratio", {"core": "3"}) == 0.25
    assert registry.get_sample_value("trilat_workers") == 1


def test_blocks_that_nothing_was_counted_in_are_not_exposed(
    group: WorkerGroup, registry: CollectorRegistry
) -> None:
    """The block for what has no block of its own shows only where it is used."""
    counters = group.enter()
    text = generate_latest(registry).decode()
    assert "(other)" not in text
    assert "next_exemplar" not in text
    counters.view[counters.block(HTTP, ("(other)",) * 3)] += 1
    assert 'route="(other)"' in generate_latest(registry).decode()


def test_a_histogram_with_labels_begins_with_its_first_observation(
    group: WorkerGroup, registry: CollectorRegistry
) -> None:
    """Most of a page is histograms; those without labels, and all counters, are there from 0 on."""
    counters = group.enter()
    series = observe(counters, 1_000_000)
    started = "trilat_http_response_start_seconds"
    assert registry.get_sample_value(f"{DURATION}_count", LABELS) == 1
    assert registry.get_sample_value(f"{started}_count", LABELS) is None
    assert registry.get_sample_value("trilat_http_exceptions_total", LABELS) == 0
    assert registry.get_sample_value("trilat_loop_lag_seconds_count") == 0
    counters.view[series + HTTP.places[started] + len(LATENCY_BOUNDS)] += 1  # 10 s and more
    assert registry.get_sample_value(f"{started}_count", LABELS) == 1
    assert registry.get_sample_value(f"{started}_bucket", {**LABELS, "le": "0.001"}) == 0


def test_exemplars_point_to_traces(group: WorkerGroup, registry: CollectorRegistry) -> None:
    """OpenMetrics has the trace of a request in its bucket; the older text leaves it out."""
    counters = group.enter()
    series = observe(counters, 4_200_000)
    bucket = bisect_left(LATENCY_BOUNDS, 4_200_000)
    at = HTTP.places[DURATION]
    counters.exemplify(series, at, bucket, 4_200_000, 1_700_000_000_500_000_000, TRACE)
    found = [
        (sample.labels["le"], sample.exemplar)
        for family in parse_open(open_metrics(registry).decode())
        for sample in family.samples
        if sample.exemplar
    ]
    assert [le for le, _ in found] == ["0.005"]
    exemplar = found[0][1]
    assert exemplar is not None
    assert exemplar.labels == {"trace_id": TRACE.decode()}
    assert exemplar.value == 0.0042
    assert exemplar.timestamp == Timestamp(1_700_000_000, 500_000_000)
    assert TRACE.decode() not in generate_latest(registry).decode()


def test_both_formats_say_the_same(group: WorkerGroup, registry: CollectorRegistry) -> None:
    """All metrics are in either format, with awkward labels, and parse."""
    counters = group.enter()
    counters.view[counters.block(HTTP, ("GET", '/a"b\\c\u00e9', "200"))] += 3
    text = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parse_text(generate_latest(registry).decode())
        for sample in family.samples
    }
    opened = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parse_open(open_metrics(registry).decode())
        for sample in family.samples
    }
    assert text == opened
    assert any(("route", '/a"b\\c\u00e9') in key for key in text)


def test_a_registry_knows_the_names_without_a_snapshot(tmp_path: Path) -> None:
    """Registering reads no files and makes none; the same names a second time are refused."""
    registry = CollectorRegistry(auto_describe=True)
    registry.register(ServiceCollector(WorkerGroup(tmp_path / "state")))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(ServiceCollector(WorkerGroup(tmp_path / "state")))


def test_all_declared_metrics_are_described() -> None:
    """Each metric that is not hidden is described, once, by its own name and kind."""
    described = {family.name: family.type for family in ServiceCollector().describe()}
    for block in BLOCKS.values():
        for metric in block.metrics:
            name = metric.name.removesuffix("_total")
            if type(metric).__name__ == "Hidden":
                assert name not in described
            else:
                assert described[name] == type(metric).__name__.lower()
            if isinstance(metric, Histogram):
                assert list(metric.bounds) == sorted(set(metric.bounds))
    assert described["trilat_build"] == "info"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say(group: WorkerGroup, registry: CollectorRegistry) -> None:
    """Prometheus' own linter of names, types and help finds nothing."""
    counters = group.enter()
    observe(counters, 1, 2_000_000)
    for block in BLOCKS.values():
        counters.view[counters.block(block, ("x",) * len(block.labels))] += 1
    command = ["promtool", "check", "metrics"]
    text = generate_latest(registry)
    ran = subprocess.run(command, input=text, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
