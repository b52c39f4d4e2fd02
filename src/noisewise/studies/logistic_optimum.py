"""The variational optimum of a logistic regression, without noise: what private fits aim at.

For a diagonal Gaussian guide every expectation in the ELBO's gradient is one-dimensional, for a
record's predictor is Gaussian. With quadrature the optimum is a fixed point that Newton's method
finds to double precision; no batch, no draw and no clip is involved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError

__all__ = ["Optimum", "elbo_gradient", "logistic_optimum"]

_NODES = 24
_ROUNDS = 200
_TOLERANCE = 1e-6


class Optimum(NamedTuple):
    """Means and standard deviations of the guide."""

    mean: np.ndarray
    sd: np.ndarray


def logistic_optimum(design: np.ndarray, outcome: np.ndarray) -> Optimum:
    """Maximise the ELBO of y ~ Bernoulli(sigmoid(X w)), w ~ N(0, I), q(w) = N(mean, diag(sd^2)).

    Newton steps in the means; the sds follow from the curvature, sd_j^-2 = 1 + sum_i x_ij^2
    E[sigmoid'], which is the stationarity of the ELBO in them.
    """
    wide = np.asarray(design, float)
    squares = wide**2
    mean, sd = np.zeros(wide.shape[1]), np.full(wide.shape[1], 0.1)
    for _ in range(_ROUNDS):
        expected, slope = _expectations(wide @ mean, np.sqrt(squares @ sd**2))
        gradient = wide.T @ (outcome - expected) - mean
        sd_new = (1 + slope @ squares) ** -0.5
        if np.abs(gradient).max() < _TOLERANCE and np.abs(sd_new / sd - 1).max() < _TOLERANCE:
            return Optimum(mean, sd)
        hessian = (wide * slope[:, None]).T @ wide + np.eye(len(mean))
        mean, sd = mean + np.linalg.solve(hessian, gradient), sd_new
    raise NoisewiseError(
        f"the non-private optimum was not found in {_ROUNDS} rounds: the table may be degenerate"
    )


def elbo_gradient(
    design: np.ndarray, outcome: np.ndarray, at: Optimum
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient of the ELBO by means and sds: zero at the optimum."""
    wide = np.asarray(design, float)
    expected, slope = _expectations(wide @ at.mean, np.sqrt(wide**2 @ at.sd**2))
    by_mean = wide.T @ (outcome - expected) - at.mean
    return by_mean, 1 / at.sd - at.sd * (1 + slope @ wide**2)


def _expectations(centre: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[sigmoid] and E[sigmoid'] of every record's predictor, N(centre, spread^2)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    expected, slope = np.zeros(len(centre)), np.zeros(len(centre))
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        probability = 0.5 * (1 + np.tanh(0.5 * (centre + node * spread)))
        expected += weight * probability
        slope += weight * probability * (1 - probability)
    return expected, slope
