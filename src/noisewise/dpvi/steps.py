"""Step sizes: the paper's heuristic, and ours from the curvature."""

from __future__ import annotations

import math

import numpy as np


def heuristic_step(noise_multiplier: float, clip_norm: float, steps: int, parameters: int) -> float:
    """sqrt(2) / (sigma C sqrt(T d)): NA-DPVI eq. A58 with lambda_c = 1.

    Times beta, element by element, where gradients are preconditioned (NA-DPVI App. H.2).
    """
    return math.sqrt(2) / (noise_multiplier * clip_norm * math.sqrt(steps * parameters))


def curvature_step(
    contraction_rate: float, sampling_rate: float, curvature: np.ndarray | float
) -> np.ndarray | float:
    """rho / (kappa a0): each step removes the share ``contraction_rate`` of the distance to the
    optimum (mathematics.md section 11)."""
    return contraction_rate / (sampling_rate * np.asarray(curvature))


def decaying_schedule(steps: int, initial_multiplier: float, until: float) -> np.ndarray:
    """Multipliers of the step size: from ``initial_multiplier`` down to 1 over a run's first part.

    Large first steps bring a far start near within the burn-in; the constant rest is what the
    noise-aware posterior is read from.
    """
    schedule = np.ones(steps, np.float32)
    warm_up = int(until * steps)
    schedule[:warm_up] = np.geomspace(max(initial_multiplier, 1.0), 1.0, warm_up)
    return schedule
