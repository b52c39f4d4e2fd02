"""The noise-aware posterior with a whole curvature matrix, where coordinates are correlated.

    g_t ~ N(kappa A (phi_t - phi*), W),    A symmetric and positive definite

Given the trace, the gradients are linear regression with known noise, quadratic in A. A's logarithm
has a Gaussian prior around the curvature that the model expects, so A is positive definite by
construction, whatever the trace can or cannot tell; its posterior is Gaussian around the mode in
that logarithm (Gauss-Newton), and the optimum given A is Gaussian exactly. How far A may be from
what is expected is itself judged by the evidence of the trace. No Markov chain, no cost in steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from noisewise.dpvi import TraceStatistics
from noisewise.posterior.expected import Expected, optimum_prior
from noisewise.posterior.status import NoiseAwarePosterior

__all__ = ["MatrixModel", "infer"]

_CURVATURE_DRAWS = 1000
_EXACT_HESSIAN_DIM = 64
_LARGEST_LOG = 12.0
_WELL_KNOWN = 0.2
_DECISIVE = np.log(100)
"""Log evidence that it takes to give up what believed records expect: chance makes some."""


class MatrixModel(NamedTuple):
    """Statistics with matrices, what is known of the noise, and priors.

    Coordinates are the frame's, in which the curvature is of order one.
    """

    statistics: TraceStatistics
    sampling_rate: float
    noise_variance: np.ndarray
    """(sigma C / beta)^2 per coordinate."""
    prior_mean: np.ndarray
    prior_precision: np.ndarray
    """Inverse prior covariance of theta (parameters x parameters)."""
    curvature: np.ndarray
    """The expected A: its prior's centre."""
    log_curvature_sds: tuple[float, ...]
    """Prior sds of the log-eigenvalues of A around the expected one's, of which the trace picks."""
    expected: Expected | None = None
    """What clipping and bending are expected to do; None is nothing."""


class _Regression(NamedTuple):
    """The likelihood of A alone: -1/2 tr(W^-1 (kappa A S kappa A - 2 cross kappa A)) in numbers."""

    weight: np.ndarray
    """1 / W, per row."""
    spread: np.ndarray
    """kappa^2 times the centred second moment of the iterates."""
    cross: np.ndarray
    """kappa times the centred gradient-iterate moment."""
    centre: np.ndarray
    """R, the symmetric root of the expected A: A = R exp(S) R."""
    prior: float
    """Prior density of S: exp(-prior tr(S^2) / 2)."""


class _Fit(NamedTuple):
    """A's posterior at one width of its prior."""

    evidence: float
    log_sd: float
    """The prior's width."""
    log: np.ndarray
    """S of the most probable A, in the basis of `_mode`."""
    root: np.ndarray
    """Symmetric root of the most probable A."""
    factor: np.ndarray
    """Cholesky factor of the precision of the deviations from it."""
    basis: np.ndarray | None
    """Turn in which those deviations are independent; None is as they come, jointly."""
    prior_share: float
    """The prior's share of that precision: one where the trace says nothing."""


def infer(model: MatrixModel, draws: int, rng: np.random.Generator) -> NoiseAwarePosterior:
    """Draws from p(phi*, A | trace)."""
    variance = total_variance(model)
    dim = len(variance)
    centre = _half(model.curvature)
    fits: list[_Fit] = []
    for log_sd in sorted(model.log_curvature_sds):
        start = fits[-1].log if fits else np.zeros((dim, dim))
        fits.append(_fit(_regression(model, variance, centre, log_sd), log_sd, start))
        if fits[-1].evidence < fits[0].evidence:
            break  # a wider prior only loses from here on
    best = max(fits, key=lambda fit: fit.evidence)
    if model.expected is not None and best.evidence < fits[0].evidence + _DECISIVE:
        best = fits[0]
    count = max(min(draws, 100), min(draws // 4, _CURVATURE_DRAWS))
    deviations = _deviations(best, dim, count, rng)
    curvature = best.root @ _exponential(deviations) @ best.root
    # A trace that rejects the expected curvature casts doubt on all that was expected.
    if best is not fits[0]:
        model = model._replace(expected=None)
    responses, optimum_precision = optimum_prior(
        _responses(model, curvature), model.prior_precision
    )
    chosen = rng.permutation(np.arange(draws) % count)
    mean, precision = _optimum(model, variance, responses, optimum_precision)
    inverse_roots = np.linalg.inv(np.swapaxes(np.linalg.cholesky(precision), -1, -2))
    shock = rng.standard_normal((draws, dim, 1))
    optimum = mean[chosen] + (inverse_roots[chosen] @ shock)[..., 0]
    identified = best.log_sd <= _WELL_KNOWN or best.prior_share < 0.5
    believed = model.expected is not None
    return NoiseAwarePosterior(optimum, responses[chosen], bool(identified), believed)


def _regression(
    model: MatrixModel, variance: np.ndarray, centre: np.ndarray, log_sd: float
) -> _Regression:
    return _Regression(
        1 / variance,
        model.sampling_rate**2 * model.statistics.spread,
        model.sampling_rate * model.statistics.cross,
        centre,
        # Off-diagonal entries get a variance that gives log-eigenvalues the wanted spread.
        (len(variance) + 1) / (2 * log_sd**2),
    )


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


def _fit(regression: _Regression, log_sd: float, start: np.ndarray) -> _Fit:
    """Mode and precision of A, and the evidence for this prior, by Laplace's approximation."""
    dim = len(regression.weight)
    log, mode, loss = _mode(regression, start)
    root = _half(mode)
    # A = root exp(E) root; to first order A = mode + root E root, so the likelihood's quadratic
    # form in E is tr(E P E Q) with P = root S root and Q = root W^-1 root.
    left = root @ regression.spread @ root
    right = (root * regression.weight) @ root
    upper = np.triu_indices(dim)
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    prior = regression.prior * twice
    basis = None
    if dim <= _EXACT_HESSIAN_DIM:
        precision = _quadratic_form(left, right, upper)
        precision[np.diag_indices_from(precision)] += prior
        factor = np.linalg.cholesky(precision)
        share = float(np.mean((np.linalg.inv(factor) ** 2).sum(0) * prior))
        log_determinant = 2 * np.sum(np.log(np.diag(factor)))
    else:
        # Too many pairs for a matrix over them: turn to the basis of Q and keep the diagonal.
        basis = np.linalg.eigh(right)[1]
        p, q = np.diag(basis.T @ left @ basis), np.diag(basis.T @ right @ basis)
        pairs = 0.5 * (np.outer(p, q) + np.outer(q, p))[upper] * twice + prior
        factor, share = np.sqrt(pairs), float(np.mean(prior / pairs))
        log_determinant = np.sum(np.log(pairs))
    evidence = -loss + 0.5 * np.sum(np.log(prior)) - 0.5 * log_determinant
    return _Fit(float(evidence), log_sd, log, root, factor, basis, share)


def _mode(regression: _Regression, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The most probable S and A, by quasi-Newton steps in S from ``start``, and the loss there."""
    dim = len(regression.weight)
    upper = np.triu_indices(dim)
    both_sides = np.where(upper[0] == upper[1], 1.0, 2.0)
    # In the basis and the units in which the loss is nearly round, a dozen steps suffice.
    left = regression.centre @ regression.spread @ regression.centre
    power, turn = np.linalg.eigh(left)
    centre = regression.centre @ turn
    weight = np.einsum("ki,k,ki->i", centre, regression.weight, centre)
    pairs = 0.5 * (np.outer(power, weight) + np.outer(weight, power))[upper] + regression.prior
    unit = 1 / np.sqrt(pairs * both_sides)
    target = regression.weight[:, None] * regression.cross

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        log = _symmetric(unit * flat, upper, dim)
        values, vectors = np.linalg.eigh(log)
        values = np.clip(values, -_LARGEST_LOG, _LARGEST_LOG)
        exponentials = np.exp(values)
        matrix = centre @ (vectors * exponentials) @ vectors.T @ centre.T
        weighted = regression.weight[:, None] * (matrix @ regression.spread)
        value = 0.5 * np.sum(weighted * matrix) - np.sum(target * matrix)
        # The mean gradient, with a wide prior on the optimum, says 1/|A|: minus the log trace.
        value += 0.5 * regression.prior * np.sum(log * log) + np.trace(log)
        slope = weighted - target
        slope = centre.T @ (0.5 * (slope + slope.T)) @ centre
        # Daleckii and Krein: the derivative of the exponential in its eigenbasis.
        gaps = values[:, None] - values[None, :]
        near = np.abs(gaps) < 1e-8
        ratios = (exponentials[:, None] - exponentials[None, :]) / np.where(near, 1.0, gaps)
        ratios = np.where(near, exponentials[:, None], ratios)
        slope = vectors @ (ratios * (vectors.T @ slope @ vectors)) @ vectors.T
        slope = slope + regression.prior * log + np.eye(dim)
        return float(value), slope[upper] * both_sides * unit

    options = {"ftol": 1e-8, "maxcor": 20}
    found = minimize(loss, start[upper] / unit, jac=True, method="L-BFGS-B", options=options)
    log = _symmetric(unit * found.x, upper, dim)
    return log, centre @ _exponential(log[None])[0] @ centre.T, float(found.fun)


def _symmetric(flat: np.ndarray, upper: tuple, dim: int) -> np.ndarray:
    """Symmetric matrices from their upper triangles; leading axes are kept."""
    whole = np.zeros((*flat.shape[:-1], dim, dim))
    whole[..., upper[0], upper[1]] = flat
    return whole + np.swapaxes(np.triu(whole, 1), -1, -2)


def _deviations(fit: _Fit, dim: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws of the symmetric Gaussian E with A = root exp(E) root."""
    upper = np.triu_indices(dim)
    normal = rng.standard_normal((len(upper[0]), count))
    if fit.basis is None:
        return _symmetric(np.linalg.solve(fit.factor.T, normal).T, upper, dim)
    return fit.basis @ _symmetric((normal / fit.factor[:, None]).T, upper, dim) @ fit.basis.T


def _quadratic_form(left: np.ndarray, right: np.ndarray, upper: tuple) -> np.ndarray:
    """The matrix of tr(E P E Q) over the upper triangle of a symmetric E."""
    dim = len(left)
    whole = 0.5 * (np.kron(left, right) + np.kron(right, left))
    one, other = upper[0] * dim + upper[1], upper[1] * dim + upper[0]
    off = (upper[0] != upper[1]).astype(float)
    form = whole[np.ix_(one, one)] + whole[np.ix_(one, other)] * off
    below = whole[np.ix_(other, one)] + whole[np.ix_(other, other)] * off
    return form + below * off[:, None]


def _responses(model: MatrixModel, curvature: np.ndarray) -> np.ndarray:
    """M for every A: in the proportion that is expected of the two."""
    if model.expected is None:
        return curvature
    inverse = np.linalg.inv(np.linalg.cholesky(model.curvature))
    proportion = inverse @ np.asarray(model.expected.response) @ inverse.T
    roots = np.linalg.cholesky(curvature)
    return roots @ proportion @ np.swapaxes(roots, -1, -2)


def _optimum(
    model: MatrixModel,
    variance: np.ndarray,
    responses: np.ndarray,
    optimum_precision: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and precision of the optimum given each M: it is Gaussian.

    With the optimum at c, for which things were simulated, the mean gradient where the iterates
    were is kappa G, and kappa (G - M (phi* - c)) with another: released with variance W / n, and G
    is simulated with an error of its own. A has no part in it: its estimate leans to one side in a
    trace of few time constants.
    """
    stats, n, kappa = model.statistics, float(model.statistics.steps), model.sampling_rate
    if model.expected is None:
        known = responses @ stats.parameters
    else:
        around = np.asarray(model.expected.optimum)
        known = np.asarray(model.expected.gradient) + responses @ around
        variance = variance + n * kappa**2 * np.asarray(model.expected.gradient_error)
    weighted = n * kappa * responses / variance
    precision = kappa * weighted @ responses + optimum_precision
    pull = (weighted @ (kappa * known - stats.gradient)[..., None])[..., 0]
    pull = pull + optimum_precision @ model.prior_mean
    if model.expected is not None:
        pull = pull - np.asarray(model.expected.lean)
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
