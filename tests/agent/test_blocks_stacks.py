"""Stacks of a running thread: where it is, and which line of it a person can change."""

from __future__ import annotations

import asyncio
import bdb
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import trilat.agent.lag
from trilat.agent import native
from trilat.agent.pauses import CollectorPauses
from trilat.agent.stacks import NO_CALLBACK, Place, short_path, take_stack


def code_in(file: str, body: str = "return inner()", name: str = "outer") -> Callable[..., Any]:
    """A function that calls its argument, and says that it comes from that file."""
    found: dict[str, Any] = {}
    exec(compile(f"def {name}(inner):\n    {body}", file, "exec"), found)
    function: Callable[..., Any] = found[name]
    return function


@contextmanager
def stopped_in(*calls: Callable[..., Any]) -> Iterator[tuple[int, int]]:
    """A thread that waits inside of calls into each other; its id and its depth below them."""
    reached, leave = threading.Event(), threading.Event()
    depth: list[int] = []
    innermost = code_in(json.decoder.__file__, "inner[0].set(); inner[1].wait()", "innermost")

    def run() -> None:
        frame: FrameType | None = sys._getframe()
        number = 0
        while frame is not None:
            number, frame = number + 1, frame.f_back
        depth.append(number)
        call: Callable[[], Any] = partial(innermost, (reached, leave))
        for outer in reversed(calls):
            call = partial(outer, call)
        call()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert reached.wait(60)
        yield thread.ident or 0, depth[0]
    finally:
        leave.set()
        thread.join(60)


def frame_in(thread: int, file: str) -> FrameType:
    """The innermost frame of a thread that is of that file."""
    frame: FrameType | None = sys._current_frames()[thread]
    while frame is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    assert frame is not None
    return frame


def test_the_innermost_line_of_the_project_is_named() -> None:
    """Not the library that it calls, and not what calls it."""
    main, view = code_in("/somewhere/app/main.py"), code_in("/somewhere/app/views.py", name="view")
    with stopped_in(main, view) as (at, base):
        stack = take_stack(at, base)
    assert stack is not None
    assert stack.place == Place("/somewhere/app/views.py", 2, "view")
    assert stack.lines[:3] == (
        "/somewhere/app/main.py:2 outer",
        "/somewhere/app/views.py:2 view",
        "json/decoder.py:2 innermost",
    )
    assert stack.lines[-1].startswith("threading.py:")
    assert not stack.debugged


def test_where_all_is_library_the_innermost_line_is_named() -> None:
    """A package that blocks is named itself, not somebody's line outside of the loop."""
    with stopped_in() as (at, base):
        stack = take_stack(at, base)
    assert stack is not None
    assert stack.place.file == "threading.py"
    assert stack.place.function.endswith("wait")


def test_where_all_is_library_a_package_is_named_before_the_standard_library() -> None:
    """It is the nearer to what somebody can change."""
    package = code_in("/x/site-packages/package/calls.py", name="calls")
    with stopped_in(package) as (at, base):
        stack = take_stack(at, base)
    assert stack is not None
    assert stack.place == Place("/x/site-packages/package/calls.py", 2, "calls")


def test_own_functions_are_of_no_interest() -> None:
    """A thread in one of the ignored functions has left what blocked it."""
    view = code_in("/somewhere/app/views.py")
    with stopped_in(view) as (at, base):
        assert take_stack(at, base, frozenset({view.__code__})) is None


def test_a_loop_outside_of_its_callbacks_blames_nobody() -> None:
    """It waited for a processor or the interpreter; `uvicorn.run()` in a main.py is innocent."""
    with stopped_in() as (at, base):
        stack = take_stack(at, base + 50)
    assert stack is not None
    assert stack.place == NO_CALLBACK
    assert stack.lines == ()


def test_what_runs_the_loop_is_left_out_at_whatever_depth() -> None:
    """A greenlet has its own outermost frame, and is told from others by it."""
    hub, view = code_in("/somewhere/hub.py", name="run"), code_in("/somewhere/app/views.py")
    with stopped_in(hub, view) as (at, base):
        inside = take_stack(at, base, around=frozenset({hub.__code__}))
        again = take_stack(at, base)
        outside = take_stack(at, base, around=frozenset({hub.__code__, view.__code__}))
    assert inside is not None
    assert again is not None
    assert outside is not None
    assert inside.lines[0] == "/somewhere/app/views.py:2 outer"
    assert again.lines[0] == "/somewhere/hub.py:2 run"
    assert outside.lines[0] == "json/decoder.py:2 innermost"
    assert inside.origin == again.origin != 0


def test_a_collection_is_found_at_the_line_that_set_it_off() -> None:
    """Not in what counts its time."""
    pauses = CollectorPauses()
    pauses.close()
    reached, leave = threading.Event(), threading.Event()

    def clock() -> int:
        reached.set()
        return leave.wait(60)

    pauses._now_ns = clock

    def collects() -> None:
        pauses._note("start", {})

    thread = threading.Thread(target=collects)
    thread.start()
    assert reached.wait(60)
    innermost = sys._current_frames()[thread.ident or 0]
    while innermost.f_code is not CollectorPauses.NOTING:
        assert innermost.f_back is not None
        innermost = innermost.f_back
    stack = take_stack(1, 0, frames=lambda: {1: innermost})
    leave.set()
    thread.join(60)
    assert stack is not None
    assert stack.lines[-1].endswith("collects")


def test_a_callback_without_a_python_frame_is_named_by_its_handle() -> None:
    """``loop.call_soon(time.sleep, 1)`` leaves no line of its own."""
    with stopped_in(code_in(asyncio.events.__file__, name="_run")) as (at, base):
        frames = {at: frame_in(at, asyncio.events.__file__)}
        stack = take_stack(at, base + 50, frames=lambda: frames)
    assert stack is not None
    assert stack.place.file == "asyncio/events.py"


@pytest.mark.parametrize("file", [bdb.__file__, "/x/site-packages/debugpy/_vendored/pydevd.py"])
def test_a_debugger_is_recognised(file: str) -> None:
    """Its time is nobody's block."""
    with stopped_in(code_in("/somewhere/app/views.py"), code_in(file)) as (at, base):
        stack = take_stack(at, base)
    assert stack is not None
    assert stack.debugged


def test_a_file_of_the_same_name_is_no_debugger() -> None:
    """Somebody may call a module pdb.py."""
    with stopped_in(code_in("/somewhere/app/pdb.py")) as (at, base):
        stack = take_stack(at, base)
    assert stack is not None
    assert not stack.debugged


def test_a_stack_is_bounded() -> None:
    """Deep recursion gives the innermost thirty lines; names and paths are cut."""
    deep = code_in("/" + "d" * 300 + "/x\n.py", "return outer_(inner, 900)")
    recursion = "return inner() if not n else outer_(inner, n - 1)"
    found: dict[str, Any] = {}
    exec(compile(f"def outer_(inner, n):\n    {recursion}", "/deep.py", "exec"), found)
    deep.__globals__["outer_"] = found["outer_"]
    with stopped_in(deep) as (at, base):
        stack = take_stack(at, base)
    assert stack is not None
    assert len(stack.lines) == 30
    short = short_path("/" + "d" * 300 + "/x\n.py")
    assert len(short) == 200
    assert short.isprintable()


def test_no_thread_no_stack() -> None:
    """It has ended meanwhile."""
    assert take_stack(1, 0) is None


def test_paths_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project's file from its working directory, a package from where it is imported."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    short_path.cache_clear()
    library = tmp_path / "venv" / "site-packages"
    monkeypatch.setattr(sys, "path", [str(tmp_path / "lib"), str(library), *sys.path])
    assert short_path(str(project / "app" / "views.py")) == "app/views.py"
    assert short_path(str(library / "fastapi" / "x.py")) == "fastapi/x.py"
    assert short_path(str(tmp_path / "lib" / "mine.py")) == "mine.py"
    assert short_path(json.__file__) == "json/__init__.py"
    assert short_path(trilat.agent.lag.__file__) == "trilat/agent/lag.py"
    assert short_path("<string>") == "<string>"
    short_path.cache_clear()


def test_a_native_thread_is_one() -> None:
    """Its number is the one under which the interpreter keeps its frames."""
    numbers: list[int] = []
    ended = native.lock()
    ended.acquire()

    def run() -> None:
        numbers.append(native.thread_id())
        numbers.extend(sys._current_frames())
        ended.release()

    native.start_thread(run)
    assert ended.acquire(timeout=60)
    assert numbers[0] in numbers[1:]
    assert numbers[0] != native.thread_id()
