"""Runs to be judged: manifests, and books made from journal rows by the real attribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trilat.agent.journal import JournalWriter
from trilat.agent.layout import NAME, Kind, MarkFlag
from trilat.agent.stamp import STAMP
from trilat.correlator.finish import finish
from trilat.correlator.records.frames import EXCHANGE_DTYPE
from trilat.correlator.requests.pipeline import Attributor
from trilat.correlator.run.manifest import Manifest
from trilat.correlator.run.rundir import RunDirectory

from .samples import BEGIN_S, Finish

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import numpy.typing as npt

    from trilat.correlator.sketches.book import SketchBook

HOST = 0x5EED
STARTED_WALL_NS = 1_700_000_000 * 10**9


@pytest.fixture
def make_manifest() -> Callable[..., Manifest]:
    """Make the manifest of a sound run of 10 s with 100 users; keywords replace its facts."""

    def make(**changes: Any) -> Manifest:
        facts: dict[str, Any] = {
            "run_id": "0123456789ab",
            "started_wall_ns": STARTED_WALL_NS,
            "ended_wall_ns": STARTED_WALL_NS + 10 * 10**9,
            "measured_s": 10.0,
            "trilat": "0.1.0",
            "locust": "2.47.0",
            "python": "3.11.9",
            "host": {
                "identity": HOST,
                "name": "generator",
                "system": "Linux 6.18 x86_64",
                "cpus": 4,
                "python": "3.11.9",
                "tick_us": 4000,
            },
            "command": ["locust", "-f", "locustfile.py", "--headless"],
            "locustfile": "locustfile.py",
            "target_host": "http://127.0.0.1:8000",
            "user_classes": [
                {
                    "name": "Shopper",
                    "client": "HttpUser",
                    "wait_time": "between(0.5, 1)",
                    "count": 100,
                    "target_rate_per_s": None,
                }
            ],
            "users": 100,
            "same_host": True,
            "kernel_stamps": True,
            "generator_cpu_percent": {"mean": 20.0, "max": 30.0},
        }
        return Manifest(**(facts | changes))

    return make


def _values(group: Mapping[str, Any], key: str, default: float) -> npt.NDArray[Any]:
    """One value for each of a group's requests, from one for all of them or a sequence."""
    return np.broadcast_to(np.asarray(group.get(key, default)), (group["n"],))


def _rows(group: Mapping[str, Any], name_id: int) -> npt.NDArray[np.void]:
    """Exchange records of one endpoint on one host; see `make_book`."""

    def ns(key: str) -> npt.NDArray[np.int64]:
        return np.rint(_values(group, key, 0.0) * 1e6).astype(np.int64)

    n = group["n"]
    matched = _values(group, "matched", default=True).astype(bool)
    marked = _values(group, "marked", default=True).astype(bool)
    service, network, send, read = ns("service"), ns("network"), ns("generator"), ns("read")
    other = np.where(matched, 0, service + network) + ns("unattributed")
    service, network = service * matched, network * matched
    arrived = send + service + network + other
    out = np.minimum(network, 100_000)  # the rest is on the way back, where there is no queue
    together = group.get("together", 1)
    started = np.arange(n, dtype=np.int64) // together * together * (10**10 // n)
    rows = np.zeros(n, EXCHANGE_DTYPE)
    rows["kind"] = Kind.EXCHANGE
    flags = np.where(marked, MarkFlag.SENT | MarkFlag.ANSWERED, MarkFlag.UNMARKED)
    flags = flags | _values(group, "failed", default=False) * int(MarkFlag.FAILED)
    rows["flags"] = flags | MarkFlag.FIRST
    rows["name_id"] = name_id
    rows["span"] = np.arange(1, n + 1)
    rows["started_wall_ns"] = STARTED_WALL_NS + started
    rows["started_ns"] = 10**9 + started
    rows["response_ns"] = arrived + read
    rows["sent_ns"] = send
    rows["first_read_ns"] = rows["last_read_ns"] = arrived + read
    rows["first_lay_ns"] = rows["last_lay_ns"] = read if group.get("stamped", True) else -1
    rows["read_wall_ns"] = rows["started_wall_ns"] + arrived + read
    rows["hub_lag_ns"] = -1
    rows["lateness_ns"] = ns("lateness") if "lateness" in group else -1
    rows["missed"] = _values(group, "missed", 0)
    rows["service_span"] = rows["span"] * matched
    rows["service_called_wall_ns"] = (rows["started_wall_ns"] + send + out) * matched
    rows["service_app_ns"] = service
    rows["service_blocked_ns"] = ns("blocked") if "blocked" in group else -1
    rows["service_queue_ms"] = 0
    rows["service_tick_10us"] = 100 * matched
    rows["service_host"] = HOST * matched
    rows["exchanges"] = 1
    if group.get("far"):
        rows["service_host"] = (HOST + 1) * matched
        rows["service_queue_ms"] = -1
        rows["service_called_wall_ns"] += 37_000_000 * matched
    return rows


def _text(group: Mapping[str, Any]) -> str:
    return f"{group.get('method', 'GET')}\t{group.get('name', '/items')}"


@pytest.fixture
def make_book() -> Callable[..., SketchBook]:
    """Make a book of endpoints whose requests are made of given times.

    Each group is one endpoint: ``n`` requests, and for all or each of them the milliseconds of
    ``service``, ``network``, ``generator`` (before sending), ``read`` (generator, after arrival)
    and ``unattributed``; ``blocked`` where the service tells of its event loop; whether it is
    ``matched``, ``marked``, ``failed``; ``together`` where so many start in one instant;
    ``lateness`` (ms) and ``missed`` where there is a schedule; ``method``, ``name``; ``far`` for a
    service on another host whose kernel tells nothing of its queue; ``stamped`` false for a
    generator whose kernel tells nothing of arrivals.
    """

    def make(*groups: Mapping[str, Any]) -> SketchBook:
        attributor = Attributor(HOST)
        for number, group in enumerate(groups):
            text = _text(group).encode()
            attributor.feed(NAME.struct.pack(NAME.kind, 0, number, text, 0))
            attributor.feed(_rows(group, number).tobytes())
        attributor.flush()
        return attributor.book

    return make


@pytest.fixture
def write_journal() -> Callable[..., None]:
    """Write groups of requests (as for `make_book`) to the journal of one process.

    A group of ``facts`` alone begins a new file that says these, too.
    """
    stamp_at = EXCHANGE_DTYPE.fields["service_span"][1] if EXCHANGE_DTYPE.fields else 0
    before = EXCHANGE_DTYPE.names.index("service_span") if EXCHANGE_DTYPE.names else 0

    def write(
        directory: Path, *groups: Mapping[str, Any], process: int = 1, **options: Any
    ) -> None:
        facts = {"side": "generator", "run": "0123456789ab", "host": HOST}
        facts |= options.pop("facts", {})
        writer = JournalWriter(directory, f"generator-{process}", facts, **options)
        for group in groups:
            if "facts" in group:
                writer.begin_file(group["facts"])
                continue
            number = writer.name_id(_text(group))
            for row in _rows(group, number):
                stamp = row.tobytes()[stamp_at : stamp_at + STAMP.size]
                values = row.item()
                writer.append(*values[:before], stamp, *values[-3:-1])
        writer.close()

    return write


@pytest.fixture
def finished(
    tmp_path: Path, make_manifest: Callable[..., Manifest], make_book: Callable[..., SketchBook]
) -> Finish:
    """Finish a run of so many seconds with the samples that lie in ``samples``."""

    def finished(*groups: Mapping[str, Any], seconds: int = 10, **changes: Any) -> dict[str, Any]:
        rundir = RunDirectory(tmp_path)
        ended = {"ended_wall_ns": (BEGIN_S + seconds) * 10**9, "measured_s": float(seconds)}
        manifest = make_manifest(**(ended | changes))
        finish(rundir, manifest, make_book(*(groups or [{"n": 1000, "service": 20.0}])))
        return rundir.read_result()  # valid against the schema

    return finished
