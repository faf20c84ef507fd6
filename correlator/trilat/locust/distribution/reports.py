"""What a worker tells its master of its part in a run, with each of Locust's reports.

Only types that msgpack knows go in: one value of another type would end Locust's own reporting for
good. What comes in is believed no more than a file: it is held against its types and ranges first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from trilat.agent.errors import InputError

__all__ = ["KEY", "PROTOCOL", "RESET", "TAKEN", "Parcel", "Report", "said_of"]

KEY = "trilat"
"""Our entry in the data of a worker report: a list of `Report`, one for each unfinished run."""

TAKEN = "trilat_taken"
"""The message with which a master says up to which parcel it has taken a worker's."""

RESET = "trilat_reset"
"""The message with which a master says that its statistics are reset."""

PROTOCOL = 1
"""Changes with the form of reports; a master takes none of another form."""

_TEXT_MAX = 1000
_PARCELS_MAX = 16
_SAMPLES_MAX = 2000
_LINE_MAX = 2**16
_PAGES_MAX = 2000
_COUNTERS_MAX = 50
_WHOLE_MAX = 2**62


@dataclass(frozen=True, slots=True)
class Parcel:
    """Histograms of requests that no other parcel holds.

    Attributes:
        number: 1 for the first one of a session, then one more each.
        epoch: how often Locust's statistics had been reset when the requests were made.
        requests: how many it holds.
        pages: books of histograms as bytes (`SketchBook.to_bytes`); together they are the parcel.
    """

    number: int
    epoch: int
    requests: int
    pages: list[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker tells.

    Attributes:
        protocol: `PROTOCOL` of its release.
        trilat: its version.
        run: the run's id.
        session: the id of its part in the run: another process, another id.
        host: its host's name.
        host_identity: its host's `trilat.agent.host.host_identity`.
        pid: its process number.
        journals: the folder of its journal on its host.
        shared: whether that is the run's own folder, which the master sees, too.
        epoch: how often Locust's statistics have been reset.
        requests: how many it has recorded since the last reset.
        left_out: how many before that.
        carried: how many of those Locust still reports, since its own counts were not reset then.
        users: how many it runs.
        final: its part has ended; nothing will be added.
        cpu_s: CPU time of its process so far, in seconds.
        elapsed_s: over how many seconds that was.
        cpu_highest: the highest of a second, in per cent of one core.
        cpu_latest: that of the last second.
        hub_lag_ms: how long what became ready in that second waited for the hub, on average.
        wanted: tasks that the users' schedules wanted since the last reset.
        tasks: tasks that they ran.
        missed: tasks that were due and never started.
        kernel_stamps: whether receive stamps are taken.
        same_host: whether the services run on its host; None: it saw none.
        lost: counters of missing evidence.
        samples: its samples since the last report, as lines of JSON, where the master cannot read
            its file of them.
        parcels: those that the master has not confirmed yet.
    """

    protocol: int
    trilat: str
    run: str
    session: str
    host: str
    host_identity: int
    pid: int
    journals: str
    shared: bool
    epoch: int
    requests: int
    left_out: int
    carried: int
    users: int
    final: bool
    cpu_s: float
    elapsed_s: float
    cpu_highest: float
    cpu_latest: float
    hub_lag_ms: float
    wanted: float
    tasks: int
    missed: int
    kernel_stamps: bool
    same_host: bool | None
    lost: dict[str, int]
    samples: list[str]
    parcels: list[Parcel]

    def to_wire(self) -> dict[str, Any]:
        """As types that msgpack knows."""
        return asdict(self)

    @classmethod
    def from_wire(cls, said: Any) -> Report:
        """Read what `to_wire` made.

        Raises:
            InputError: something is missing, of another type, or out of range.
        """
        if not isinstance(said, Mapping) or said.get("protocol") != PROTOCOL:
            raise InputError("a report of another release of trilat")
        hints = _types()
        values: dict[str, Any] = {}
        for each in fields(cls):
            if each.name not in said:
                raise InputError(f"a report without {each.name!r}")
            values[each.name] = _value(each.name, hints[each.name], said[each.name])
        if not values["session"].isalnum() or not values["session"].isascii():
            raise InputError("a report whose session is no id")
        return cls(**values)


def said_of(data: dict[str, Any], run_id: str) -> Any:
    """What a worker's report says of one run; None where it says nothing of it."""
    said = data.get(KEY)
    for each in said if isinstance(said, list) else ():
        if isinstance(each, dict) and each.get("run") == run_id:
            return each
    return None


@cache
def _types() -> dict[str, Any]:
    return get_type_hints(Report)


def _value(name: str, hint: Any, value: Any) -> Any:
    """A field's value, if it is of the type and in the range that it must have.

    Raises:
        InputError: it is not.
    """
    fits = False
    if hint is int:
        fits = _is_whole(value)
    elif hint is float:
        fits = isinstance(value, int | float) and 0 <= value < _WHOLE_MAX
    elif hint is str:
        fits = isinstance(value, str) and len(value) <= _TEXT_MAX
    elif hint is bool:
        fits = isinstance(value, bool)
    elif name == "lost":
        fits = (
            isinstance(value, dict)
            and len(value) <= _COUNTERS_MAX
            and all(isinstance(key, str) and len(key) <= _TEXT_MAX for key in value)
            and all(map(_is_whole, value.values()))
        )
    elif name == "samples":
        fits = isinstance(value, list) and len(value) <= _SAMPLES_MAX and all(map(_is_line, value))
    elif name == "parcels":
        return _parcels(value)
    else:
        fits = value is None or isinstance(value, bool)
    if not fits:
        raise InputError(f"a report whose {name!r} cannot be read")
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _WHOLE_MAX


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LINE_MAX


def _parcels(value: Any) -> list[Parcel]:
    if not isinstance(value, list) or len(value) > _PARCELS_MAX:
        raise InputError("a report whose parcels cannot be read")
    parcels = []
    for each in value:
        match each:
            case {
                "number": int(number),
                "epoch": int(epoch),
                "requests": int(requests),
                "pages": [*pages],
            } if (
                all(map(_is_whole, (number, epoch, requests)))
                and len(pages) <= _PAGES_MAX
                and all(isinstance(page, bytes) for page in pages)
            ):
                parcels.append(Parcel(number, epoch, requests, pages))
            case _:
                raise InputError("a report with a parcel that cannot be read")
    return parcels
