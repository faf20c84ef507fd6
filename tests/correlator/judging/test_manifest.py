"""The manifest: nothing secret gets into it, and nothing damaged gets out of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilat.agent.errors import InputError
from trilat.correlator.run.manifest import Manifest, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

_SECRET = "hunter2-very-secret"


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--trilat-token", _SECRET, "-u", "5"], ["--trilat-token", "***", "-u", "5"]),
        ([f"--trilat-token={_SECRET}"], ["--trilat-token=***"]),
        (["--trilat-to", _SECRET], ["--trilat-to", "***"]),
        ([f"--trilat-tok={_SECRET}"], ["--trilat-tok=***"]),
        (["--db-password", _SECRET], ["--db-password", "***"]),
        ([f"--PASSWORD={_SECRET} with more"], ["--PASSWORD=***"]),
        (["--api-key", _SECRET], ["--api-key", "***"]),
        (["--web-login", "--headless"], ["--web-login", "--headless"]),
        (["--auth-header", _SECRET], ["--auth-header", "***"]),
        ([f"http://joe:{_SECRET}@host:8/a"], ["http://***@host:8/a"]),
        ([f"--host=https://joe:a@b{_SECRET}@host"], ["--host=https://***@host"]),
        ([f"http://h/a?token={_SECRET}&b=1"], ["http://h/a?token=***&b=1"]),
        (
            ["--header", f"Authorization: Bearer {_SECRET}"],
            ["--header", "Authorization: ***"],
        ),
        ([f"Authorization:{_SECRET}"], ["Authorization:***"]),
        (["Authorization:", "Bearer", _SECRET], ["Authorization:", "***", "***"]),
        ([f"X-Api-Key: {_SECRET}"], ["X-Api-Key: ***"]),
        ([f"Cookie: session={_SECRET}; b={_SECRET}"], ["Cookie: ***"]),
        ([f"Bearer {_SECRET}"], ["Bearer ***"]),
        (["Bearer", _SECRET], ["Bearer", "***"]),
        ([f"SERVICE_TOKEN={_SECRET}"], ["SERVICE_TOKEN=***"]),
        ([f"a=1&key=b=token={_SECRET}"], ["a=1&key=b=token=***"]),
        ([f'{{"X-Api-Key": "{_SECRET}", "a": 1}}'], ['{"X-Api-Key": "***", "a": 1}']),
    ],
)
def test_secrets_leave_the_command_line(argv: list[str], shown: list[str]) -> None:
    """Values of secret options, headers, URLs and assignments are replaced, the rest stays."""
    assert without_secrets(argv) == shown
    assert _SECRET not in " ".join(without_secrets(argv))


@pytest.mark.parametrize(
    "argv",
    [
        ["locust", "-f", "locustfile.py", "--headless", "-u", "100", "-r", "10", "-t", "30s"],
        ["--host", "https://auth.example:8080/path", "--tls-key", "key.pem"],
        ["--host=https://example.org/users/@me?page=2"],
        ["--trilat-target-rate", "100", "--trilat-slo", "p95<=50ms @ GET /a"],
        ["--trilat-target-rate=100", "--trilat-slo=fail_ratio<=1%"],
    ],
)
def test_harmless_arguments_stay(argv: list[str]) -> None:
    """What is no secret is shown as it was."""
    assert without_secrets(argv) == argv


@given(st.lists(st.text(max_size=40), max_size=6))
def test_hiding_twice_hides_no_more(argv: list[str]) -> None:
    """Any command line keeps its length, and what was cleaned once stays as it is."""
    shown = without_secrets(argv)
    assert len(shown) == len(argv)
    assert without_secrets(shown) == shown


@pytest.mark.parametrize(
    "piece",
    ["token", "a", "auth-", "token=", "token:", "token: ", " ", "//", "//a", "@", "x=", "bearer ",
     "--token", "token\"", "auth: \"", "=", ":", "-", "cookie=a&"],
)  # fmt: skip
def test_a_long_argument_does_not_hang(piece: str) -> None:
    """A hundred thousand characters of whatever kind are cut, and hiding twice hides no more."""
    for head in ("", "--data=", "http://"):
        argument = head + piece * (100_000 // len(piece))
        shown = without_secrets([argument])
        assert len(shown[0]) <= 2000 or shown[0].endswith("=***")
        assert without_secrets(shown) == shown


def test_a_long_argument_is_cut_with_its_length() -> None:
    """What was cut off is told, and a password whose end is cut off does not stay."""
    shown = without_secrets([f"http://joe:{_SECRET * 200}@host"])[0]
    assert _SECRET not in shown
    assert shown.endswith(" characters)")
    assert without_secrets([f"--token={_SECRET * 200}"]) == ["--token=***"]


@given(st.text(alphabet="token=:/@ \"'&-abBEARER", max_size=3000))
def test_cutting_twice_cuts_no_more(argument: str) -> None:
    """Any argument, cleaned once, stays as it is."""
    shown = without_secrets([argument])
    assert without_secrets(shown) == shown


def test_a_manifest_survives_its_file(make_manifest: Callable[..., Manifest]) -> None:
    """What is written as JSON is read back as the same manifest."""
    manifest = make_manifest(
        objectives=["p95<=50ms"],
        lost={"unmarked": 3},
        notes=["a"],
        pid=4711,
        planned_s=60.0,
        users_wanted=20,
        failures=[{"name": "/items", "error": "connection refused", "count": 20}],
    )
    text = json.dumps(manifest.to_json(), allow_nan=False)
    assert Manifest.from_json(json.loads(text), "run.json") == manifest


def test_a_manifest_never_holds_a_secret(make_manifest: Callable[..., Manifest]) -> None:
    """Command line and target are cleaned when the manifest is written, whoever made it."""
    manifest = make_manifest(
        command=["locust", "--trilat-token", _SECRET],
        target_host=f"http://joe:{_SECRET}@127.0.0.1:8000",
        failures=[{"name": "/", "error": f"no http://a:{_SECRET}@h/?token={_SECRET}", "count": 1}],
    )
    assert _SECRET not in json.dumps(manifest.to_json())


def test_keys_of_later_releases_are_ignored(make_manifest: Callable[..., Manifest]) -> None:
    """A manifest with keys that this release does not know is read without them."""
    manifest = make_manifest()
    assert Manifest.from_json({**manifest.to_json(), "future": {"a": 1}}, "run.json") == manifest


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("run_id", 7, "run.json.run_id"),
        ("run_id", "../../etc", "run.json.run_id"),
        ("started_wall_ns", "now", "run.json.started_wall_ns"),
        ("started_wall_ns", True, "run.json.started_wall_ns"),
        ("started_wall_ns", -1, "run.json.started_wall_ns"),
        ("started_wall_ns", 10**30, "run.json.started_wall_ns"),
        ("measured_s", "30", "run.json.measured_s"),
        ("users", 1.5, "run.json.users"),
        ("users", None, "run.json.users"),
        ("host", [], "run.json.host"),
        ("host", {"cpus": "two"}, "run.json.host.cpus"),
        ("command", "locust", "run.json.command"),
        ("command", ["locust", 3], "run.json.command[1]"),
        ("user_classes", [{"name": "A"}], "run.json.user_classes[0]"),
        ("run_mode", "cluster", "run.json.run_mode"),
        ("objectives", [None], "run.json.objectives[0]"),
        ("generator_cpu_percent", {"mean": 3}, "run.json.generator_cpu_percent"),
        ("lost", {"unmarked": "many"}, "run.json.lost.unmarked"),
        ("schema", "trilat.run/9", "run.json.schema"),
        ("kernel_stamps", 1, "run.json.kernel_stamps"),
        ("pid", "1", "run.json.pid"),
        ("planned_s", -1.0, "run.json.planned_s"),
        ("users_wanted", 2.5, "run.json.users_wanted"),
        ("failures", [{"name": "/"}], "run.json.failures[0]"),
    ],
)
def test_a_wrong_type_is_named_with_its_place(
    key: str, value: Any, place: str, make_manifest: Callable[..., Manifest]
) -> None:
    """Damage in any key is an InputError that says in which file and where."""
    damaged = {**make_manifest().to_json(), key: value}
    with pytest.raises(InputError) as caught:
        Manifest.from_json(damaged, "run.json")
    assert str(caught.value).startswith(f"{place}: ")


@pytest.mark.parametrize("value", [None, 3, "run", [], [{}], {}])
def test_something_else_is_no_manifest(value: Any) -> None:
    """Whatever JSON value stands in the file, only an InputError comes of it."""
    with pytest.raises(InputError):
        Manifest.from_json(value, "run.json")


def test_a_missing_key_is_named(make_manifest: Callable[..., Manifest]) -> None:
    """A manifest without its run id says so."""
    damaged = make_manifest().to_json()
    del damaged["run_id"]
    with pytest.raises(InputError, match=r"run\.json: run_id is missing"):
        Manifest.from_json(damaged, "run.json")


def test_a_manifest_can_be_completed(make_manifest: Callable[..., Manifest]) -> None:
    """The manifest of a run's end is that of its start with the end put in."""
    start = make_manifest(ended_wall_ns=None, measured_s=None)
    assert replace(start, measured_s=2.5).to_json()["measured_s"] == 2.5
