"""The conditions of a run, in words: without them a figure is worth nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from trilat.correlator.reading import items, mapping, number, text, texts, whole
from trilat.correlator.report.schedule import rate_label
from trilat.correlator.text import clean, count, duration, instant, rate

__all__ = ["Group", "conditions"]

Group = tuple[str, tuple[tuple[str, str], ...]]
"""A heading and its pairs of label and value."""


def conditions(result: Mapping[str, Any]) -> list[Group]:
    """What the run was: its load, its generator and its versions; only what is known is named."""
    run = mapping(result, "run")
    reached = number(mapping(result, "total").get("rate_per_s"))
    groups = (
        ("Load", tuple(_load(run, reached))),
        ("Generator", tuple(_generator(run))),
        ("Versions", tuple(_versions(run))),
    )
    return [(title, pairs) for title, pairs in groups if pairs]


def _load(run: Mapping[str, Any], reached_per_s: float | None) -> Iterator[tuple[str, str]]:
    started = number(run.get("started_wall_ns"))
    if started is not None:
        yield "Started", instant(started)
    measured_s = number(run.get("measured_s"))
    if measured_s is not None:
        yield "Duration", duration(measured_s)
    if target := text(run, "target_host"):
        yield "Target", target
    same_host = run.get("same_host")
    if isinstance(same_host, bool):
        yield "Service and generator", "on the same host" if same_host else "on different hosts"
    if "users" in run:
        yield "Users", count(whole(run.get("users")))
    for user_class in items(run, "user_classes"):
        if isinstance(user_class, Mapping):
            yield "User class", _user_class(user_class)
    if reached_per_s is not None:
        yield "Rate", f"{rate(reached_per_s)}/s {rate_label({'run': run})}"


def _user_class(user_class: Mapping[str, Any]) -> str:
    parts = [text(user_class, "name") or "(no name)"]
    users = whole(user_class.get("count"))
    if users:
        parts[0] += f", {count(users)} users"
    parts += [part for part in (text(user_class, "client"), text(user_class, "wait_time")) if part]
    wanted = number(user_class.get("target_rate_per_s"))
    if wanted is not None:
        parts.append(f"{rate(wanted)}/s wanted")
    return "; ".join(parts)


def _generator(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if mode := text(run, "run_mode"):
        yield "Mode", mode
    for label, key in (("Processes", "processes"), ("Workers", "workers")):
        if whole(run.get(key)):
            yield label, count(whole(run.get(key)))
    cpu = mapping(run, "generator_cpu_percent")
    mean, largest = number(cpu.get("mean")), number(cpu.get("max"))
    if mean is not None and largest is not None:
        yield "CPU", f"{mean:.0f} % of a core on average, {largest:.0f} % at most"
    stamps = run.get("kernel_stamps")
    if isinstance(stamps, bool):
        yield "Kernel receive stamps", "yes" if stamps else "no: generator.read is estimated"
    host = mapping(run, "host")
    if name := text(host, "name"):
        yield "Host", name
    if system := text(host, "system"):
        yield "System", system
    if whole(host.get("cpus")):
        yield "Processors", count(whole(host.get("cpus")))
    for key, value in mapping(run, "lost").items():
        if whole(value):
            yield f"Lost: {clean(key).replace('_', ' ')}", count(whole(value))


def _versions(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for label, key in (("trilat", "trilat"), ("Locust", "locust"), ("Python", "python")):
        if version := text(run, key):
            yield label, version
    if identity := text(run, "run_id"):
        yield "Run", identity
    if locustfile := text(run, "locustfile"):
        yield "Locustfile", locustfile
    if command := texts(run, "command"):
        yield "Command", shlex.join(command)
