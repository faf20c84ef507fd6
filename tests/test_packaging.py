"""The package: its lock file, its wheel, and the scripts that a fresh clone needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKED = re.compile(r"^([a-z0-9.-]+)==([^ ;\\]+)(?: ; ([^\\]+))?", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """The content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def lock() -> str:
    """The lock file's text."""
    return (ROOT / "requirements.lock").read_text()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel as it is built from this checkout."""
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (path,) = directory.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_lock_satisfies_every_requirement(project: dict[str, Any], lock: str) -> None:
    """A requirement that was added or raised without scripts/lock is found here."""
    versions: dict[str, list[str]] = {}
    for name, version, _ in LOCKED.findall(lock):
        versions.setdefault(name, []).append(version)
    wanted = [*project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    for dependency_group in project["dependency-groups"].values():
        wanted += dependency_group
    for requirement in map(Requirement, wanted):
        name = canonicalize_name(requirement.name)
        if name != "trilat":
            assert any(requirement.specifier.contains(each) for each in versions.get(name, [])), (
                f"{requirement}: run scripts/lock"
            )


def test_the_lock_pins_each_package_by_hash_and_names_no_place(lock: str) -> None:
    """No index, no host, no path: the same file for everybody."""
    entries = re.split(r"\n(?=[a-z])", lock)[1:]
    assert len(entries) > 50
    for entry in entries:
        assert HASH.search(entry), entry.splitlines()[0]
    assert "://" not in lock
    assert not re.search(r"^\s*--(?!hash)", lock, re.MULTILINE)
    assert not re.search(r"(^|[ =])/", HASH.sub("", lock), re.MULTILINE)


def test_the_wheel_holds_the_code_and_the_examples_and_nothing_else(
    wheel: zipfile.ZipFile,
) -> None:
    """A namespace package in parts: no ``trilat/__init__.py``, each part typed."""
    names = set(wheel.namelist())
    assert "trilat/__init__.py" not in names
    for part in ("agent", "middleware", "correlator", "locust"):
        assert f"trilat/{part}/__init__.py" in names
        assert f"trilat/{part}/py.typed" in names
    assert "trilat/correlator/schema/result-1.json" in names
    for name in ("service.py", "locustfile.py", "locustfile_fast.py"):
        assert f"trilat/correlator/_examples/fastapi/{name}" in names
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"trilat"}
    assert not [name for name in names if "__pycache__" in name]


def test_every_package_file_of_the_checkout_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    """Templates, styles and vendored scripts too: nothing is missing once installed."""
    names = set(wheel.namelist())
    for root in ("agent", "middleware", "correlator"):
        for path in (ROOT / root / "trilat").rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert path.relative_to(ROOT / root).as_posix() in names


def test_the_examples_run_from_an_unpacked_wheel(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """``trilat demo`` of an installed wheel finds its service beside its code."""
    wheel.extractall(tmp_path)
    code = "from trilat.correlator.examples import examples_folder; print(examples_folder())"
    # The copy's lines are not ours to cover.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        # Before the editable install's folders, as site-packages would be.
        env={**environment, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert Path(done.stdout.strip()) == tmp_path / "trilat/correlator/_examples"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout as ``./trilat`` in a folder of somebody else's."""
    folder = tmp_path / "trilat"
    without_caches = shutil.ignore_patterns("__pycache__")
    for name in ("agent", "middleware", "correlator", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=without_caches)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.mark.parametrize(
    ("folder", "what"),
    [(".", "./trilat"), (".", "./trilat[locust]"), ("trilat/examples/fastapi", "../..[demo]")],
)
def test_pip_installs_a_checkout_by_its_path(checkout: Path, folder: str, what: str) -> None:
    """All but the packages that it needs, for which pip would have to ask an index."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--no-deps"]
    command += ["--no-build-isolation", "--ignore-installed", what]
    done = subprocess.run(
        command,
        cwd=checkout.parent / folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "Would install trilat" in done.stdout
    assert "does not provide the extra" not in done.stderr


def test_a_checkout_beside_the_locustfile_does_not_hide_what_is_installed(checkout: Path) -> None:
    """A folder named trilat in the working directory is a part of the namespace package as well."""
    parts = ("trilat.agent", "trilat.middleware", "trilat.correlator", "trilat.locust")
    code = f"import {', '.join(parts)}\nfor part in ({', '.join(parts)}): print(part.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    files = done.stdout.splitlines()
    assert len(files) == len(parts)
    assert not [file for file in files if Path(file).is_relative_to(checkout)]


def _setup(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(folder / "scripts/setup")],
        cwd="/",
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def copy_of_scripts(tmp_path: Path) -> Path:
    """The scripts in a folder of another name, with a space, and nothing else."""
    folder = tmp_path / "a copy"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    return folder


def test_setup_refuses_an_old_python_with_the_remedy(copy_of_scripts: Path, tmp_path: Path) -> None:
    """One line that says which Python it is and how to name another."""
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\ncase "$2" in *platform*) echo 3.9.2;; *) exit 1;; esac\n')
    old.chmod(0o755)
    done = _setup(copy_of_scripts, PYTHON=str(old))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "is Python 3.9.2, trilat needs 3.11 or newer: PYTHON=" in done.stderr


def test_setup_says_what_is_missing(copy_of_scripts: Path, tmp_path: Path) -> None:
    """No such interpreter; or one without venv, as on a plain Debian."""
    done = _setup(copy_of_scripts, PYTHON="no-such-python")
    assert done.returncode == 1
    assert "no no-such-python here" in done.stderr
    bare = tmp_path / "python3.12"
    bare.write_text(
        '#!/bin/sh\ncase "$2" in *platform*) echo 3.12.1;; *ensurepip*) exit 1;; esac\n'
    )
    bare.chmod(0o755)
    done = _setup(copy_of_scripts, PYTHON=str(bare))
    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr


def test_setup_does_nothing_twice_and_repairs_what_was_interrupted(
    copy_of_scripts: Path, tmp_path: Path
) -> None:
    """A stamp is written after each step, and only then; the real thing runs in .ci/run."""
    (copy_of_scripts / "requirements.lock").write_text("one==1\n")
    package = copy_of_scripts / "pyproject.toml"
    package.write_text("")
    calls = tmp_path / "calls"
    # An interpreter whose environments hold a pip that only writes down what it is asked.
    fake = tmp_path / "python3"
    fake.write_text(
        f"""#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p "$3/bin"
    printf '#!/bin/sh\\necho "$@" >>"{calls}"\\n[ ! -e "{tmp_path}/fail" ]\\n' >"$3/bin/python"
    chmod +x "$3/bin/python"
    exit 0
fi
exec "{sys.executable}" "$@"
"""
    )
    fake.chmod(0o755)

    def steps() -> list[str]:
        done = _setup(copy_of_scripts, PYTHON=str(fake))
        said = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        words = ("--require-hashes", "--editable")
        seen = [word for line in said for word in words if word in line]
        return [*seen, str(done.returncode)]

    (tmp_path / "fail").touch()
    assert steps() == ["--require-hashes", "1"]
    (tmp_path / "fail").unlink()
    assert steps() == ["--require-hashes", "--editable", "0"]
    assert steps() == ["0"]
    package.write_text("# changed")
    assert steps() == ["--editable", "0"]
    (copy_of_scripts / "requirements.lock").write_text("one==2\n")
    assert steps() == ["--require-hashes", "--editable", "0"]


def test_the_demo_script_hands_its_arguments_on() -> None:
    """``scripts/demo`` sets up, where that is needed, and is then ``trilat demo``."""
    if not (ROOT / ".venv/project.stamp").is_file():
        pytest.skip("this environment was not made by scripts/setup")
    done = subprocess.run(
        [str(ROOT / "scripts/demo"), "--help"],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "Usage: trilat demo" in done.stdout
