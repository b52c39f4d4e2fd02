"""How a posterior came out: a status inside the result, not a silent NaN."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

__all__ = ["NoiseAwarePosterior", "Status"]


class Status(Enum):
    """What the released trace says about the fit."""

    OK = "ok"
    NOT_CONVERGED = "not_converged"
    CURVATURE_UNIDENTIFIED = "curvature_unidentified"
    DIVERGED = "diverged"

    @property
    def words(self) -> str:
        """The status for people, with what to do."""
        return {
            Status.OK: "the trace settled as its model says it should, and decides the posterior",
            Status.NOT_CONVERGED: (
                "the trace still drifts, or gradients are not linear along it, or the optimum "
                "lies outside where it went: the intervals rest on extrapolation; allow more "
                "steps, or plan again"
            ),
            Status.CURVATURE_UNIDENTIFIED: (
                "the trace says little about the curvature, so the intervals lean on its prior; "
                "allow more time constants (a larger rate), or a larger epsilon"
            ),
            Status.DIVERGED: (
                "the iterates ran away: this posterior is not usable; lower the step size"
            ),
        }[self]


class NoiseAwarePosterior(NamedTuple):
    """Draws of the trace model's unknowns."""

    optimum: np.ndarray
    """Draws x parameters: the variational optimum phi*."""
    curvature: np.ndarray
    """Draws x parameters, or draws x parameters x parameters: A."""
    identified: bool
    """Whether the trace, not the prior, decides the curvature."""
    believed: bool = False
    """Whether what the model expects of clipping and bending was taken off."""
