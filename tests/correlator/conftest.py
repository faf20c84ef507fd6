"""Exchange rows to attribute: single ones, simulated runs whose truth is known, and garbage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from trilat.agent.layout import Kind, MarkFlag
from trilat.agent.records import COMPONENTS, Component
from trilat.correlator.records.frames import EXCHANGE_DTYPE

MS = 1_000_000
EPOCH = 1_700_000_000_000_000_000
BOOT = 1_000_000_000_000
"""Monotonic instant at which runs begin."""

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]


def _row(**fields: int) -> Rows:
    """One row of a matched request, 10 ms of which is everything; fields replace its own."""
    row = np.zeros(1, EXCHANGE_DTYPE)
    usual = {
        "kind": Kind.EXCHANGE,
        "flags": MarkFlag.SENT | MarkFlag.ANSWERED,
        "started_wall_ns": EPOCH,
        "started_ns": BOOT,
        "response_ns": 10 * MS,
        "sent_ns": 1 * MS,
        "first_read_ns": 9 * MS,
        "first_lay_ns": 1 * MS,
        "last_read_ns": 9 * MS,
        "last_lay_ns": 1 * MS,
        "read_wall_ns": EPOCH + 9 * MS,
        "hub_lag_ns": -1,
        "lateness_ns": -1,
        "service_span": 1,
        "service_called_wall_ns": EPOCH + 3 * MS,
        "service_app_ns": 4 * MS,
        "service_blocked_ns": -1,
        "service_queue_ms": -1,
        "service_tick_10us": 400,
        "service_host": 1,
        "exchanges": 1,
    }
    for name, value in (usual | fields).items():
        row[name] = value
    return row


@pytest.fixture(scope="session")
def row() -> Callable[..., Rows]:
    """Make one row; it is of host 1."""
    return _row


@dataclass(frozen=True, slots=True)
class Run:
    """A simulated run.

    Attributes:
        rows: in order of completion.
        truth: the nine components of each, shape (n, 9), ns.
        offset: of the service's clock when the app was called.
    """

    rows: Rows
    truth: Ints
    offset: Ints


def _simulate(
    n: int,
    seed: int = 1,
    *,
    host: int = 7,
    offset_ms: float = 37,
    drift_ppm: float = 50,
    floor_ms: float = 0.06,
    jitter_ms: float = 0.02,
    queue_ms: float = 2,
    queue_floor_ms: float = 0,
    kernel: bool = True,
    tick_ms: int = 4,
    begin_s: float = 0,
    handshakes: int = 0,
) -> Run:
    """A run of 500 requests a second; times are exponential, the app's is gamma distributed.

    As many of its first requests as ``handshakes`` says make a connection.
    """
    random = np.random.default_rng(seed)

    def exponential(mean_ms: float) -> Ints:
        return np.round(random.exponential(mean_ms * MS, n)).astype(np.int64)

    start = BOOT + np.round((begin_s + np.sort(random.uniform(0, n / 500, n))) * 1e9).astype("i8")
    truth = np.zeros((n, len(COMPONENTS)), np.int64)
    truth[:, Component.GENERATOR_SEND] = exponential(0.2)
    shaken = np.arange(n) < handshakes
    round_trip = random.spawn(1)[0].gamma(2, jitter_ms * MS, n) + 2 * floor_ms * MS
    truth[:, Component.NETWORK_CONNECT] = np.round(round_trip) * shaken
    truth[:, Component.NETWORK_OUT] = exponential(jitter_ms) + round(floor_ms * MS)
    waits = random.random(n) > 0.3
    truth[:, Component.SERVICE_QUEUE] = exponential(queue_ms) * waits + round(queue_floor_ms * MS)
    truth[:, Component.SERVICE_APP] = np.round(random.gamma(4, 5 * MS, n))
    truth[:, Component.NETWORK_BACK] = exponential(jitter_ms) + round(floor_ms * MS)
    truth[:, Component.GENERATOR_READ] = exponential(1)
    truth[:, Component.GENERATOR_FINISH] = exponential(0.05)
    upto = np.cumsum(truth, axis=1)
    arrived = start + upto[:, Component.NETWORK_OUT]
    called = start + upto[:, Component.SERVICE_QUEUE]
    offset = np.round(offset_ms * MS + drift_ppm * 1e-6 * (called - BOOT)).astype(np.int64)
    read = upto[:, Component.GENERATOR_READ]
    lay = truth[:, Component.GENERATOR_READ]
    # The kernel counts whole ticks: between the tick before arriving and that before the call.
    tick = tick_ms * MS
    ticks = called // tick - arrived // tick
    rows = np.repeat(_row(service_host=host, service_tick_10us=tick_ms * 100), n)
    fields: dict[str, Any] = {
        "started_wall_ns": EPOCH + start - BOOT,
        "started_ns": start,
        "response_ns": upto[:, -1],
        "flags": np.where(shaken, rows["flags"] | int(MarkFlag.CONNECTED), rows["flags"]),
        "connect_ns": truth[:, Component.NETWORK_CONNECT],
        "sent_ns": upto[:, Component.NETWORK_CONNECT],
        "first_read_ns": read,
        "first_lay_ns": lay,
        "last_read_ns": read,
        "last_lay_ns": lay,
        "read_wall_ns": EPOCH + start - BOOT + read,
        "service_called_wall_ns": EPOCH + called - BOOT + offset,
        "service_app_ns": truth[:, Component.SERVICE_APP],
        "service_queue_ms": ticks * tick_ms if kernel else -1,
    }
    for name, values in fields.items():
        rows[name] = values
    order = np.argsort(start + upto[:, -1], kind="stable")
    return Run(rows[order], truth[order], offset[order])


@pytest.fixture(scope="session")
def simulate() -> Callable[..., Run]:
    """Simulate a run; the service is on host 7 unless told otherwise."""
    return _simulate


def _garbage(n: int, seed: int) -> Rows:
    """Rows some of whose fields, few or all, are extreme, random or merely unlikely."""
    random = np.random.default_rng(seed)
    rows = np.repeat(_row(), n)
    spoilt = random.choice([0.05, 0.5, 1], n)
    for name in EXCHANGE_DTYPE.names or ():
        info = np.iinfo(EXCHANGE_DTYPE[name])
        extremes = np.array([info.min, info.max, 0, 1, info.max - 1], info.dtype)
        choices = (
            random.choice(extremes, n),
            random.integers(info.min, info.max, n, info.dtype, endpoint=True),
            random.integers(0, min(20 * MS, info.max), n, info.dtype),
        )
        values = np.choose(random.choice(3, n, p=(0.2, 0.2, 0.6)), choices)
        rows[name] = np.where(random.random(n) < spoilt, values, rows[name])
    rows["kind"] = Kind.EXCHANGE
    rows["name_id"] %= 5
    rows["service_host"] %= 3
    return rows


@pytest.fixture(scope="session")
def garbage() -> Callable[[int, int], Rows]:
    """Make hostile rows of 5 names and 3 hosts: how many, seed."""
    return _garbage
