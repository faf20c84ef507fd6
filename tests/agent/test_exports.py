"""What the modules of the service's side offer."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import trilat.agent
import trilat.middleware

MODULES = [
    importlib.import_module(found.name)
    for package in (trilat.agent, trilat.middleware)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_exports_are_complete_and_explained(module: ModuleType) -> None:
    """Each module lists what it offers: functions and classes all have a docstring."""
    assert module.__doc__
    assert isinstance(module.__file__, str)
    defined = [
        node
        for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {node.name for node in defined} <= set(module.__all__)
    assert all(ast.get_docstring(node) for node in defined)
    assert all(hasattr(module, name) for name in module.__all__)


def test_importing_the_middleware_is_light_and_silent() -> None:
    """A service that imports the middleware gets nothing heavy, no threads and no output."""
    code = (
        "import sys, threading; import trilat.middleware;"
        " heavy = {'numpy', 'locust', 'gevent', 'starlette', 'fastapi', 'httpx', 'click', 'rich'};"
        " print(sorted(heavy & set(sys.modules)), threading.active_count())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert (ran.stdout, ran.stderr) == ("[] 1\n", "")
