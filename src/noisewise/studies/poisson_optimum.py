"""The variational optimum of a Poisson regression, without noise: what private fits aim at.

E[exp(x w)] of a Gaussian w is exp(x m + x^2 s^2 / 2), so the ELBO of a diagonal guide is known in
closed form, and Newton's method finds its optimum to double precision. In the mixture the
regression's likelihood has no parameter in common with the rest, so this is its part of the
mixture's optimum too, whatever the components do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise._validate import NoisewiseError
from noisewise.studies.logistic_optimum import Optimum

__all__ = ["Cells", "elbo_gradient", "poisson_optimum"]

_ROUNDS = 200
_TOLERANCE = 1e-6


class Cells(NamedTuple):
    """A table of categories and a count, rows alike put together: sufficient for the regression."""

    design: np.ndarray
    """Cells x coefficients."""
    rows: np.ndarray
    """How many records have these categories."""
    total: np.ndarray
    """The sum of their counts."""


def poisson_optimum(cells: Cells) -> Optimum:
    """Maximise the ELBO of y ~ Poisson(exp(X w)), w ~ N(0, I), q(w) = N(mean, diag(sd^2)).

    Newton steps in the means, halved while the ELBO falls; the sds follow from the curvature,
    sd_j^-2 = 1 + sum_i x_ij^2 E[exp(x_i w)], which is the stationarity of the ELBO in them.
    """
    wide = cells.design
    mean, sd = np.zeros(wide.shape[1]), np.full(wide.shape[1], 0.1)
    mean[0] = np.log(max(cells.total.sum(), 0.5) / cells.rows.sum())  # the intercept
    for _ in range(_ROUNDS):
        rate = _rates(cells, mean, sd)
        gradient = wide.T @ (cells.total - rate) - mean
        sd_new = (1 + rate @ wide**2) ** -0.5
        if np.abs(gradient).max() < _TOLERANCE and np.abs(sd_new / sd - 1).max() < _TOLERANCE:
            return Optimum(mean, sd)
        hessian = (wide * rate[:, None]).T @ wide + np.eye(len(mean))
        move = np.linalg.solve(hessian, gradient)
        while _value(cells, mean + move, sd) < _value(cells, mean, sd) and abs(move).max() > 1e-12:
            move = move / 2
        mean, sd = mean + move, sd_new
    raise NoisewiseError(
        f"the non-private optimum was not found in {_ROUNDS} rounds: the table may be degenerate"
    )


def elbo_gradient(cells: Cells, at: Optimum) -> tuple[np.ndarray, np.ndarray]:
    """Gradient of the ELBO by means and sds: zero at the optimum."""
    rate = _rates(cells, at.mean, at.sd)
    by_mean = cells.design.T @ (cells.total - rate) - at.mean
    return by_mean, 1 / at.sd - at.sd * (1 + rate @ cells.design**2)


def _rates(cells: Cells, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Expected counts of the cells."""
    return cells.rows * np.exp(cells.design @ mean + 0.5 * (cells.design**2 @ sd**2))


def _value(cells: Cells, mean: np.ndarray, sd: np.ndarray) -> float:
    """The ELBO as far as it depends on the means."""
    with np.errstate(over="ignore"):
        rates = _rates(cells, mean, sd).sum()
    return float(cells.total @ (cells.design @ mean) - rates - 0.5 * mean @ mean)
