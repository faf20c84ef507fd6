"""The entry point: help that teaches, errors of one line, exit codes that mean one thing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trilat.agent.errors import InputError
from trilat.correlator import cli
from trilat.correlator.commands.group import trilat as group


def test_help_names_the_first_commands_and_every_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who asks for help learns where to start and what an exit code says."""
    assert cli.run(["--help"]) == 0
    text = capsys.readouterr().out
    for word in ("trilat demo", "trilat doctor", "trilat run", "invalid", "70", "130"):
        assert word in text


def test_no_arguments_show_the_help_and_are_wrong_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A bare ``trilat`` in a script must not look like a passed run."""
    assert cli.run([]) == cli.EXIT_USAGE
    assert "trilat demo" in capsys.readouterr().out


def test_version_is_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    """``trilat --version`` says what a manifest says."""
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("trilat 0.")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nothing"], "No such command"),
        (["run", "--headless"], "behind --"),
        (["check", "somewhere"], "--slo"),
        (["report"], "RUN"),
        (["report", "/no/such/run"], "/no/such/run: no such directory"),
        (["demo", "--seconds", "1"], "--seconds"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(
    arguments: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake is answered by one line that says what is wrong."""
    assert cli.run(arguments) == cli.EXIT_USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("trilat: error: ")
    assert captured.err.count("\n") == 1
    assert part in captured.err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("run.json: damaged"), 2, "trilat: error: run.json: damaged\n"),
        (
            FileNotFoundError(2, "No such file or directory", "x.json"),
            2,
            "trilat: error: x.json: No such file or directory\n",
        ),
        (KeyboardInterrupt(), 130, "trilat: error: interrupted\n"),
    ],
)
def test_expected_errors_become_one_line(
    error: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What a person can mend is said in a line, without a traceback."""
    _make_doctor_raise(error, monkeypatch)
    assert cli.run(["doctor"]) == code
    assert capsys.readouterr().err == line


def test_a_defect_has_its_own_code_and_shows_its_traceback_only_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error nobody expected must not be taken for a verdict."""
    _make_doctor_raise(ZeroDivisionError("by zero"), monkeypatch)
    assert cli.run(["doctor"]) == cli.EXIT_INTERNAL
    text = capsys.readouterr().err
    assert "ZeroDivisionError: by zero" in text
    assert "--debug" in text
    assert text.count("\n") == 1
    with pytest.raises(ZeroDivisionError):
        cli.run(["--debug", "doctor"])


def _make_doctor_raise(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(group.commands["doctor"], "callback", fail)


def test_without_click_it_says_what_to_install() -> None:
    """A service's installation has the command too, but not what it needs."""
    code = "import sys; sys.modules['click'] = None; from trilat.correlator.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == cli.EXIT_USAGE
    assert done.stderr == ("trilat: error: click is not installed; pip install 'trilat[locust]'\n")


def test_a_reader_that_leaves_early_is_no_error(
    trilat_command: list[str], finished_run: Path
) -> None:
    """``trilat report … | head -1`` ends quietly."""
    command = [*trilat_command, "report", str(finished_run), "--format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(60) in (0, 141)
    assert said == b""


def test_importing_the_commands_loads_nothing_heavy() -> None:
    """Help and completion answer at once: numpy, rich and Locust come with the work."""
    code = (
        "import sys; from trilat.correlator.commands import group; "
        "print([n for n in ('numpy', 'rich', 'locust', 'gevent', 'uvicorn') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_an_interrupt_while_the_commands_are_loaded_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C right after Enter shows no traceback."""

    class Interrupting:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "trilat.correlator.commands.group":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "trilat.correlator.commands.group")
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert cli.run(["doctor"]) == cli.EXIT_INTERRUPTED
    assert capsys.readouterr().err == "trilat: error: interrupted\n"
