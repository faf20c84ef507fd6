"""Whatever fails inside the middleware, the request goes on untouched."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from trilat.agent.clock import Clock
from trilat.agent.journal import JournalWriter
from trilat.agent.lag import LoopLag
from trilat.agent.observer import Observer
from trilat.agent.vitals import Vitals
from trilat.agent.workers import WorkerGroup
from trilat.middleware import exchange as exchange_module
from trilat.middleware import marks, station
from trilat.middleware.ledger import Ledger
from trilat.middleware.rounds import Rounds
from trilat.middleware.routes import RouteLabels
from trilat.middleware.store import Store
from trilat.middleware.threads import ThreadPoolWatch

if TYPE_CHECKING:
    from tests.middleware.conftest import Observed

    from trilat.middleware import TrilatMiddleware
    from trilat.middleware.asgi import ASGIApp, Message, Receive, Scope, Send

TRACEPARENT = (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
MARKED = [(b"host", b"x"), TRACEPARENT, (b"trilat-run", b"0123456789ab")]
START: Message = {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]}
BODY: Message = {"type": "http.response.body", "body": b"ok"}


def sending(*messages: Message) -> ASGIApp:
    """An application that sends these very objects."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return app


class Broken(Exception):
    """What the tests of failures raise inside trilat's code."""


def _raise(*_args: object, **_kwargs: object) -> Any:
    raise Broken


def _broken_at(number: int) -> Callable[[], int]:
    looks = itertools.count(1)
    return lambda: _raise() if next(looks) == number else 5


OUT_OF_RANGE = Clock(monotonic_ns=lambda: 5, wall_ns=lambda: 2**63)
"""Fits neither a stamp nor an exemplar."""


@pytest.mark.parametrize(
    ("owner", "name", "failures"),
    [
        (exchange_module, "read_marks", 1),
        (marks, "run_is_allowed", 1),
        (marks, "trace_context", 1),
        (marks, "queued_ms", 1),
        (marks, "server_timing", 1),
        (Ledger, "add", 1),
        (Ledger, "_find", 1),
        (Ledger, "know_run", 1),
        (Ledger, "_exemplify", 1),
        (RouteLabels, "label", 1),
        (RouteLabels, "_learn", 1),
        (JournalWriter, "ready", 1),
        (JournalWriter, "wrote", 1),
        (JournalWriter, "name_id", 1),
        (LoopLag, "wake", 2),  # at the station's begin, and at the request
        (station, "process_identity", 1),
        (station, "Store", 1),
        (WorkerGroup, "enter", 1),
        (Observer, "start", 1),
        (Rounds, "open", 1),
        (ThreadPoolWatch, "attach", 1),
    ],
    ids=lambda part: getattr(part, "__name__", str(part)).rpartition(".")[2],
)
def test_failure_in_a_step_leaves_the_request_alone(
    *,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    observed: Observed,
    tmp_path: Path,
    owner: Any,
    name: str,
    failures: int,
) -> None:
    """Each step may fail: the answer is the application's own, and the log has one line."""
    monkeypatch.setattr(owner, name, _raise)
    app = observed.wrap(sending(START, BODY), journal=tmp_path / "journal")
    _assert_unharmed(app, observed, caplog, failures)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Vitals, "read"), (Store, "close"), (Observer, "stop"), (LoopLag, "stop")],
    ids=lambda part: getattr(part, "__name__", str(part)),
)
def test_failure_at_the_end_leaves_nothing_open(
    *,
    monkeypatch: pytest.MonkeyPatch,
    observed: Observed,
    tmp_path: Path,
    owner: Any,
    name: str,
) -> None:
    """What fails while a station closes is counted, and the rest is closed all the same."""
    observed.exchange(MARKED).run(observed.wrap(sending(START, BODY), journal=tmp_path / "kept"))
    closed: list[str] = []
    for other, step in ((Store, "close"), (LoopLag, "stop"), (Vitals, "close")):
        whole = getattr(other, step)
        monkeypatch.setattr(other, step, _noting(closed, f"{other.__name__}.{step}", whole))
    with monkeypatch.context() as failing:
        failing.setattr(owner, name, _raise)
        observed.station.close()
    assert observed.health.errors >= 1  # the observer's thread may have come by, too
    expected = {"Store.close", "LoopLag.stop", "Vitals.close"} - {f"{owner.__name__}.{name}"}
    assert set(closed) == expected


def _noting(names: list[str], name: str, step: Callable[..., Any]) -> Callable[..., Any]:
    def noting(*given: Any) -> Any:
        names.append(name)
        return step(*given)

    return noting


@pytest.mark.parametrize(
    "clock",
    [
        Clock(monotonic_ns=lambda: 5, wall_ns=_raise),
        Clock(monotonic_ns=_raise, wall_ns=lambda: 5),
        Clock(monotonic_ns=_broken_at(2), wall_ns=lambda: 5),
        OUT_OF_RANGE,
    ],
    ids=["wall", "first look", "second look", "range"],
)
def test_failure_of_a_clock_leaves_the_request_alone(
    caplog: pytest.LogCaptureFixture, observed: Observed, clock: Clock
) -> None:
    """The same for each look at a clock, and for a number that does not fit."""
    app = observed.wrap(sending(START, BODY), clock=clock)
    _assert_unharmed(app, observed, caplog, 1 if clock is not OUT_OF_RANGE else 2)


def _assert_unharmed(
    app: TrilatMiddleware, observed: Observed, caplog: pytest.LogCaptureFixture, failures: int
) -> None:
    exchange = observed.exchange(MARKED).run(app)
    start, body = exchange.sent
    assert {**start, "headers": start["headers"][:1]} == START  # nothing but a stamp is added
    assert len(start["headers"]) == 1 + len(exchange.stamps)
    assert body is BODY
    assert observed.health.errors == failures
    (record,) = caplog.records
    assert record.name == "trilat.middleware"
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None


def test_failures_are_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, observed: Observed
) -> None:
    """A step that fails for each request fills the counter, not the log."""
    monkeypatch.setattr(marks, "queued_ms", _raise)
    app = observed.wrap(sending(START, BODY))
    for _ in range(5):
        observed.exchange(MARKED).run(app)
    assert observed.health.errors == 5
    assert len(caplog.records) == 1


def test_failure_of_the_log_leaves_the_request_alone(
    monkeypatch: pytest.MonkeyPatch, observed: Observed
) -> None:
    """Not even a logging handler that raises gets into the request's way."""
    monkeypatch.setattr(marks, "queued_ms", _raise)
    monkeypatch.setattr("trilat.middleware.health.logger.warning", _raise)
    exchange = observed.exchange(MARKED).run(observed.wrap(sending(START)))
    assert exchange.sent[0] is START
    assert observed.health.errors == 1


@pytest.mark.parametrize("headers", [None, 5, [None], [(b"one",)], [(b"one", b"two", b"three")]])
def test_broken_scope_is_the_applications_to_judge(observed: Observed, headers: Any) -> None:
    """Headers that are none leave the request to the application, as they came."""
    exchange = observed.exchange(headers).run(observed.wrap(sending(START)))
    assert exchange.sent[0] is START
    assert exchange.scope["headers"] is headers
    assert observed.health.errors == 1


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"type": "http.response.start"},
        {"type": "http.response.start", "status": None},
        {"type": "http.response.start", "status": 200, "headers": None},
        {"type": "http.response.start", "status": 200, "headers": 5},
    ],
)
def test_broken_message_is_the_servers_to_judge(observed: Observed, message: Message) -> None:
    """A message that is none goes to the server as it came."""
    exchange = observed.exchange(MARKED).run(observed.wrap(sending(message)))
    assert exchange.sent[0] is message
    assert observed.health.errors == 1
