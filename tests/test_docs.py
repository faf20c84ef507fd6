"""The documentation cannot lie: its code runs, its links lead somewhere, its lists are whole."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from trilat.correlator.commands.group import trilat as group

from .pages import PAGES, ROOT, blocks

PLUGIN_OPTION = re.compile(r'"(--trilat-[a-z-]+)"')
# What a block takes for given that shows a line or two of a service.
A_SERVICE = """
from types import SimpleNamespace

from fastapi import FastAPI

app = FastAPI()
settings = SimpleNamespace(token="a-token")
"""
TOKEN = "of-a-test"


def test_no_page_installs_trilat_by_its_name() -> None:
    """It is in no package index: ``pip install`` takes the path of a checkout."""
    for page in PAGES:
        assert not re.search(r"pip install (?:-\S+ )*'?trilat\b", page.read_text()), page.name


@pytest.mark.parametrize(
    "block", [pytest.param(block, id=page.stem) for page, block in blocks("python")]
)
def test_python_in_the_pages_runs(block: str, tmp_path: Path) -> None:
    """Each block by itself, in a process of its own, since importing Locust patches it."""
    file = tmp_path / "block.py"
    takes_for_given = "app." in block and "app = " not in block
    file.write_text((A_SERVICE if takes_for_given else "") + block)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/settings.py").write_text('SECRET_KEY = "of-a-test"\n')  # for Django
    subprocess.run(
        [sys.executable, str(file)],
        cwd=tmp_path,
        env={**os.environ, "TRILAT_COLLECT_TOKEN": TOKEN},
        timeout=60,
        check=True,
    )


def test_links_between_the_pages_lead_somewhere() -> None:
    """Every relative link and image is a file of the repository."""
    for page in PAGES:
        for target in re.findall(r'(?:\]\(|src(?:set)?=")([^)"#]+)', page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_page_of_the_command_line_is_fresh() -> None:
    """``scripts/docs`` has to be run when a help text was changed."""
    spec = importlib.util.spec_from_file_location("cli_help", ROOT / "scripts/cli_help.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs/cli.md").read_text() == module.page()


def test_every_command_and_every_option_has_help() -> None:
    """Whoever adds an option explains it."""
    for command in (group, *group.commands.values()):
        assert command.help, command.name
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{command.name} {parameter.opts}"


def test_every_option_of_the_plugin_is_in_the_pages() -> None:
    """docs/locust.md lists what trilat adds to Locust, except what it hides."""
    source = (ROOT / "correlator/trilat/locust/options.py").read_text()
    page = (ROOT / "docs/locust.md").read_text()
    shown = set(PLUGIN_OPTION.findall(source)) - set(
        re.findall(r'"(--trilat-[a-z-]+)",[^)]*help=argparse\.SUPPRESS', source)
    )
    assert shown
    for option in shown:
        assert f"`{option}" in page, option


def test_no_page_names_what_is_only_on_one_machine() -> None:
    """Paths under a home or a work folder mean nothing to a reader."""
    for page in PAGES:
        assert not re.search(r"/(?:work|root|home)/", page.read_text()), page.name


def test_the_shell_scripts_are_bash_that_parses() -> None:
    """Every script says that errors end it, and is executable."""
    bash = shutil.which("bash")
    assert bash is not None
    for script in (*ROOT.glob("scripts/*"), *ROOT.glob(".ci/*")):
        if script.suffix or not script.is_file():
            continue
        assert "set -euo pipefail" in script.read_text(), script.name
        assert script.stat().st_mode & 0o111, script.name
        subprocess.run([bash, "-n", str(script)], check=True, timeout=30)
