"""Where a thread is: its Python stack, and the line in it that a person can change."""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FrameType

__all__ = ["NO_CALLBACK", "Place", "Stack", "short_path", "take_stack"]

_DEEPEST = 500
_SHOWN = 30
_LONGEST_PATH = 200
_LONGEST_NAME = 100
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
            trilat; where all lines are inside, the innermost.
        lines: ``file:line function``, at most the 30 innermost, the innermost last.
        debugged: whether a debugger had the thread.
    """

    place: Place
    lines: tuple[str, ...]
    debugged: bool = False


def take_stack(
    thread_id: int,
    base_depth: int,
    ignored: frozenset[CodeType] = frozenset(),
    frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames,
) -> Stack | None:
    """The stack of a thread that runs an event loop, from the loop's callback inwards.

    What called the loop is left out: ``uvicorn.run()`` in somebody's ``main.py`` is a line of
    theirs, and blocks nothing.

    Args:
        thread_id: as `threading.get_ident` tells.
        base_depth: number of frames below a callback of the loop.
        ignored: functions in which a thread is of no interest.
        frames: the innermost frame of every thread.

    Returns:
        The stack, or None when there is no such thread, or it is in such a function.
    """
    frame = frames().get(thread_id)
    if frame is None:
        return None
    # Frames keep their locals alive: only code and line numbers are kept, and the walk is short.
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < _DEEPEST:
        found.append((frame.f_code, frame.f_lineno or 0))
        frame = frame.f_back
    del frame
    inside = found[: max(len(found) - base_depth, 0)] if len(found) < _DEEPEST else found
    if not inside and found[0][0].co_filename == asyncio.events.__file__:
        inside = found[:1]  # Handle._run, with a callback that is written in C
    if any(code in ignored for code, _ in inside):
        return None
    if not inside:
        return Stack(NO_CALLBACK, ())
    return Stack(
        _place(*next((entry for entry in inside if not _is_library(entry[0])), inside[0])),
        tuple(str(_place(*entry)) for entry in reversed(inside[:_SHOWN])),
        debugged=any(_is_debugger(code) for code, _ in inside),
    )


def _place(code: CodeType, line: int) -> Place:
    return Place(short_path(code.co_filename), line, _printable(code.co_qualname)[:_LONGEST_NAME])


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
        if real.startswith(_slash(here)) and not _is_library_file(file):
            roots = [here]
    fitting = [root for root in roots if real.startswith(_slash(root))]
    short = real[len(_slash(max(fitting, key=len))) :] if fitting else file
    short = _printable(short)
    return short if len(short) <= _LONGEST_PATH else "…" + short[1 - _LONGEST_PATH :]


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)


def _slash(root: str) -> str:
    return root.rstrip(os.sep) + os.sep


def _is_library(code: CodeType) -> bool:
    return _is_library_file(code.co_filename)


@lru_cache(maxsize=1000)
def _is_library_file(file: str) -> bool:
    if file.startswith("<frozen "):
        return True
    if f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file:
        return True
    return file.startswith(_library_roots())


@cache
def _library_roots() -> tuple[str, ...]:
    """The standard library, and the parts of trilat that run inside of a service."""
    stdlib = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    roots = {path for root in stdlib if root for path in (root, os.path.realpath(root))}
    for root in sys.modules["trilat"].__path__:
        roots |= {str(Path(root, part)) for part in ("agent", "middleware")}
    return tuple(_slash(root) for root in roots)


def _is_debugger(code: CodeType) -> bool:
    file = code.co_filename
    if Path(file).name in ("bdb.py", "pdb.py"):
        return _is_library_file(file)
    return any(name in file for name in _DEBUGGERS)
