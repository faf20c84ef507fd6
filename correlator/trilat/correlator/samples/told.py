"""What both sides told of themselves during a run, beside its requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .generator import GeneratorFigures, generator_figures
from .service import ServiceFigures, figures_of

if TYPE_CHECKING:
    from .sampled import Sampled

__all__ = ["Told", "told_of"]


@dataclass(frozen=True, slots=True)
class Told:
    """Both sides' figures.

    Attributes:
        service: what the service told; None where nothing was sampled of it.
        generator: what the generator told; None where nothing was.
        remarks: why that may be.
    """

    service: ServiceFigures | None = None
    generator: GeneratorFigures | None = None
    remarks: tuple[str, ...] = ()


def told_of(sampled: Sampled | None) -> Told:
    """The figures from samples; None: nobody looked for any."""
    if sampled is None:
        return Told()
    return Told(figures_of(sampled), generator_figures(sampled), sampled.remarks)
