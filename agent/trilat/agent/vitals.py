"""Once a second: what a process, its control group and its host do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .cgroup import ControlGroup
from .clock import SYSTEM_CLOCK, Clock
from .listeners import Listener, Listeners
from .pauses import CollectorPauses
from .process import KernelProcess, PortableProcess, ProcessState
from .processors import Processors, kernel_times, portable_times
from .procfs import Paced

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["VITALS", "Vitals"]

VITALS: Mapping[str, str] = {
    "cpu_percent": "CPU time since the last reading, in per cent of one core",
    "cpu_user_s": "CPU time in the process' own code since its start, seconds",
    "cpu_system_s": "CPU time in the kernel since its start, seconds",
    "host_cpu_percent": "list: how busy each processor of the host was since the last reading",
    "steal_percent": "share of all processors' time that the hypervisor took since then",
    "steal_s": "time that the hypervisor took of all processors since the host's start, seconds",
    "rss_bytes": "resident memory",
    "rss_peak_bytes": "the largest it was",
    "uss_bytes": "memory that no other process shares; every 10 s, not where it is slow to tell",
    "threads": "threads of the operating system",
    "fds": "open file descriptors",
    "fds_limit": "how many may be open",
    "gc_pauses": "garbage collections since the last reading",
    "gc_pause_ms": "time in them, milliseconds",
    "gc_pause_max_ms": "the longest of them, milliseconds",
    "gc_pauses_total": "garbage collections since this began to count",
    "gc_pause_total_ns": "time in them, nanoseconds",
    "switches_voluntary": "times that a thread gave its core up since the process' start",
    "switches_involuntary": "times that its core was taken",
    "throttled_ms": "time that CPU limits held the control group back since the last reading",
    "throttled_s": "the same since the group's start, seconds; a lower bound where groups nest",
    "memory_limit_bytes": "the control group's memory limit, 0 without one; every 10 s",
    "listeners": "list of the listening TCP sockets: address, queue (connections that wait to be"
    " accepted), limit (how many may wait)",
}
"""The keys of `Vitals.read` and what they mean; any value may be None: not known here."""

_S = 1_000_000_000
_RARELY_NS = 10 * _S
_SLOW_NS = 5_000_000  # about a gigabyte, which is walked with a lock held that allocations need

T = TypeVar("T")


class Vitals:
    """Reads them, until closed.

    What a system does not tell is None. What is slow to read on this host (many processors, many
    descriptors) is read less often than asked, so that it takes a thousandth of the time at most;
    until then the latest value is given again.

    Attributes:
        failures: readings of a part that failed; it is None in that second.

    Args:
        proc: where the kernel tells of processes; where there is none, psutil is asked.
        cgroup: where the control groups are mounted.
        thorough: whether to read also what may take milliseconds: ``uss_bytes`` and ``listeners``.
            A load generator does not, as it reads on its hub.
        clock: for what is relative to the last reading.
    """

    def __init__(
        self,
        proc: Path = Path("/proc"),
        cgroup: Path = Path("/sys/fs/cgroup"),
        *,
        thorough: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.failures = 0
        self._clock = clock
        self._pauses = CollectorPauses(clock.monotonic_ns)
        has_proc = (proc / "self/status").is_file()
        self._process: KernelProcess | PortableProcess = PortableProcess()
        self._unique: Callable[[], int | None] = _nothing
        if has_proc:
            self._process = KernelProcess(proc)
        self._host = Paced(
            Processors((lambda: kernel_times(proc)) if has_proc else portable_times).read, clock
        )
        self._group = ControlGroup(proc, cgroup)
        self._limit = Paced(self._group.memory_limit_bytes, clock, pause_ns=_RARELY_NS)
        self._listeners: Listeners | None = None
        self._find: Callable[[], None] = _nothing
        if thorough and isinstance(self._process, KernelProcess):
            unique = self._process.unique_bytes
            self._unique = Paced(unique, clock, pause_ns=_RARELY_NS, too_long_ns=_SLOW_NS)
            self._listeners = Listeners(proc)
            self._find = Paced(self._listeners.find, clock, pause_ns=_RARELY_NS)
        self._last_ns = clock.monotonic_ns()
        self._last_cpu_s = self._cpu_s(self._part(self._process.read))
        self._last_pauses = (0, 0)
        self._last_throttled_ns = self._part(self._group.throttled_ns)
        self._part(self._host)

    def read(self) -> dict[str, Any]:
        """The figures of now, one for each key of `VITALS`; never raises."""
        state = self._part(self._process.read) or ProcessState()
        host = self._part(self._host)
        return {
            "cpu_percent": self._cpu_percent(state),
            "cpu_user_s": _rounded(state.user_s),
            "cpu_system_s": _rounded(state.system_s),
            "host_cpu_percent": host.busy_percent if host else None,
            "steal_percent": host.stolen_percent if host else None,
            "steal_s": host.stolen_s if host else None,
            "rss_bytes": state.rss_bytes,
            "rss_peak_bytes": state.rss_peak_bytes,
            "uss_bytes": self._part(self._unique),
            "threads": state.threads,
            "fds": state.fds,
            "fds_limit": state.fds_limit,
            **self._collector(),
            "switches_voluntary": state.switches_voluntary,
            "switches_involuntary": state.switches_involuntary,
            **self._throttling(),
            "memory_limit_bytes": self._part(self._limit),
            "listeners": self._part(self._listening),
        }

    def close(self) -> None:
        """Stop counting garbage collections."""
        self._pauses.close()

    def _part(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except Exception:  # noqa: BLE001 - fails open
            self.failures += 1
            return None

    def _cpu_s(self, state: ProcessState | None) -> float | None:
        if state is None or state.user_s is None or state.system_s is None:
            return None
        return state.user_s + state.system_s

    def _cpu_percent(self, state: ProcessState) -> float | None:
        now_ns, cpu_s = self._clock.monotonic_ns(), self._cpu_s(state)
        elapsed_s, before_s = (now_ns - self._last_ns) / _S, self._last_cpu_s
        self._last_ns, self._last_cpu_s = now_ns, cpu_s
        if cpu_s is None or before_s is None or elapsed_s <= 0:
            return None
        return round(max(100 * (cpu_s - before_s) / elapsed_s, 0.0), 1)

    def _collector(self) -> dict[str, float | int]:
        pauses = self._pauses
        count, total_ns = pauses.count, pauses.total_ns
        last_count, last_ns = self._last_pauses
        self._last_pauses = (count, total_ns)
        return {
            "gc_pauses": count - last_count,
            "gc_pause_ms": round((total_ns - last_ns) / 1e6, 3),
            "gc_pause_max_ms": round(pauses.take_longest() / 1e6, 3),
            "gc_pauses_total": count,
            "gc_pause_total_ns": total_ns,
        }

    def _throttling(self) -> dict[str, float | None]:
        now_ns, before_ns = self._part(self._group.throttled_ns), self._last_throttled_ns
        self._last_throttled_ns = now_ns
        if now_ns is None:
            return {"throttled_ms": None, "throttled_s": None}
        since_ns = None if before_ns is None else now_ns - before_ns
        return {
            "throttled_ms": None if since_ns is None else round(since_ns / 1e6, 3),
            "throttled_s": round(now_ns / _S, 6),
        }

    def _listening(self) -> list[dict[str, Any]] | None:
        if self._listeners is None:
            return None
        self._find()
        return [_as_json(listener) for listener in self._listeners.read()]


def _nothing() -> None:
    """Where a system does not tell."""


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _as_json(listener: Listener) -> dict[str, Any]:
    return {"address": listener.address, "queue": listener.queue, "limit": listener.limit}
