"""The noise-aware posterior with a whole curvature matrix, where coordinates are correlated.

    g_t ~ N(kappa A (phi_t - phi*), W),    A symmetric and positive definite

Given the trace, the gradients are linear regression with known noise, quadratic in A. A's logarithm
has a Gaussian prior around the simulated curvature, so A is positive definite by construction,
whatever the trace can or cannot tell; its posterior is Gaussian around the mode in that logarithm
(Gauss-Newton), and the optimum given A is Gaussian exactly. No Markov chain, no cost in steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from noisewise.dpvi import TraceStatistics
from noisewise.posterior.status import NoiseAwarePosterior

__all__ = ["MatrixModel", "infer"]

_CURVATURE_DRAWS = 1000
_EXACT_HESSIAN_DIM = 64
_LARGEST_LOG = 12.0
_LEAST_GAIN = 1e-3


class MatrixModel(NamedTuple):
    """Statistics with matrices, what is known of the noise, and priors.

    Coordinates are the frame's, in which the simulated curvature is the identity.
    """

    statistics: TraceStatistics
    sampling_rate: float
    noise_variance: np.ndarray
    """(sigma C / beta)^2 per coordinate."""
    prior_mean: np.ndarray
    prior_precision: np.ndarray
    """Inverse prior covariance of theta (parameters x parameters)."""
    log_curvature_sd: float
    """Prior sd of the log-eigenvalues of A around zero."""


class _Regression(NamedTuple):
    """The likelihood of A alone: -1/2 tr(W^-1 (kappa A S kappa A - 2 cross kappa A)) in numbers."""

    weight: np.ndarray
    """1 / W, per row."""
    spread: np.ndarray
    """kappa^2 times the centred second moment of the iterates."""
    cross: np.ndarray
    """kappa times the centred gradient-iterate moment."""
    prior: float
    """Prior density of S = log A: exp(-prior tr(S^2) / 2)."""


def infer(model: MatrixModel, draws: int, rng: np.random.Generator) -> NoiseAwarePosterior:
    """Draws from p(phi*, A | trace)."""
    variance = total_variance(model)
    dim = len(variance)
    regression = _Regression(
        1 / variance,
        model.sampling_rate**2 * model.statistics.spread,
        model.sampling_rate * model.statistics.cross,
        # Off-diagonal entries get a variance that gives log-eigenvalues the wanted spread.
        (dim + 1) / (2 * model.log_curvature_sd**2),
    )
    root = _half(_mode(regression))
    count = min(draws, _CURVATURE_DRAWS)
    deviations, prior_share = _deviations(regression, root, count, rng)
    matrices, optimum_precision = _above_prior(
        root @ _exponential(deviations) @ root, model.prior_precision
    )
    chosen = rng.permutation(np.arange(draws) % count)
    mean, precision = _optimum(model, variance, matrices, optimum_precision)
    inverse_roots = np.linalg.inv(np.swapaxes(np.linalg.cholesky(precision), -1, -2))
    shock = rng.standard_normal((draws, dim, 1))
    optimum = mean[chosen] + (inverse_roots[chosen] @ shock)[..., 0]
    return NoiseAwarePosterior(optimum, matrices[chosen], bool(prior_share < 0.5))


def total_variance(model: MatrixModel) -> np.ndarray:
    """Noise variance with subsampling: the residuals' of a least-squares fit, at least the known.

    Thousands of steps pin it to a percent or two, so it is plugged in.
    """
    stats = model.statistics
    dim = len(stats.parameters)
    ridge = 1e-9 * np.trace(stats.spread) / dim * np.eye(dim)
    slopes = np.linalg.solve(stats.spread + ridge, stats.cross.T).T
    explained = np.einsum("ij,ij->i", stats.cross, slopes)
    freedom = max(float(stats.steps) - dim - 1, 1.0)
    return np.maximum((stats.power - explained) / freedom, model.noise_variance)


def _mode(regression: _Regression) -> np.ndarray:
    """The most probable A, by quasi-Newton steps in its logarithm."""
    dim = len(regression.weight)
    upper = np.triu_indices(dim)
    both_sides = np.where(upper[0] == upper[1], 1.0, 2.0)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        log = np.zeros((dim, dim))
        log[upper] = flat
        log = log + np.triu(log, 1).T
        values, vectors = np.linalg.eigh(log)
        values = np.clip(values, -_LARGEST_LOG, _LARGEST_LOG)
        exponentials = np.exp(values)
        matrix = (vectors * exponentials) @ vectors.T
        weighted = regression.weight[:, None] * (matrix @ regression.spread)
        target = regression.weight[:, None] * regression.cross
        value = 0.5 * np.sum(weighted * matrix) - np.sum(target * matrix)
        # The mean gradient, with a wide prior on the optimum, says 1/|A|: minus the log trace.
        value += 0.5 * regression.prior * np.sum(log * log) + np.trace(log)
        slope = weighted - target
        # Daleckii and Krein: the derivative of the exponential in its eigenbasis.
        gaps = values[:, None] - values[None, :]
        near = np.abs(gaps) < 1e-8
        ratios = (exponentials[:, None] - exponentials[None, :]) / np.where(near, 1.0, gaps)
        ratios = np.where(near, exponentials[:, None], ratios)
        slope = vectors @ (ratios * (vectors.T @ (0.5 * (slope + slope.T)) @ vectors)) @ vectors.T
        slope = slope + regression.prior * log + np.eye(dim)
        return float(value), slope[upper] * both_sides

    found = minimize(loss, np.zeros(len(upper[0])), jac=True, method="L-BFGS-B")
    log = np.zeros((dim, dim))
    log[upper] = found.x
    return _exponential((log + np.triu(log, 1).T)[None])[0]


def _deviations(
    regression: _Regression, root: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Symmetric Gaussian E with A = root exp(E) root, and the prior's share of its precision.

    To first order A = mode + root E root, so the likelihood's quadratic form in E is
    tr(E P E Q) with P = root S root and Q = root W^-1 root.
    """
    dim = len(root)
    left = root @ regression.spread @ root
    right = (root * regression.weight) @ root
    upper = np.triu_indices(dim)
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    if dim <= _EXACT_HESSIAN_DIM:
        precision = _quadratic_form(left, right, upper)
    else:
        # Too many pairs for a matrix over them: turn to the basis of Q and keep the diagonal.
        turn = np.linalg.eigh(right)[1]
        p, q = np.diag(turn.T @ left @ turn), np.diag(turn.T @ right @ turn)
        pairs = 0.5 * (np.outer(p, q) + np.outer(q, p))[upper] * twice
        precision = np.diag(pairs)
    prior = regression.prior * twice
    precision[np.diag_indices_from(precision)] += prior
    lower = np.linalg.cholesky(precision)
    flat = np.linalg.solve(lower.T, rng.standard_normal((len(prior), count))).T
    inverse = np.linalg.inv(lower)
    share = float(np.mean((inverse**2).sum(0) * prior))
    symmetric = np.zeros((count, dim, dim))
    symmetric[:, upper[0], upper[1]] = flat
    symmetric = symmetric + np.swapaxes(np.triu(symmetric, 1), -1, -2)
    if dim > _EXACT_HESSIAN_DIM:
        symmetric = turn @ symmetric @ turn.T
    return symmetric, share


def _quadratic_form(left: np.ndarray, right: np.ndarray, upper: tuple) -> np.ndarray:
    """The matrix of tr(E P E Q) over the upper triangle of a symmetric E."""
    dim = len(left)
    whole = 0.5 * (np.kron(left, right) + np.kron(right, left))
    one, other = upper[0] * dim + upper[1], upper[1] * dim + upper[0]
    off = (upper[0] != upper[1]).astype(float)
    form = whole[np.ix_(one, one)] + whole[np.ix_(one, other)] * off
    below = whole[np.ix_(other, one)] + whole[np.ix_(other, other)] * off
    return form + below * off[:, None]


def _above_prior(
    curvature: np.ndarray, prior_precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Curvatures raised to at least the prior's, and the optimum's prior precision given each.

    Data only add to the prior's precision P. And theta's prior covariance is the optimum's, over
    data sets, plus A^-1 for theta around it: so the optimum's is P^-1 - A^-1, and where data say
    nothing the posterior is the prior, not wider.
    """
    root = np.linalg.cholesky(prior_precision)
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ curvature @ inverse.T)
    values = np.maximum(values, 1 + _LEAST_GAIN)[..., None, :]
    turned = root @ vectors
    back = np.swapaxes(turned, -1, -2)
    return (turned * values) @ back, (turned * (values / (values - 1))) @ back


def _optimum(
    model: MatrixModel, variance: np.ndarray, curvature: np.ndarray, optimum_precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and precision of the optimum given each A: it is Gaussian."""
    stats, n = model.statistics, float(model.statistics.steps)
    slope = model.sampling_rate * curvature
    weighted = n * slope / variance
    precision = weighted @ slope + optimum_precision
    pull = (weighted @ (slope @ stats.parameters - stats.gradient)[..., None])[..., 0]
    pull = pull + optimum_precision @ model.prior_mean
    return np.linalg.solve(precision, pull[..., None])[..., 0], precision


def _exponential(symmetric: np.ndarray) -> np.ndarray:
    """Matrix exponentials of symmetric matrices."""
    values, vectors = np.linalg.eigh(symmetric)
    scaled = vectors * np.exp(np.clip(values, -_LARGEST_LOG, _LARGEST_LOG))[..., None, :]
    return scaled @ np.swapaxes(vectors, -1, -2)


def _half(matrix: np.ndarray) -> np.ndarray:
    """Symmetric square root."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(values)) @ vectors.T
