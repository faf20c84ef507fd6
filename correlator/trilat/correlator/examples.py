"""Where the examples lie: inside an installed wheel, or in the checkout of an editable install."""

from __future__ import annotations

from pathlib import Path

from trilat.agent.errors import InputError

__all__ = ["examples_folder"]

_HERE = Path(__file__).parent
_PLACES = (_HERE / "_examples", _HERE.parents[2] / "examples")


def examples_folder(places: tuple[Path, ...] = _PLACES) -> Path:
    """The folder that holds ``fastapi/service.py`` and the locustfiles beside it.

    Raises:
        InputError: this installation has no examples.
    """
    for place in places:
        if (place / "fastapi" / "service.py").is_file():
            return place
    raise InputError(f"{places[0]}: the examples are missing from this installation of trilat")
