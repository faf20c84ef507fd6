"""How a run went, beside what its requests were made of: over time, and how they were started."""

from __future__ import annotations

import json
from struct import Struct

from trilat.agent.errors import InputError

from .bunching import Bunching
from .slices import Slices

__all__ = ["Course"]

_LENGTH = Struct("<I")
_STARTS_MAX = 200


class Course:
    """The course of a run; merging is exact, and the same in whatever order.

    Attributes:
        slices: its requests over time.
        bunching: how bunched the starts of tasks were.
    """

    def __init__(self) -> None:
        self.slices = Slices()
        self.bunching = Bunching()

    def __bool__(self) -> bool:
        return bool(self.slices) or self.bunching.starts > 0

    def merge(self, other: Course) -> None:
        """Add another's to this; the other stays as it is."""
        self.slices.merge(other.slices)
        self.bunching.add(other.bunching)

    def to_bytes(self) -> bytes:
        """As bytes; equal ones give equal bytes."""
        starts = json.dumps(self.bunching.to_list()).encode()
        return _LENGTH.pack(len(starts)) + starts + self.slices.to_bytes()

    @classmethod
    def from_bytes(cls, raw: bytes) -> Course:
        """Read what `to_bytes` wrote.

        Raises:
            InputError: these are not the bytes of a course.
        """
        size = _LENGTH.unpack_from(raw)[0] if len(raw) >= _LENGTH.size else _STARTS_MAX + 1
        if size > _STARTS_MAX:
            raise InputError("damaged course of a run: cut short")
        course, at = cls(), _LENGTH.size + size
        try:
            course.bunching = Bunching.from_list(json.loads(raw[_LENGTH.size : at]))
        except (ValueError, RecursionError) as error:
            raise InputError("damaged course of a run: its starts cannot be read") from error
        course.slices = Slices.from_bytes(raw[at:])
        return course
