"""The noise-aware posterior with a whole curvature matrix, where coordinates are correlated.

    g_t = B (phi_t - phi*) + noise,   B = kappa A,  A symmetric and positive definite

With a Gaussian prior on A this is linear regression with known noise. In the eigenbasis of the
(noise-scaled) second moment of the iterates the entries of a *symmetric* A are independent
Gaussians, so exact draws cost one eigendecomposition. The optimum given A is Gaussian too; weights
account for what the mean gradient says of A, and draws that are not positive definite get none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise.dpvi import TraceStatistics
from noisewise.posterior.status import NoiseAwarePosterior

__all__ = ["MatrixModel", "infer"]

_CURVATURE_DRAWS = 1000
_GROUP_FLOATS = 2**24


class MatrixModel(NamedTuple):
    """Statistics with matrices, what is known of the noise, and priors."""

    statistics: TraceStatistics
    sampling_rate: float
    noise_variance: np.ndarray
    """(sigma C / beta)^2 per coordinate."""
    optimum_mean: np.ndarray
    optimum_precision: np.ndarray
    """Inverse prior covariance of the optimum (parameters x parameters)."""
    curvature: np.ndarray
    """Prior mean of A's diagonal; off the diagonal it is zero."""
    curvature_sd: float
    """Prior sd of A's entries relative to that diagonal."""


def total_variance(model: MatrixModel) -> np.ndarray:
    """Noise variance with subsampling: the residuals' of a least-squares fit, at least the known.

    Thousands of steps pin it to a percent or two, so it is plugged in.
    """
    stats = model.statistics
    ridge = 1e-9 * np.trace(stats.spread) / len(stats.parameters) * np.eye(len(stats.parameters))
    explained = np.einsum(
        "ij,ij->i", stats.cross, np.linalg.solve(stats.spread + ridge, stats.cross.T).T
    )
    freedom = max(float(stats.steps) - len(stats.parameters) - 1, 1.0)
    return np.maximum((stats.power - explained) / freedom, model.noise_variance)


def _symmetric_draws(
    model: MatrixModel, variance: np.ndarray, draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Draws of A given the centred statistics, from the exact Gaussian on symmetric matrices."""
    root = np.sqrt(variance)
    start = model.sampling_rate * model.curvature
    # In units where the noise is the identity: B = root C root, prior C ~ start / variance.
    pseudo = (variance / (model.curvature_sd * start)) ** 2
    gram = root[:, None] * model.statistics.spread * root[None, :] + np.diag(pseudo)
    moment = model.statistics.cross * (root[None, :] / root[:, None])
    moment = moment + np.diag(start / variance * pseudo)
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, values[-1] * 1e-14)
    turned = vectors.T @ moment @ vectors
    pairs = values[:, None] + values[None, :]
    mean = (turned + turned.T) / pairs
    # Diagonal entries have precision `values`, off-diagonal ones the sum of their two.
    sd = np.where(np.eye(len(values), dtype=bool), values**-0.5, pairs**-0.5)
    noise = np.triu(rng.standard_normal((draws, *mean.shape)))
    noise = noise + np.swapaxes(np.triu(noise, 1), -1, -2)
    matrices = vectors @ (mean + sd * noise) @ vectors.T
    return matrices * (root[:, None] * root[None, :]) / model.sampling_rate


def _optimum(
    model: MatrixModel, variance: np.ndarray, curvature: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each A: mean and precision of the optimum, and the log weight of A."""
    stats, n = model.statistics, float(model.statistics.steps)
    slope = model.sampling_rate * curvature
    weighted = n * np.swapaxes(slope, -1, -2) / variance
    precision = weighted @ slope + model.optimum_precision
    pull = (weighted @ (slope @ stats.parameters - stats.gradient)[..., None])[..., 0]
    pull = pull + model.optimum_precision @ model.optimum_mean
    mean = np.linalg.solve(precision, pull[..., None])[..., 0]
    # log N(mean gradient; slope (phi - prior mean), variance/n + slope prior-cov slope) by the
    # Gaussian identity: likelihood times prior over posterior, all at the posterior mean.
    misfit = stats.gradient - (slope @ (stats.parameters - mean)[..., None])[..., 0]
    off = mean - model.optimum_mean
    quadratic = n * (misfit**2 / variance).sum(-1)
    quadratic = quadratic + np.einsum("...i,ij,...j->...", off, model.optimum_precision, off)
    return mean, precision, -0.5 * quadratic - 0.5 * np.linalg.slogdet(precision)[1]


def infer(model: MatrixModel, draws: int, rng: np.random.Generator) -> NoiseAwarePosterior:
    """Draws from p(phi*, A | trace)."""
    variance = total_variance(model)
    dim = len(variance)
    group = max(1, min(_CURVATURE_DRAWS, _GROUP_FLOATS // dim**2))
    parts, tried = [], 0
    while tried < _CURVATURE_DRAWS:
        matrices = _symmetric_draws(model, variance, min(group, _CURVATURE_DRAWS - tried), rng)
        tried += len(matrices)
        parts.append(_weighed(model, variance, matrices))
    curvature, mean, precision, log_weight = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    if not np.isfinite(log_weight).any():
        return NoiseAwarePosterior(np.full((draws, dim), np.nan), curvature[:1], False)
    weight = np.exp(log_weight - log_weight.max())
    chosen = rng.choice(len(weight), size=draws, p=weight / weight.sum())
    roots = np.linalg.cholesky(precision)
    shock = rng.standard_normal((draws, dim, 1))
    optimum = mean[chosen] + _back_solve(roots, chosen, shock)
    effective = weight.sum() ** 2 / (weight**2).sum()
    return NoiseAwarePosterior(optimum, curvature[chosen], bool(effective > 0.1 * tried))


def _weighed(model: MatrixModel, variance: np.ndarray, matrices: np.ndarray) -> tuple:
    """Matrices with their optimum's law and weight; indefinite ones get weight zero."""
    definite = np.linalg.eigvalsh(matrices)[:, 0] > 0
    mean, precision, log_weight = _optimum(model, variance, matrices)
    return matrices, mean, precision, np.where(definite, log_weight, -np.inf)


def _back_solve(roots: np.ndarray, chosen: np.ndarray, shock: np.ndarray) -> np.ndarray:
    """Gaussian deviates with precision root root^T, for each chosen matrix."""
    inverse = np.linalg.inv(np.swapaxes(roots, -1, -2))
    return (inverse[chosen] @ shock)[..., 0]
