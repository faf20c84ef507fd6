"""A service's numbers as metrics for prometheus_client, read when somebody asks."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Sample

from .counters import OTHER
from .families import BLOCKS, Counter, Gauge, Hidden, Histogram
from .workers import WorkerGroup, service_group

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .families import Block
    from .series import Series

__all__ = ["ServiceCollector"]

Family: TypeAlias = (
    CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily | InfoMetricFamily
)


class ServiceCollector(Collector):
    """The metrics of a service: the sum of all its workers, whichever is asked.

    A histogram with labels begins with its first observation.

    ::

        from prometheus_client import REGISTRY
        REGISTRY.register(ServiceCollector())

    Args:
        group: whose numbers; None: of the service that this process is a worker of.
    """

    def __init__(self, group: WorkerGroup | None = None) -> None:
        self._group = group

    def describe(self) -> Iterable[Family]:
        """The metrics without their values: what a registry needs to know at the start."""
        for block in BLOCKS.values():
            yield from _families_of(block, [])
        yield from _about(0)

    def collect(self) -> Iterable[Family]:
        """The metrics as they are now."""
        series, workers = (self._group or service_group()).snapshot()
        by_block: dict[str, list[Series]] = {name: [] for name in BLOCKS}
        for one in series:
            # The block for what has no block of its own is made at the start.
            if OTHER not in one.labels or any(one.numbers):
                by_block[one.block.name].append(one)
        for name, block in BLOCKS.items():
            yield from _families_of(block, by_block[name])
        yield from _about(workers)


def _families_of(block: Block, series: list[Series]) -> Iterable[Family]:
    labelled = [(dict(zip(block.labels, one.labels, strict=True)), one) for one in series]
    for metric in block.metrics:
        place = block.places[metric.name]
        if isinstance(metric, Histogram):
            yield _histogram(metric, place, _observed(metric, place, labelled))
        elif not isinstance(metric, Hidden):
            yield _single(metric, place, labelled)


def _single(
    metric: Counter | Gauge, place: int, labelled: list[tuple[dict[str, str], Series]]
) -> Family:
    kind = CounterMetricFamily if isinstance(metric, Counter) else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=())
    family.samples = [
        Sample(metric.name, labels, _scaled(one.numbers[place], metric.scale))
        for labels, one in labelled
    ]
    return family


def _observed(
    metric: Histogram, place: int, labelled: list[tuple[dict[str, str], Series]]
) -> list[tuple[dict[str, str], Series]]:
    """Leaves out what has labels and no observation yet, for most of a page is histograms."""
    return [
        (labels, one)
        for labels, one in labelled
        if not labels or any(one.numbers[place : place + metric.slots])
    ]


def _histogram(
    metric: Histogram, place: int, labelled: list[tuple[dict[str, str], Series]]
) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=())
    bucket_name, sum_name = f"{metric.name}_bucket", f"{metric.name}_sum"
    bounds = [str(float(_scaled(bound, metric.scale))) for bound in metric.bounds]
    bounds.append("+Inf")
    samples = family.samples
    for labels, one in labelled:
        count = 0
        for at, bound in enumerate(bounds, place):
            count += one.numbers[at]
            exemplar = _exemplar(one, at, metric.scale)
            samples.append(Sample(bucket_name, {**labels, "le": bound}, count, None, exemplar))
        samples.append(Sample(f"{metric.name}_count", labels, count))
        total = _scaled(one.numbers[place + metric.sum_at], metric.scale)
        samples.append(Sample(sum_name, labels, total))
    return family


def _exemplar(one: Series, at: int, scale: float) -> Exemplar | None:
    found = one.exemplars.get(at)
    if found is None:
        return None
    return Exemplar({"trace_id": found.trace}, _scaled(found.value, scale), found.wall_ns / 1e9)


def _about(workers: int) -> Iterable[Family]:
    yield GaugeMetricFamily("trilat_workers", "Processes of this service.", value=workers)
    try:
        release = version("trilat")
    except PackageNotFoundError:  # run from a source tree
        release = "unknown"
    about = {"version": release, "python": platform.python_version()}
    yield InfoMetricFamily("trilat_build", "Release of trilat and of Python.", value=about)


def _scaled(number: int, scale: float) -> float:
    """A number in the unit that is exposed; division rounds once, and 1e-9 is not exact."""
    return number if scale == 1.0 else number / round(1 / scale)
