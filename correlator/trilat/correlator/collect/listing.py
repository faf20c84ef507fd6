"""`Listing`: what a service says of its files, held against what it may say."""

from __future__ import annotations

from typing import NamedTuple

from trilat.agent.errors import InputError
from trilat.agent.offers import FILES_MAX, FILES_SCHEMA, FileTag, Offer, kind_of
from trilat.correlator.text import clean
from trilat.correlator.validate import check, parse_json

from .landing import BYTES_MAX

__all__ = ["Listing", "parse_listing"]

_INTEGER = {"type": "integer"}
_LISTING = {
    "type": "object",
    "required": ["schema", "host", "instance", "wall_ns", "journals", "files"],
    "properties": {
        "schema": {"const": FILES_SCHEMA},
        "host": _INTEGER,
        "instance": _INTEGER,
        "wall_ns": _INTEGER,
        "journals": {"type": "boolean"},
        "files": {
            "type": "array",
            "maxItems": FILES_MAX,
            "items": {
                "type": "object",
                "required": ["name", "kind", "bytes", "etag", "first_wall_ns", "last_wall_ns"],
                "properties": {
                    "name": {"type": "string"},
                    "kind": {"enum": list(BYTES_MAX)},
                    "bytes": {"type": "integer", "minimum": 1},
                    "etag": {"type": "string"},
                    "first_wall_ns": _INTEGER,
                    "last_wall_ns": _INTEGER,
                },
            },
        },
    },
}


class Listing(NamedTuple):
    """What a service offers.

    Attributes:
        offers: its files.
        journals: whether it keeps any.
        ahead_ns: its wall clock minus ours, to within half of the time that the answer took.
    """

    offers: list[Offer]
    journals: bool
    ahead_ns: int


def parse_listing(raw: bytes, now_ns: int, url: str) -> Listing:
    """Read an answer.

    Args:
        raw: its body.
        now_ns: our wall clock when it was made, as far as we can tell.
        url: who answered, for the error's text.

    Raises:
        InputError: not a listing, or of files that a service does not have.
    """
    listing = parse_json(raw, f"{url}: the listing")
    check(listing, _LISTING, _LISTING, f"{url}: the listing")
    offers = []
    for file in listing["files"]:
        name, kind, tag = file["name"], file["kind"], FileTag.parse(file["etag"])
        if kind_of(name) != kind or tag is None or tag.bytes != file["bytes"]:
            raise InputError(f"{url}: lists a file that is none: {clean(name, 100)}")
        if tag.bytes > BYTES_MAX[kind]:
            raise InputError(f"{url}: {name}: larger than such a file can be")
        offers.append(Offer(name, kind, tag, file["first_wall_ns"], file["last_wall_ns"]))
    if len({offer.name for offer in offers}) < len(offers):
        raise InputError(f"{url}: lists a file twice")
    return Listing(offers, listing["journals"], listing["wall_ns"] - now_ns)
