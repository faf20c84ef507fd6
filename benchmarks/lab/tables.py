"""Outcomes as text: tables in Markdown, for the terminal and for the documentation alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .summary import (
    Outcome,
    as_expected,
    confusion,
    findings,
    goals,
    rule_counts,
)

__all__ = ["TABLES", "table", "whole"]

_RULE_NAMES = {
    "trilat": "trilat",
    "gauge": "processor gauge, 80 %",
    "warning": "Locust's warning, 90 %",
    "baseline": "low-rate baseline",
}
_PERCENT = 100
_NONE = "-"
_CAPTURED = ("generator.send", "service.queue", "generator.end")
_NOT_CAPTURED = ("before", "service.app", "service.body", "after")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: int = 0) -> str:
    """A table in Markdown; the last ``right`` columns are aligned to the right."""
    aligned = [*["---"] * (len(heads) - right), *["---:"] * right]
    lines = [heads, aligned, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def goals_table(outcomes: Sequence[Outcome]) -> str:
    """The goals and what was reached."""
    said = {True: "yes", False: "no", None: _NONE}
    rows = [(goal.what, goal.wanted, goal.reached, said[goal.holds]) for goal in goals(outcomes)]
    return table(("figure", "goal", "reached", "holds"), rows)


def rules_table(outcomes: Sequence[Outcome]) -> str:
    """What trilat says beside what people go by without it."""
    rows = [
        (_RULE_NAMES[rule], *(str(counts[key]) for key in ("right", "missed", "false_alarm")))
        for rule, counts in rule_counts(outcomes).items()
    ]
    return table(("rule", "right", "generator missed", "false alarm"), rows, right=3)


def wrong_rules_table(outcomes: Sequence[Outcome]) -> str:
    """The scenarios in which the gauge or the baseline goes wrong and trilat does not."""
    rows = []
    for o in outcomes:
        rules = o["rules"]
        right = rules["right"]
        if not right["trilat"] or (right["gauge"] and right["baseline"]):
            continue
        rows.append(
            (
                o["name"],
                f"{o['score']['distorts']['truth'] * _PERCENT:.0f} %",
                f"{o['score']['distorts']['trilat'] * _PERCENT:.0f} %",
                f"{o['cpu_percent']:.0f} %",
                _verdict(right["gauge"]),
                _verdict(right["baseline"]),
            )
        )
    heads = ("scenario", "generator's part of p95", "by trilat", "CPU", "gauge", "baseline")
    return table(heads, rows)


def _verdict(right: bool | None) -> str:
    return {True: "right", False: "**wrong**", None: _NONE}[right]


def confusion_table(outcomes: Sequence[Outcome]) -> str:
    """What dominates, and what trilat names."""
    counts = confusion(outcomes)
    truths = sorted({truth for truth, _ in counts})
    named = sorted({name for _, name in counts} | set(truths))
    rows = [[truth, *(str(counts[truth, name] or "") for name in named)] for truth in truths]
    return table(("truth \\ trilat", *named), rows, right=len(named))


def findings_table(outcomes: Sequence[Outcome]) -> str:
    """Where trilat misses a goal, and why."""
    rows = [(each.scenario, each.what, each.cause) for each in findings(outcomes)]
    return table(("scenario", "what is off", "why"), rows) if rows else "None."


def scenarios_table(outcomes: Sequence[Outcome]) -> str:
    """All scenarios, one in a row."""
    rows = []
    captured = any(o["score"]["dominant"]["truth"] is not None for o in outcomes)
    parts = _CAPTURED if captured else _NOT_CAPTURED
    for o in outcomes:
        scored = o["score"]
        named = scored["dominant"]
        points = [abs(each) for each in scored["share_points"].values()]
        bounds = scored["bounds"]
        share = _NONE if named["truth"] is None else f"{named['share'] * _PERCENT:.0f} %"
        rows.append(
            (
                o["name"],
                o["what"],
                f"{named['truth'] or _NONE}{'' if as_expected(o) else ' (!)'}",
                share,
                {True: "right", False: f"**{named['trilat']}**", None: _NONE}[named["right"]],
                f"{max(points):.1f}" if points else _NONE,
                *(_errors(o, part) for part in parts),
                f"{bounds['hold'] / bounds['requests']:.1%}" if bounds["requests"] else _NONE,
                str(scored["joined"]),
            )
        )
    heads = (
        *("scenario", "what is wrong", "dominates", "share", "trilat"),
        *("share error, points", *parts, "bounds hold", "requests"),
    )
    return table(heads, rows, right=3 + len(parts))


def _errors(o: Outcome, part: str) -> str:
    """Error at p50 and at p99, in ms."""
    known = o["score"]["parts"].get(part)
    if known is None:
        return _NONE
    return f"{known['p50']['error']:+.2f}, {known['p99']['error']:+.2f}"


TABLES = {
    "goals": goals_table,
    "rules": rules_table,
    "wrong-rules": wrong_rules_table,
    "confusion": confusion_table,
    "findings": findings_table,
    "scenarios": scenarios_table,
}
"""By name, as they stand in ``docs/accuracy.md``."""

_TITLES = {
    "scenarios": "Scenarios (errors in ms at p50 and p99; (!): not what was to dominate)",
    "confusion": "What dominates, and what trilat names",
    "rules": "Did the generator make the number? Right and wrong answers",
    "wrong-rules": "Where the gauge or the baseline goes wrong and trilat does not",
    "findings": "Where trilat misses a goal",
    "goals": "Goals",
}


def whole(outcomes: Sequence[Outcome]) -> str:
    """All tables, with their titles."""
    return "\n\n".join(f"## {title}\n\n{TABLES[name](outcomes)}" for name, title in _TITLES.items())
