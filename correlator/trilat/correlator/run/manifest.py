"""The manifest of a run, ``run.json``: what a result is worth nothing without."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from trilat.correlator.validate import check, result_schema

from .crew import CrewFacts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = [
    "MANIFEST_SCHEMA",
    "REBUILT_NOTE",
    "CpuPercent",
    "Failure",
    "Manifest",
    "Reset",
    "StageFacts",
    "UserClass",
    "without_secrets",
]

REBUILT_NOTE = "the run ended before its result was written; rebuilt from its journals"
"""Remark in the manifest of a run that was cut off."""

MANIFEST_SCHEMA = "trilat.run/1"
"""Name and version of the format."""

_HIDDEN = "***"
_WORDS = (
    r"token|passw|pwd|secret|credential|api[-_]?key|access[-_]?key|private[-_]?key"
    r"|auth|cookie|bearer|jwt|web[-_]login"
)
# Every pattern takes time in proportion to the text: a name is looked at once, from its start, and
# what was taken is not given back (``++``).
_NAMED = rf"(?=[\w.-]*?(?:{_WORDS}))[\w.-]++"
_OPTION = re.compile(rf"--?{_NAMED}", re.IGNORECASE)
_HEADER = re.compile(  # not a host and port: no slash before it
    rf"(?<![/\w.-])({_NAMED}[\"']?\s*+:\s*+[\"']?)(?:(?:bearer|basic|digest)\s++)?"
    r"[^\"']*[^\"'\s]",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(rf"(?<![\w.-])({_NAMED}=)[^&\s]+", re.IGNORECASE)
_SCHEME = re.compile(r"\b((?:bearer|basic|digest)\s++)[\w.~+/=-]{4,}", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=//)[^/\s?#]*@")
_CUT_USER_INFO = re.compile(r"(?<=//)[^/\s?#]*\Z")  # its @ may be in what was cut off
_CUT = re.compile(r" … \([\d,]{5,15} characters\)\Z")
_LENGTH_MAX = 2000
_NAME_MAX = 200  # a longer name is no option's
_KEPT = 900  # with every value in it replaced this is still shorter than what is cut
_TOKEN_OPTION = "--trilat-token"  # noqa: S105 - the option's name
_SHORTEST = len("--trilat-to")  # argparse takes every prefix that names one option only


class UserClass(TypedDict):
    """One of the run's user classes.

    ``client`` is which of Locust's HTTP clients it has, ``wait_time`` is as one would write it
    (``between(0.5, 1)``), ``count`` the users of the class at the height of the run and
    ``target_rate_per_s`` what all of them together are scheduled to run, None without a schedule.
    """

    name: str
    client: Literal["HttpUser", "FastHttpUser", "other"]
    wait_time: str
    count: int
    target_rate_per_s: float | None


class CpuPercent(TypedDict):
    """CPU time of the busiest generator process, in per cent of one processor."""

    mean: float
    max: float


class Failure(TypedDict):
    """One kind of failure as Locust counts it: endpoint, text of the error, how often."""

    name: str
    error: str
    count: int


class StageFacts(TypedDict):
    """A part of the run in which the users that were wanted did not change, or grew steadily.

    Times are seconds since the start of the run; ``to_s`` is None while it lasts. In a ramp the
    users go from ``users_from`` to ``users``, and the rate that is wanted of them from
    ``rate_from_per_s`` to ``rate_to_per_s``, counted as `Manifest.target_rate_source` says, and
    ``step`` of them come, or go, at once.
    """

    from_s: float
    to_s: float | None
    users_from: int
    users: int
    ramp: bool
    step: int
    rate_from_per_s: float | None
    rate_to_per_s: float | None


class Reset(TypedDict):
    """Locust's statistics were reset while the run went on, and the figures with them.

    ``times`` it happened, the last time at ``wall_ns``. ``left_out`` requests came before that.
    ``counted_late`` of them are in Locust's own figures all the same: a worker had not reported
    them yet.
    """

    times: int
    wall_ns: int
    left_out: int
    counted_late: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Facts of one run.

    Attributes:
        run_id: the run's id, as requests carried it.
        started_wall_ns: when the load began, nanoseconds since the epoch.
        ended_wall_ns: when it ended; None while it runs, or when it was cut off.
        measured_s: seconds of load, from a monotonic clock; None like `ended_wall_ns`.
        trilat: version.
        locust: version.
        python: version.
        host: the generator's `trilat.agent.host.HostFacts` as a dict.
        command: the command line; `to_json` takes secrets out of it.
        locustfile: name of the file, without its folder.
        target_host: the base URL that the users request; None where they name their own.
        user_classes: see `UserClass`.
        users: users at the height of the run, over all processes.
        processes: processes that made load.
        workers: Locust workers; 0 when the run was local.
        run_mode: what the process that wrote this was to Locust.
        target_rate_per_s: the rate the run was to reach, ramps included; None where there is none.
        target_rate_source: ``option`` (``--trilat-target-rate``, requests), ``wait_time`` (the
            users' schedules, tasks) or None.
        reached_rate_per_s: the rate it did reach, counted in the same thing over the same time;
            None where that was not counted.
        fails_allowed: failures are no reason to fail (Locust's ``--exit-code-on-error 0``).
        same_host: whether generator and service share one kernel; None where that is unknown.
        kernel_stamps: whether the generator's kernel told when answers arrived.
        objectives: the texts of the objectives.
        generator_cpu_percent: see `CpuPercent`; None where it was not sampled.
        notes: remarks on the run for the reader of its report.
        lost: counters of evidence that went missing, such as ``journal_dropped`` (files),
            ``unmarked`` (requests of clients that trilat does not see), ``errors_inside`` (its
            own errors).
        pid: the process that writes the result; None where that is not known.
        planned_s: the run time that was asked for, in seconds; None without a limit.
        users_wanted: the users that were asked for; None where nobody asked for a number.
        failures: Locust's own most frequent kinds of failure, the most frequent first.
        crew: the workers of a distributed run; None where there are none.
        reset: what a reset of Locust's statistics left out; None where there was none.
        stages: what was asked for, one after the other.
        schema: `MANIFEST_SCHEMA`.
    """

    run_id: str
    started_wall_ns: int
    trilat: str
    locust: str
    python: str
    host: dict[str, Any]
    command: list[str]
    locustfile: str
    target_host: str | None
    user_classes: list[UserClass]
    users: int
    processes: int = 1
    workers: int = 0
    run_mode: Literal["local", "master", "worker"] = "local"
    ended_wall_ns: int | None = None
    measured_s: float | None = None
    target_rate_per_s: float | None = None
    target_rate_source: Literal["option", "wait_time"] | None = None
    reached_rate_per_s: float | None = None
    fails_allowed: bool = False
    same_host: bool | None = None
    kernel_stamps: bool = False
    objectives: list[str] = field(default_factory=list)
    generator_cpu_percent: CpuPercent | None = None
    notes: list[str] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)
    pid: int | None = None
    planned_s: float | None = None
    users_wanted: int | None = None
    failures: list[Failure] = field(default_factory=list)
    crew: CrewFacts | None = None
    reset: Reset | None = None
    stages: list[StageFacts] = field(default_factory=list)
    schema: str = MANIFEST_SCHEMA

    @property
    def cut_off(self) -> bool:
        """Whether the run ended without a word of its own: by a kill, say."""
        return self.ended_wall_ns is None or REBUILT_NOTE in self.notes

    @property
    def thinking(self) -> bool:
        """Whether no user class has a schedule: each user waits as its ``wait_time`` has it."""
        return bool(self.user_classes) and not any(
            each["target_rate_per_s"] for each in self.user_classes
        )

    def to_json(self) -> dict[str, Any]:
        """The manifest as ``run.json`` holds it.

        Secrets are taken out of command line, URL and the texts of failures.
        """
        values: dict[str, Any] = {"schema": self.schema}
        values |= {each.name: getattr(self, each.name) for each in fields(self)}
        values["command"] = without_secrets(self.command)
        if self.target_host is not None:
            values["target_host"] = without_secrets([self.target_host])[0]
        values["failures"] = [
            {**each, "error": _without_secret_parts(each["error"])} for each in self.failures
        ]
        return values

    @classmethod
    def from_json(cls, obj: Any, path: Path | str) -> Manifest:
        """Read a manifest; keys that this release does not know are left out.

        Args:
            obj: what was in the file.
            path: the file, for the error's text.

        Raises:
            InputError: something is missing or of the wrong type; the text names the place.
        """
        root = result_schema()
        check(obj, root["$defs"]["run"], root, str(path))
        known = {each.name for each in fields(cls)}
        return cls(**{key: value for key, value in obj.items() if key in known})


def without_secrets(argv: Sequence[str]) -> list[str]:
    """A command line with the values of its secrets replaced by ``***``.

    Taken out are the values of ``--trilat-token`` (also cut short, as argparse allows) and of
    options whose name speaks of a token, password, secret, key, login or cookie; user and password
    in URLs; ``Authorization`` and like headers; and ``name=value`` pairs with such a name.
    Too much may go (``--author``), which does less harm than too little. An argument of more than
    2,000 characters is cut short.
    """
    shown: list[str] = []
    hide = False
    for argument in argv:
        if hide and not argument.startswith("-"):
            shown.append(_HIDDEN)
            hide = argument.lower() in ("bearer", "basic", "digest")
            continue
        name, equals, _ = argument.partition("=")
        secret = len(name) <= _NAME_MAX and _is_secret_option(name)
        if secret and equals:
            shown.append(f"{name}={_HIDDEN}")
        else:
            shown.append(argument if secret else _without_secret_parts(argument))
        hide = (secret and not equals) or _is_header_name(argument)
    return shown


def _is_secret_option(name: str) -> bool:
    short = name.startswith("--trilat-to") and _TOKEN_OPTION.startswith(name)
    return (short and len(name) >= _SHORTEST) or _OPTION.fullmatch(name) is not None


def _is_header_name(argument: str) -> bool:
    """Whether a secret follows as the next argument: ``Authorization:`` or ``Bearer``."""
    text = argument.strip().lower()
    return text in ("bearer", "basic", "digest") or (
        text.endswith(":") and re.search(_WORDS, text) is not None and "//" not in text
    )


def _without_secret_parts(argument: str) -> str:
    end = ""
    if len(argument) > _LENGTH_MAX:
        end = f" … ({len(argument):,} characters)"
        argument = _CUT_USER_INFO.sub(_HIDDEN, argument[:_KEPT])
    elif (cut := _CUT.search(argument)) is not None:  # a manifest that is written once more
        argument, end = argument[: cut.start()], cut[0]
    text = _USER_INFO.sub(f"{_HIDDEN}@", argument)
    text = _ASSIGNMENT.sub(rf"\g<1>{_HIDDEN}", text)
    text = _HEADER.sub(rf"\g<1>{_HIDDEN}", text)
    return _SCHEME.sub(rf"\g<1>{_HIDDEN}", text) + end
