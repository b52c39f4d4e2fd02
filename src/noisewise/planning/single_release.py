"""The yardstick for sharpness: what one optimal Gaussian release of the same budget would allow.

Let every record's gradient at the truth be clipped to norm C, summed, and released once with the
noise that the whole budget buys, C / mu. With psi the clipped and u the plain gradient (both in
the whitened frame), the parameters that this release implies have covariance

    (P + M (B + (C / mu)^2 I)^-1 M^T)^-1,    M = N E[psi u^T],  B = N Cov(psi)

over tables and noise (mathematics.md eq. (30)): an M-estimator with noise added, joined with the
prior's precision P. C is the one with the least trace. Without clipping and noise this is the
posterior's own covariance. For Bernoulli records it is closed: psi = u = x - p, so with a flat
prior the variance of the logit is 1/(N p (1 - p)) plus (max(p, 1 - p) / mu)^2 / (N p (1 - p))^2.
"""

from typing import NamedTuple

import numpy as np

from noisewise.dpvi import WIDE
from noisewise.mechanism import Budget
from noisewise.mechanism.accounting import gaussian_limit

_QUANTILES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999, 1.0)
_SLOPE_LEFT = 0.67
_SINGULAR = 1e-5
"""Of a scaled Cholesky factor's diagonal, whose square is what is left of a condition number."""


class _Moments(NamedTuple):
    """What clipping at a norm leaves of the simulated gradients; a budget only adds noise to it."""

    clip_norm: float
    sensitivity: np.ndarray
    variability: np.ndarray
    """M and B of every simulated parameter (parameters x dim x dim, or their diagonals)."""
    bias: float


class SingleRelease(NamedTuple):
    """A clip norm, and what a release at it would know."""

    clip_norm: float
    covariance: np.ndarray
    """Mean over simulated parameters, in frame coordinates (parameters x parameters); of more than
    `WIDE` coordinates the diagonal alone."""
    noise: float
    """Sd of the noise: in posterior sds of a coordinate, as the frame is whitened."""
    bias: float
    """Root mean square shift by clipping, over simulated parameters, all coordinates together.
    Under the model it is known and taken off; where the model is wrong, part of it stays."""

    @property
    def squared_error(self) -> float:
        """Expected, of all frame coordinates together."""
        matrix = self.covariance.ndim == 2
        return float(np.trace(self.covariance) if matrix else self.covariance.sum())

    def sds(self, factor: np.ndarray) -> np.ndarray:
        """Of the model's coordinates, from the frame's."""
        if self.covariance.ndim == 1:
            return np.sqrt(factor**2 @ self.covariance)
        return np.sqrt(np.einsum("ij,ij->i", factor @ self.covariance, factor))


def least_noise(budget: Budget) -> float:
    """1 / mu: the noise multiplier of one Gaussian release that spends the whole budget."""
    mu = gaussian_limit(budget.epsilon, budget.delta)
    return (2.0 if budget.adjacency == "replace-one" else 1.0) / mu


def candidate_norms(gradients: np.ndarray) -> np.ndarray:
    """Clip norms worth trying for gradients (truths x records x coordinates)."""
    norms = np.linalg.norm(gradients, axis=-1)
    typical = np.quantile(np.quantile(norms, _QUANTILES, axis=1), (0.5, 0.9), axis=1)
    return 1.02 * np.unique(np.append(np.maximum(typical, 1e-12), norms.max()))


def single_release(
    gradients: np.ndarray,
    rows: int,
    prior_precision: np.ndarray,
    *budgets: Budget,
    weights: np.ndarray | float = 1.0,
) -> list[list[SingleRelease]]:
    """For every budget, single releases at every candidate clip norm, from simulated gradients,
    which are multiplied by these weights."""
    norms = np.linalg.norm(gradients, axis=-1, keepdims=True)
    moments = [
        _moments(gradients, gradients / weights, norms, rows, prior_precision, clip_norm)
        for clip_norm in candidate_norms(gradients)
    ]
    return [[_release(found, prior_precision, budget) for found in moments] for budget in budgets]


def release_at(
    gradients: np.ndarray,
    rows: int,
    prior_precision: np.ndarray,
    clip_norm: float,
    budget: Budget,
    *,
    weights: np.ndarray | float = 1.0,
) -> SingleRelease:
    """The single release at a clip norm that was chosen otherwise, say on other covariates."""
    norms = np.linalg.norm(gradients, axis=-1, keepdims=True)
    found = _moments(gradients, gradients / weights, norms, rows, prior_precision, clip_norm)
    return _release(found, prior_precision, budget)


def sharpest(
    releases: list[SingleRelease], steepness: np.ndarray | None = None, distrust: float = 0.0
) -> SingleRelease:
    """The release with the least expected squared error.

    ``distrust`` is the share of clipping's bias that may stay, because the model or the simulated
    covariates are wrong. With the ``steepness`` of `clipped_steepness`, only norms are considered
    that leave gradient descent most of the slope that it descends along: otherwise iterates would
    converge too slowly.
    """
    kept = releases
    if steepness is not None:
        whole = np.maximum(steepness[:, -1:], 1e-30)
        left = np.median(steepness / whole, axis=0)
        kept = [found for found, share in zip(releases, left, strict=True) if share > _SLOPE_LEFT]
        kept = kept or releases[-1:]  # no slope anywhere: what is not clipped is as good as any
    return min(kept, key=lambda r: r.squared_error + (distrust * r.bias) ** 2)


def _moments(
    gradients: np.ndarray,
    scores: np.ndarray,
    norms: np.ndarray,
    rows: int,
    prior_precision: np.ndarray,
    clip_norm: float,
) -> _Moments:
    clipped = gradients * np.minimum(1.0, clip_norm / np.maximum(norms, 1e-30))
    if gradients.shape[-1] > WIDE:
        return _wide_moments(gradients, scores, clipped, rows, prior_precision, clip_norm)
    records, across = gradients.shape[1], np.swapaxes(clipped, 1, 2)
    sensitivity = rows * across @ scores / records
    mean = clipped.mean(1)
    variability = rows * (across @ clipped / records - mean[:, :, None] * mean[:, None, :])
    inverse = np.linalg.inv(sensitivity + prior_precision)
    shifts = rows * (gradients - clipped) @ np.swapaxes(inverse, 1, 2)
    shift = shifts.mean(1)
    # The simulated shift has a Monte Carlo error of its own, taken out in the mean.
    chance = shifts.var(1).sum(1) / records
    bias = max(float(np.mean((shift**2).sum(1) - chance)), 0.0) ** 0.5
    return _Moments(float(clip_norm), sensitivity, variability, bias)


def _wide_moments(
    gradients: np.ndarray,
    scores: np.ndarray,
    clipped: np.ndarray,
    rows: int,
    prior_precision: np.ndarray,
    clip_norm: float,
) -> _Moments:
    """Diagonals alone: matrices of so many coordinates, one for each simulated parameter and norm,
    would take gigabytes, and off their diagonals a thousand records say little."""
    records, mean = gradients.shape[1], clipped.mean(1)
    sensitivity = rows * np.einsum("pri,pri->pi", clipped, scores) / records
    variability = rows * (np.einsum("pri,pri->pi", clipped, clipped) / records - mean**2)
    lost = gradients - clipped
    share = rows / (sensitivity + np.diag(prior_precision))
    shift = share * lost.mean(1)
    chance = (share**2 * lost.var(1)).sum(1) / records
    bias = max(float(np.mean((shift**2).sum(1) - chance)), 0.0) ** 0.5
    return _Moments(float(clip_norm), sensitivity, variability, bias)


def _release(found: _Moments, prior_precision: np.ndarray, budget: Budget) -> SingleRelease:
    noise = found.clip_norm * least_noise(budget)
    if found.variability.ndim == 2:
        information = found.sensitivity**2 / (found.variability + noise**2)
        covariance = (1 / (np.diag(prior_precision) + information)).mean(0)
        return SingleRelease(found.clip_norm, covariance, noise, found.bias)
    variability = found.variability + noise**2 * np.eye(found.variability.shape[-1])
    information = found.sensitivity @ _solved(variability, np.swapaxes(found.sensitivity, 1, 2))
    covariance = np.linalg.inv(prior_precision + information).mean(0)
    return SingleRelease(found.clip_norm, covariance, noise, found.bias)


def _solved(variability: np.ndarray, right: np.ndarray) -> np.ndarray:
    """B^-1 times the matrix on its right, by Cholesky factors: a tenth of the work of eigenvectors.

    A wild prior makes gradients of all sizes, up to where B is singular in floats: then by those.
    """
    scale = 1 / np.sqrt(np.einsum("...ii->...i", variability))[..., None]
    try:
        root = np.linalg.cholesky(variability * scale * np.swapaxes(scale, 1, 2))
        diagonal = np.einsum("...ii->...i", root)
        if np.all(diagonal > _SINGULAR):
            half = np.linalg.solve(root, scale * right)
            return scale * np.linalg.solve(np.swapaxes(root, 1, 2), half)
    except np.linalg.LinAlgError:
        pass
    return np.linalg.pinv(variability, hermitian=True) @ right
