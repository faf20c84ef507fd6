"""The directory in which processes find each other is this user's own, or is refused."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from trilat.agent.statedir import hold, is_held, locked, state_directory


def test_the_directory_is_made_for_this_user_alone(tmp_path: Path) -> None:
    """Others can neither read nor write it, whatever the umask."""
    made = state_directory(tmp_path / "a" / "b")
    assert made == tmp_path / "a" / "b"
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert state_directory(made) == made


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option goes before the variables, those before the directory for temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    state, runtime = str(tmp_path / "state"), str(tmp_path / "run")
    variables = {"TRILAT_STATE": state, "XDG_RUNTIME_DIR": runtime}
    assert state_directory(tmp_path / "option", variables) == tmp_path / "option"
    assert state_directory(None, variables) == Path(state)
    assert state_directory(None, {"XDG_RUNTIME_DIR": runtime}) == Path(runtime, "trilat")
    assert state_directory(None, {}) == tmp_path / "tmp" / f"trilat-{os.geteuid()}"


def test_a_runtime_directory_that_cannot_be_used_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be another user's, after `su`."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").touch()
    found = state_directory(None, {"XDG_RUNTIME_DIR": str(tmp_path / "file")})
    assert found == tmp_path / f"trilat-{os.geteuid()}"


def test_what_others_can_write_is_refused(tmp_path: Path) -> None:
    """A directory that others can write to, a link and a file are refused."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o770)
    (tmp_path / "good").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("good")
    (tmp_path / "file").touch()
    for name in ("open", "link", "file"):
        with pytest.raises(OSError, match=name):
            state_directory(tmp_path / name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_others_is_refused(tmp_path: Path) -> None:
    """Another user's directory is refused though root could use it."""
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", 1, 1)
    with pytest.raises(PermissionError, match="another user"):
        state_directory(tmp_path / "theirs")


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    """While one holds the lock no other gets it, and then the next one does."""
    with locked(tmp_path / "lock", 0) as first:
        assert first
        with locked(tmp_path / "lock", 0.02) as second:
            assert not second
    with locked(tmp_path / "lock", 0) as third:
        assert third


def test_a_held_file_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    """The kernel frees what a process held, however it ended."""
    path = tmp_path / "file"
    path.touch()
    code = (
        "import sys; from pathlib import Path; from trilat.agent.statedir import hold;"
        " hold(Path(sys.argv[1])); print('held', flush=True); input()"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        assert is_held(path)
        child.kill()
        child.wait()
        assert not is_held(path)
    descriptor = hold(path)
    assert is_held(path)
    os.close(descriptor)
