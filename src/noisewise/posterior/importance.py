"""Draws from a density of few dimensions, by importance: no chain, no step size."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from noisewise._shapes import Float

_FIRST, _THEN = 300, 900
"""Proposals around the mode, and around the mean that those find."""
_FREEDOM = 8
"""Of Student's t: tails as heavy as a skewed posterior's."""


class Peak(NamedTuple):
    """About where a density is, and how wide."""

    mode: Float[np.ndarray, " dim"]
    covariance: Float[np.ndarray, "dim dim"]


LogDensity = Callable[[Float[np.ndarray, "points dim"]], Float[np.ndarray, " points"]]


def importance_draws(
    log_density: LogDensity, peak: Peak, draws: int, rng: np.random.Generator
) -> Float[np.ndarray, "draws dim"]:
    """Draws of a density, from proposals that are moved to its mean and covariance once.

    Args:
        log_density: Of many points, up to a constant.
        peak: Where to look first.
        draws: How many; they repeat where there are more than proposals.
        rng: For all of it.
    """
    points, weights = _weighted(log_density, peak, _FIRST, rng)
    mean = weights @ points
    off = points - mean
    # Half of each: few points of a skewed density must not make the proposals too narrow.
    covariance = 0.5 * (peak.covariance + (weights[:, None] * off).T @ off)
    points, weights = _weighted(log_density, Peak(mean, covariance), _THEN, rng)
    # Systematic resampling: as many of each as its weight says, to within one.
    ends = np.cumsum(weights)
    at = (np.arange(draws) + rng.random()) / draws * ends[-1]
    chosen = np.minimum(np.searchsorted(ends, at), len(points) - 1)
    return points[rng.permutation(chosen)]


def _weighted(
    log_density: LogDensity, peak: Peak, count: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "count dim"], Float[np.ndarray, " count"]]:
    dim = len(peak.mode)
    normal = rng.standard_normal((count, dim))
    stretch = np.sqrt(_FREEDOM / rng.chisquare(_FREEDOM, count))[:, None]
    points = peak.mode + stretch * normal @ np.linalg.cholesky(peak.covariance).T
    squares = ((stretch * normal) ** 2).sum(1)
    proposed = -(_FREEDOM + dim) / 2 * np.log1p(squares / _FREEDOM)
    logs = log_density(points) - proposed
    weights = np.exp(logs - logs.max())
    return points, weights / weights.sum()
