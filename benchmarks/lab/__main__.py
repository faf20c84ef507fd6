"""The accuracy lab: known causes, an observer beside trilat, and how far trilat is from the truth.

    scripts/lab               all scenarios, some 20 minutes
    scripts/lab --quick       a fixed part of them, in less than 5 minutes
    scripts/lab --only NAME   some of them; --list names all

Needs root, /dev/net/tun and tcpdump for the most part of it; without them it makes what it can and
says what it leaves out. What it finds goes to lab-results/TIME: an outcome a line in
scenarios.jsonl, and tables.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trilat.agent.errors import TrilatError

from .abilities import Abilities, look
from .docs import write_docs
from .experiment import ROOT, Experiment
from .processes import LabError
from .results import Results
from .scenario import Scenario
from .scenarios import QUICK, SCENARIOS
from .summary import Outcome, as_expected, unexplained

__all__ = ["main"]

_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for.

    Attributes:
        chosen: the scenarios.
        out: the directory for the results.
        keep: keep captures, logs and journals.
        json: print outcomes as JSON, not tables.
    """

    chosen: Sequence[Scenario]
    out: Path
    keep: bool
    json: bool


def main() -> int:
    """Make the scenarios that are asked for.

    Returns:
        0; 1 where a scenario could not be made, or trilat names the wrong cause in one and nobody
        knows why; 2 for wrong usage; 130 where it was interrupted.
    """
    parser = _parser()
    given = parser.parse_args()
    if given.list:
        print("\n".join(f"{each.name:38} {each.what}" for each in SCENARIOS))
        return 0
    try:
        if given.docs is not None:
            written = write_docs(given.docs, ROOT / "docs/accuracy.md")
            print(f"docs/accuracy.md: {', '.join(written)}")
            return 0
        chosen = _chosen(given.only, quick=given.quick)
    except LabError as error:
        parser.error(str(error))
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    out = given.out or ROOT / "lab-results" / stamp
    signal.signal(signal.SIGTERM, _interrupt)
    return _run(Options(chosen, out, given.keep, given.format == "json"))


def _parser() -> argparse.ArgumentParser:
    about, _, _ = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(prog="scripts/lab", description=about)
    parser.add_argument("--quick", action="store_true", help="a fixed part, below 5 minutes")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this one; repeatable")
    parser.add_argument("--list", action="store_true", help="name all scenarios")
    parser.add_argument("--out", type=Path, metavar="DIR", help="[default: lab-results/TIME]")
    parser.add_argument("--keep", action="store_true", help="keep captures, logs and journals")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--docs", type=Path, metavar="DIR", help="write docs/accuracy.md's tables from DIR"
    )
    return parser


def _chosen(only: Sequence[str] | None, *, quick: bool) -> list[Scenario]:
    by_name = {scenario.name: scenario for scenario in SCENARIOS}
    names = only or (QUICK if quick else list(by_name))
    for name in names:
        if name not in by_name:
            raise LabError(f"no scenario {name}; --list names all")
    return [by_name[name] for name in names]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _run(options: Options) -> int:
    abilities = look()
    for line in abilities.left_out(options.chosen):
        _say(f"lab: {line}")
    chosen = [scenario for scenario in options.chosen if abilities.allow(scenario)]
    results = Results(options.out)
    code = 0
    try:
        for number, scenario in enumerate(chosen, 1):
            _say(f"[{number}/{len(chosen)}] {scenario.name} ", end="")
            _say(_one(scenario, results, abilities, keep=options.keep))
    except KeyboardInterrupt:
        code = _INTERRUPTED
        _say("interrupted")
    text = results.finish()
    print(json.dumps(results.outcomes, indent=2) if options.json else text)
    for name, why in results.failures.items():
        _say(f"lab: {name} could not be made: {why}")
    wrong = unexplained(results.outcomes)
    for name in wrong:
        _say(f"lab: {name}: trilat names the wrong cause, and there is no known reason")
    _say(f"lab: {len(results.outcomes)} of {len(chosen)} scenarios; all of it in {options.out}")
    return code or int(bool(results.failures or wrong))


def _one(scenario: Scenario, results: Results, abilities: Abilities, *, keep: bool) -> str:
    """Make one scenario; what to say of it."""
    folder = results.folder(scenario.name)
    try:
        outcome = Experiment(scenario, folder, abilities.captures).make()
    except (LabError, TrilatError) as error:
        results.fail(scenario.name, str(error))
        return f"could not be made: {error}"
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    results.add(outcome)
    return _line(outcome)


def _line(outcome: Outcome) -> str:
    scored, named = outcome["score"], outcome["score"]["dominant"]
    points = max((abs(each) for each in scored["share_points"].values()), default=0.0)
    said = f"{scored['joined']} requests in {outcome['took_s']:.0f} s"
    if named["truth"] is None:
        return said
    word = "right" if named["right"] else f"WRONG, trilat says {named['trilat']}"
    odd = "" if as_expected(outcome) else f" (meant: {outcome['expects']})"
    return f"{said}: {named['truth']} {named['share']:.0%}{odd}, {word}; shares ±{points:.1f}"


def _say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
