"""Where a thread is: its Python stack, and the line in it that a person can change."""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FrameType

from .pauses import CollectorPauses

__all__ = ["NO_CALLBACK", "Place", "Stack", "short_path", "take_stack"]

_DEEPEST = 500
_SHOWN = 30
_LONGEST_PATH = 200
_LONGEST_NAME = 100
_OWN_PARTS = ("agent", "middleware", "correlator", "locust")
_DEBUGGERS = ("pydevd", "debugpy")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line of code.

    Attributes:
        file: short path, at most 200 characters (see `short_path`).
        line: its number, 0 where there is none.
        function: qualified name, at most 100 characters.
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}"


NO_CALLBACK = Place("(no callback)", 0, "")
"""The loop's thread ran none of its callbacks: it waited for a processor, or for the interpreter,
which another thread held."""


@dataclass(frozen=True, slots=True)
class Stack:
    """What a thread was doing.

    Attributes:
        place: the innermost line outside of the standard library, of installed packages and of
            trilat; where there is none, the innermost outside of the standard library, or else the
            innermost.
        lines: ``file:line function``, at most the 30 innermost, the innermost last.
        debugged: whether a debugger had the thread.
        origin: tells stacks apart that have not the same outermost frame, as the greenlets of one
            thread have not, for as long as these run.
    """

    place: Place
    lines: tuple[str, ...]
    debugged: bool = False
    origin: int = 0


def take_stack(
    thread_id: int,
    base_depth: int,
    ignored: Collection[CodeType] = (),
    frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames,
    *,
    around: Collection[CodeType] = (),
) -> Stack | None:
    """The stack of a thread that runs an event loop, from the loop's callback inwards.

    What called the loop is left out: ``uvicorn.run()`` in somebody's ``main.py`` is a line of
    theirs, and blocks nothing.

    Args:
        thread_id: as `threading.get_ident` tells.
        base_depth: number of frames below a callback of the loop.
        ignored: functions in which a thread is of no interest.
        frames: the innermost frame of every thread.
        around: functions that run the loop, where the depth of a callback differs.

    Returns:
        The stack, or None when there is no such thread, or it is in such a function.
    """
    frame = frames().get(thread_id)
    if frame is None:
        return None
    # Frames keep their locals alive: only code and line numbers are kept, and the walk is short.
    found: list[tuple[CodeType, int]] = []
    origin = 0
    while frame is not None and len(found) < _DEEPEST:
        found.append((frame.f_code, frame.f_lineno or 0))
        origin = id(frame)
        frame = frame.f_back
    del frame
    while len(found) > 1 and found[0][0] is CollectorPauses.NOTING:
        del found[0]
    inside = found[: max(len(found) - base_depth, 0)] if len(found) < _DEEPEST else found
    if not inside and found[0][0].co_filename == asyncio.events.__file__:
        inside = found[:1]  # Handle._run, with a callback that is written in C
    # By identity: to hash a function's code takes longer than all the rest.
    while inside and any(inside[-1][0] is code for code in around):
        inside = inside[:-1]
    if any(code is each for code, _ in inside for each in ignored):
        return None
    if not inside:
        return Stack(NO_CALLBACK, (), origin=origin)
    return Stack(
        _place(*_names(*min(inside, key=lambda entry: _strangeness(entry[0].co_filename)))),
        tuple(_line(*_names(*entry)) for entry in reversed(inside[:_SHOWN])),
        debugged=any(_is_debugger(code.co_filename) for code, _ in inside),
        origin=origin,
    )


def _names(code: CodeType, line: int) -> tuple[str, int, str]:
    return code.co_filename, line, code.co_qualname


@lru_cache(maxsize=1000)
def _place(file: str, line: int, function: str) -> Place:
    return Place(short_path(file), line, _printable(function)[:_LONGEST_NAME])


@lru_cache(maxsize=1000)
def _line(file: str, line: int, function: str) -> str:
    return str(_place(file, line, function))


@lru_cache(maxsize=1000)
def short_path(file: str) -> str:
    """A file's path as its project knows it, at most 200 characters.

    It is relative to the working directory or, for installed packages and what lies elsewhere, to
    the entry of ``sys.path`` that it can be imported from.
    """
    real = os.path.realpath(file) if file.startswith(os.sep) else file
    roots = [os.path.realpath(entry) for entry in sys.path if isinstance(entry, str)]
    with suppress(OSError):  # the working directory may be gone
        here = str(Path.cwd())
        if real.startswith(_slash(here)) and not _strangeness(file):
            roots = [here]
    fitting = [root for root in roots if real.startswith(_slash(root))]
    short = real[len(_slash(max(fitting, key=len))) :] if fitting else file
    short = _printable(short)
    return short if len(short) <= _LONGEST_PATH else "…" + short[1 - _LONGEST_PATH :]


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)


def _slash(root: str) -> str:
    return root.rstrip(os.sep) + os.sep


@lru_cache(maxsize=1000)
def _strangeness(file: str) -> int:
    """0 for a project's own file, 1 for an installed package's, 2 for the standard library's."""
    if file.startswith("<frozen "):
        return 2
    if f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file:
        return 1
    own, library = _roots()
    return 1 if file.startswith(own) else 2 if file.startswith(library) else 0


@cache
def _roots() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parts of trilat, which run beside other people's code, and the standard library."""
    stdlib = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    library = {path for root in stdlib if root for path in (root, os.path.realpath(root))}
    own = [str(Path(root, part)) for root in sys.modules["trilat"].__path__ for part in _OWN_PARTS]
    return tuple(map(_slash, own)), tuple(map(_slash, library))


@lru_cache(maxsize=1000)
def _is_debugger(file: str) -> bool:
    if Path(file).name in ("bdb.py", "pdb.py"):
        return _strangeness(file) > 0
    return any(name in file for name in _DEBUGGERS)
