"""`Intake`: takes the files of services into a run's directory, within a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from trilat.agent.errors import InputError
from trilat.agent.offers import Window
from trilat.correlator.text import clean

from .collected import CollectedFile
from .fetching import Gone
from .landing import Landing

if TYPE_CHECKING:
    from trilat.agent.offers import FileTag, Offer
    from trilat.correlator.run.rundir import RunDirectory

    from .collected import Collected, Outcome
    from .fetching import Source

__all__ = ["Intake", "Watch"]

_ROUNDS = 3  # files are renamed and removed while they are collected: look again
_AHEAD_NS = 10**9  # a clock that is off by less is what the margin is for

Watch = Callable[[str, int, int], None]
"""Told of progress: the service's URL, the bytes that are there, the bytes that are wanted."""


class _Meter:
    """How far one service's files are here."""

    def __init__(self, watch: Watch, url: str, total: int) -> None:
        self._watch = watch
        self._url = url
        self.total = total
        self.done = 0

    def at(self, done: int) -> None:
        """So many bytes are here."""
        self.done = done
        self._watch(self._url, done, self.total)


class Intake:
    """Takes files into a run's directory, within a bound, each by one service at a time."""

    def __init__(self, run: RunDirectory, bytes_max: int, watch: Watch) -> None:
        self._run = run
        self._left = self._most = bytes_max
        self._watch = watch
        self._locks: dict[str, asyncio.Lock] = {}
        self._givers: dict[str, tuple[str, str]] = {}

    async def take(self, source: Source, window: Window, collected: Collected) -> None:
        """Bring the files of one service.

        Raises:
            InputError: the service gives no listing, or too much.
        """
        done: dict[str, FileTag] = {}
        gone: dict[str, Offer] = {}
        for _ in range(_ROUNDS):
            offers = await self._listed(source, window, collected)
            wanted = [
                offer
                for offer in offers
                if offer.name not in done or done[offer.name].identity != offer.tag.identity
            ]
            changed = False
            meter = _Meter(self._watch, source.url, sum(offer.tag.bytes for offer in offers))
            meter.at(meter.total - sum(offer.tag.bytes for offer in wanted))
            for offer in wanted:
                after = meter.done + offer.tag.bytes
                tag = await self._file(source, offer, collected, meter)
                changed |= tag is None or tag.identity != offer.tag.identity
                if tag is None:
                    gone[offer.tag.identity] = offer
                else:
                    done[offer.name] = tag
                meter.at(after)
            if not changed:
                break
        for tag in done.values():  # it had another name by then
            gone.pop(tag.identity, None)
        collected.errors += [_lost(source.url, offer) for offer in gone.values()]

    async def _listed(self, source: Source, window: Window, collected: Collected) -> list[Offer]:
        listing = await source.listing(window)
        if abs(listing.ahead_ns) > _AHEAD_NS:
            there = Window(*(None if end is None else end + listing.ahead_ns for end in window))
            listing = await source.listing(there)
            if collected.ahead_ns is None:
                collected.remarks.append(
                    f"its clock is {listing.ahead_ns / 1e9:+.1f} s from this one's: set both by NTP"
                )
        if collected.ahead_ns is None and not listing.journals:
            collected.remarks.append(
                "keeps no journals: give TrilatMiddleware a directory (journal=…)"
            )
        collected.ahead_ns = listing.ahead_ns
        return listing.offers

    async def _file(
        self, source: Source, offer: Offer, collected: Collected, meter: _Meter
    ) -> FileTag | None:
        """Bring one file.

        Returns:
            The tag of what is here now, or that of the offer where that failed; None where the file
            is not there any more.

        Raises:
            InputError: too much came.
        """
        async with self._locks.setdefault(offer.name, asyncio.Lock()):
            try:
                return await self._bring(source, offer, collected, meter)
            except Gone:
                return None
            except _TooMuch:
                raise
            except InputError as error:
                collected.errors.append(_named(source.url, str(error)))
            except OSError as error:
                where = error.filename or self._run.path
                collected.errors.append(f"{where}: {error.strerror or error}")
        return offer.tag

    async def _bring(
        self, source: Source, offer: Offer, collected: Collected, meter: _Meter
    ) -> FileTag:
        url, identity = self._givers.setdefault(offer.name, (source.url, offer.tag.identity))
        if url != source.url and identity != offer.tag.identity:
            raise InputError(f"{offer.name}: another file of this name came from {url}")
        landing = Landing(self._run, offer.kind, offer.name)
        outcome: Outcome = "present"
        tag = landing.held()
        if tag is None or not tag.covers(offer.tag):

            def spend(size: int) -> None:
                self._spend(size)
                meter.at(meter.done + size)

            kept = await source.fetch(offer, landing, spend)
            try:
                tag = landing.settle()
            except InputError:
                if not kept:
                    raise
                # What was here before may be what is damaged, after a crash of this machine.
                kept = await source.fetch(offer, landing, spend)
                tag = landing.settle()
            outcome = "resumed" if kept else "fetched"
        collected.add(CollectedFile(offer.name, offer.kind, tag.bytes, outcome))
        return tag

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _TooMuch(
                f"more than {self._most / 1e6:,.0f} MB came; allow more with --max-mb, what came"
                " is kept"
            )


class _TooMuch(InputError):
    """All that may come has come."""


def _lost(url: str, offer: Offer) -> str:
    """What to say of a file that was listed, and that nobody gave."""
    return (
        f"{url}: {offer.name}: listed, and then not there ({offer.tag.bytes:,} bytes): the service"
        " has removed it, or the URL leads to several hosts; give each one's own"
    )


def _named(url: str, text: str) -> str:
    """An error's text with the service that it is about."""
    return text if text.startswith(url) else f"{url}: {clean(text, 500)}"
