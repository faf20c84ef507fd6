"""Objectives: what a run is asked to hold, in one short line each.

::

    METRIC OP VALUE [@ NAME]        p95<=50ms
                                    service.p99 < 0.2s @ GET /items/[id]
                                    fail_ratio<=1%
                                    rate>=100/s

METRIC is ``pNN`` (any percentile above 0 and below 100), ``mean`` or ``max`` of the response time,
or of a part of it with ``service.``, ``network.``, ``generator.`` or ``without_generator.`` before
it; ``fail_ratio``; or ``rate``. OP is ``<=``, ``<``, ``>`` or ``>=``. NAME is an endpoint as Locust
names it, with or without its method; without NAME the objective is about all requests.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING

from trilat.agent.errors import UsageError
from trilat.correlator.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trilat.correlator.sketches.sketch import Sketch

__all__ = ["Objective", "parse"]

_EXAMPLE = 'such as "p95<=50ms" or "service.p99<=200ms @ GET /items/[id]"'
_SIDES = ("service", "network", "generator", "without_generator")
_METRIC = re.compile(
    rf"(?:(?P<side>{'|'.join(_SIDES)})\.)?(?:p(?P<percentile>\d{{1,2}}(?:\.\d{{1,3}})?)|mean|max)",
    re.ASCII,
)
_EXPRESSION = re.compile(
    r"(?P<metric>[^<>=@]*?)\s*(?P<operator>[<>=!]+)\s*(?P<value>[^@]*?)\s*(?:@(?P<name>.*))?",
    re.DOTALL,
)
_VALUE = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,9})?)\s*(?P<unit>\D*)", re.ASCII)
_OPERATORS: dict[str, Callable[[float, float], bool]] = {"<=": le, "<": lt, ">=": ge, ">": gt}
_LENGTH_MAX = 1000

# What each kind of metric may be written in, and how much of the unit used inside one of it is.
_UNITS: dict[str, dict[str, float]] = {
    "time": {"ms": 1e6, "s": 1e9},
    "fail_ratio": {"%": 0.01},
    "rate": {"/s": 1.0},
}
_HINTS = {
    "time": "a time: write 50ms or 0.05s",
    "fail_ratio": "a share of the requests: write 1%",
    "rate": "a number of requests per second: write 100/s",
}
_SHOWN = {"time": ("ms", 1e-6), "fail_ratio": ("%", 100.0), "rate": ("/s", 1.0)}
_COMMON = ("p50", "p90", "p95", "p99", "p99.9", "mean", "max")
_KNOWN = (
    *_COMMON,
    *(f"{side}.{statistic}" for side in _SIDES for statistic in _COMMON),
    "fail_ratio",
    "rate",
)


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective; `parse` makes them.

    Attributes:
        text: the objective in its plain form; `parse` of it gives an equal objective.
        metric: the metric as it is written, such as ``service.p95``.
        kind: ``time``, ``fail_ratio`` or ``rate``.
        variable: the sketch's variable that a time is read from (``response``, ``service``, …);
            empty for the other kinds.
        quantile: of a percentile, between 0 and 1; else None.
        operator: ``<=``, ``<``, ``>`` or ``>=``.
        bound: nanoseconds for a time, a fraction for `fail_ratio`, requests per second for `rate`.
        endpoint: the endpoint's name, perhaps with its method before it; None for all requests.
    """

    text: str
    metric: str
    kind: str
    variable: str
    quantile: float | None
    operator: str
    bound: float
    endpoint: str | None

    def __str__(self) -> str:
        return self.text

    @property
    def unit(self) -> str:
        """The unit in which values are shown: ``ms``, ``%`` or ``/s``."""
        return _SHOWN[self.kind][0]

    def in_unit(self, value: float) -> float:
        """A value in `unit`, from what `value_of` returns."""
        return value * _SHOWN[self.kind][1]

    def holds(self, value: float) -> bool:
        """Whether a value, in the unit of `bound`, meets the objective."""
        return _OPERATORS[self.operator](value, self.bound)

    def value_of(
        self, sketch: Sketch, rate_per_s: float | None, variable_override: str | None = None
    ) -> float | None:
        """What the metric came to.

        Args:
            sketch: the requests the objective is about.
            rate_per_s: how many of them there were per second; None where that is unknown.
            variable_override: read a time from this variable of the sketch in place of the
                objective's own: what it would have been without one side's delay.

        Returns:
            The value in the unit of `bound`, or None where nothing is known.
        """
        if self.kind == "rate":
            return rate_per_s
        if self.kind == "fail_ratio":
            return sketch.failures / sketch.requests if sketch.requests else None
        histogram = sketch.histogram(variable_override or self.variable)
        if not histogram.count:
            return None
        if self.quantile is not None:
            return float(histogram.quantile_ns(self.quantile))
        return float(histogram.max_ns if self.metric.endswith("max") else histogram.mean_ns)

    def keys(self, endpoints: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """The endpoints, as (method, name), that the objective's NAME stands for.

        A name alone stands for all endpoints of that name, whatever their method.
        """
        known = list(endpoints)
        exact = [key for key in known if key[1] == self.endpoint]
        return exact or [key for key in known if " ".join(key) == self.endpoint]


def parse(text: str) -> Objective:
    """Read one objective.

    Raises:
        UsageError: it cannot be read; one line that says what to write in its place.
    """
    shown = clean(text, 80)
    if len(text) > _LENGTH_MAX:
        raise UsageError(f"{shown}: an objective has at most {_LENGTH_MAX} characters")
    found = _EXPRESSION.fullmatch(text.strip())
    if found is None or not found["metric"]:
        raise UsageError(
            f"{shown}: an objective reads METRIC OP VALUE [@ NAME], {_EXAMPLE}; "
            "in a shell put it in quotes, or < and > are taken as redirections"
        )
    kind, metric = _kind_and_metric(found["metric"], shown)
    operator = found["operator"]
    if operator not in _OPERATORS:
        raise UsageError(f"{shown}: {operator} is no comparison; write <=, <, >= or >")
    number, unit = _value(found["value"], kind, metric, shown)
    name = found["name"]
    if name is not None and not name.strip():
        raise UsageError(f"{shown}: an endpoint's name is missing after @; for all leave the @ out")
    endpoint = name.strip() if name is not None else None
    side, percentile = _parts(metric) if kind == "time" else ("", None)
    return Objective(
        text=f"{metric}{operator}{number}{unit}" + (f" @ {endpoint}" if endpoint else ""),
        metric=metric,
        kind=kind,
        variable=(side or "response") if kind == "time" else "",
        quantile=percentile / 100 if percentile is not None else None,
        operator=operator,
        bound=float(number) * _UNITS[kind][unit],
        endpoint=endpoint,
    )


def _kind_and_metric(raw: str, shown: str) -> tuple[str, str]:
    metric = raw.strip()
    if metric in ("fail_ratio", "rate"):
        return metric, metric
    if (found := _METRIC.fullmatch(metric)) is not None:
        if found["percentile"] is None or float(found["percentile"]) > 0:
            return "time", metric
        raise UsageError(f"{shown}: a percentile lies above 0 and below 100, such as p95 or p99.9")
    statistic = metric.rpartition(".")[2] if metric.count(".") else metric
    if re.fullmatch(r"p[0-9]{3,}", statistic):
        raise UsageError(f"{shown}: a percentile lies below 100, such as p99.9; p100 is max")
    close = difflib.get_close_matches(metric.lower(), _KNOWN, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(_COMMON)}, "
    if not close:
        hint += f"the same after {', '.join(f'{side}.' for side in _SIDES)}, fail_ratio and rate"
    raise UsageError(f"{shown}: no metric is called {clean(metric, 40)}; {hint}")


def _parts(metric: str) -> tuple[str, float | None]:
    found = _METRIC.fullmatch(metric)
    assert found is not None, "the metric was matched before"
    percentile = found["percentile"]
    return found["side"] or "", float(percentile) if percentile is not None else None


def _value(raw: str, kind: str, metric: str, shown: str) -> tuple[str, str]:
    """Number and unit as they are to be written.

    Raises:
        UsageError: not a number, or in a unit that does not fit the metric.
    """
    found = _VALUE.fullmatch(raw)
    if found is None or found["unit"].strip() not in _UNITS[kind]:
        given = f", not {clean(raw, 40)}" if raw else ""
        raise UsageError(f"{shown}: {metric} is {_HINTS[kind]}{given}")
    if kind == "fail_ratio" and float(found["number"]) > 100:
        raise UsageError(f"{shown}: a share of the requests is at most 100%")
    return found["number"], found["unit"].strip()
