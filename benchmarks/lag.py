"""What watching an event loop costs a process: at rest, with requests coming, and per request.

    python benchmarks/lag.py [--rounds 5] [--seconds 4] [--format json]

CPU time of this process is taken while its loop runs and nothing else does: bare, with the timer,
and with the timer and the watching thread: slow (at rest), fast (while requests come) and in
between (while requests are in flight, and none has come for two seconds).
The subjects take turns within a round, in an order that rotates; the figure is the median of the
rounds, in per cent of one core, and the bare loop's is shown beside it, not taken off.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import statistics
import sys
import time
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass

import uvloop

from trilat.agent.lag import SLACK_NS, LoopLag
from trilat.agent.observer import Observer

__all__ = ["Figure", "main", "measure"]

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
SPEEDS = ("slow", "waiting", "fast")
SUBJECTS = ("bare", *(f"{what}, {how}" for how in SPEEDS for what in ("timer", "timer and thread")))
AT_REST_PERCENT = 0.2


@dataclass(frozen=True, slots=True)
class Figure:
    """One subject on one loop.

    Attributes:
        cpu_percent: of one core, median of the rounds.
        lowest: of the rounds.
        highest: of the rounds.
        ticks_per_s: of the timer, in the last round.
    """

    loop: str
    subject: str
    cpu_percent: float
    lowest: float
    highest: float
    ticks_per_s: float


async def _watched(subject: str, seconds: float) -> tuple[float, float]:
    """CPU in per cent of one core, and ticks per second, while the loop has nothing else to do."""
    lag = LoopLag(in_flight=lambda: int(not subject.endswith("slow")))
    observer = Observer(lag) if "thread" in subject else None
    if subject != "bare":
        lag.wake()
        # As if requests came all the time, or none had for long.
        lag.idle_ticks = -(2**40) if subject.endswith("fast") else 2**40
    if observer:
        observer.start()
    try:
        await asyncio.sleep(0.3)
        ticks, cpu, wall = lag.ticks, time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        took = time.perf_counter() - wall
        return 100 * (time.process_time() - cpu) / took, (lag.ticks - ticks) / took
    finally:
        lag.stop()
        if observer:
            observer.stop()


def measure(rounds: int, seconds: float) -> list[Figure]:
    """CPU of all subjects on both loops.

    Args:
        rounds: how often each subject has its turn.
        seconds: length of a turn.
    """
    seen: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for turn in range(rounds):
        shift = turn % len(SUBJECTS)
        for name, new_loop in LOOPS.items():
            for subject in (*SUBJECTS[shift:], *SUBJECTS[:shift]):
                with asyncio.Runner(loop_factory=new_loop) as runner:
                    found = runner.run(_watched(subject, seconds))
                seen.setdefault((name, subject), []).append(found)
    return [
        Figure(
            name,
            subject,
            statistics.median(cpu for cpu, _ in found),
            min(cpu for cpu, _ in found),
            max(cpu for cpu, _ in found),
            found[-1][1],
        )
        for (name, subject), found in sorted(seen.items(), key=_in_order)
    ]


def _in_order(item: tuple[tuple[str, str], object]) -> tuple[str, int]:
    (loop, subject), _ = item
    return loop, SUBJECTS.index(subject)


def per_call_ns(number: int = 200_000) -> float:
    """What reading the blocked time costs a request each time, in nanoseconds."""
    lag = LoopLag()
    now_ns = time.perf_counter_ns

    def read() -> int:
        now = now_ns()
        return lag.blocked_at(now) if now - lag.due_ns > SLACK_NS else lag.blocked_ns

    def bare() -> int:
        return now_ns()

    with_lag = min(timeit.repeat(read, number=number, repeat=5))
    without = min(timeit.repeat(bare, number=number, repeat=5))
    return 1e9 * (with_lag - without) / number


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 1 where the timer at rest costs more than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--format", choices=("table", "json"), default="table")
    options = parser.parse_args(arguments)
    figures = measure(options.rounds, options.seconds)
    read_ns = per_call_ns()
    missed = [
        figure
        for figure in figures
        if figure.subject.endswith("slow") and figure.cpu_percent >= AT_REST_PERCENT
    ]
    if options.format == "json":
        json.dump(
            {
                "python": platform.python_version(),
                "figures": [asdict(figure) for figure in figures],
                "read_ns": read_ns,
                "at_rest_percent_allowed": AT_REST_PERCENT,
                "holds": not missed,
            },
            sys.stdout,
            indent=2,
        )
        print()
    else:
        print(f"{'loop':8} {'subject':26} {'CPU % (median, low, high)':>28} {'ticks/s':>8}")
        for figure in figures:
            spread = f"{figure.cpu_percent:.3f} {figure.lowest:.3f} {figure.highest:.3f}"
            print(f"{figure.loop:8} {figure.subject:26} {spread:>28} {figure.ticks_per_s:8.1f}")
        print(f"Reading the blocked time: {read_ns:.0f} ns.")
        verdict = "missed" if missed else "held"
        print(f"At rest less than {AT_REST_PERCENT} % of a core: {verdict}.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
