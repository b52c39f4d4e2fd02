"""The noise-aware posterior without a Markov chain: quadrature over (a, w), then a Gaussian.

Given curvature and noise variance a coordinate's optimum is Gaussian and its evidence known, so
two dimensions per coordinate are all there is to integrate. The cost does not depend on the number
of steps.
"""

from __future__ import annotations

import numpy as np

from noisewise.posterior.status import NoiseAwarePosterior
from noisewise.posterior.trace_model import TraceModel, log_evidence, optimum_given_curvature

__all__ = ["infer"]

_CURVATURE_POINTS = 128
_SUBSAMPLING_POINTS = 24
_REFINEMENTS = 4
_REACH = 6.0


def infer(model: TraceModel, draws: int, rng: np.random.Generator) -> NoiseAwarePosterior:
    """Draws from p(phi*, a | trace), independent across coordinates."""
    free, extra, weights = _grid(model)
    picked_free = np.empty((draws, free.shape[0]))
    picked_extra = np.empty_like(picked_free)
    for j in range(free.shape[0]):
        cumulative = np.cumsum(weights[j].ravel())
        cells = np.searchsorted(cumulative, rng.random(draws) * cumulative[-1])
        rows, columns = np.divmod(np.minimum(cells, cumulative.size - 1), extra.shape[1])
        # Uniform within its cell: the grid is fine against the posterior, its points are not it.
        jitter = rng.random((2, draws)) - 0.5
        picked_free[:, j] = free[j, rows] + jitter[0] * (free[j, 1] - free[j, 0])
        picked_extra[:, j] = extra[j, columns] + jitter[1] * (extra[j, 1] - extra[j, 0])
    curvature = model.priors.curvature(picked_free)
    mean, sd = optimum_given_curvature(model, curvature, model.noise_variance + picked_extra**2)
    optimum = mean + sd * rng.standard_normal(mean.shape)
    narrowing = picked_free.std(0) / model.priors.curvature_sd
    return NoiseAwarePosterior(optimum, curvature, bool(np.all(narrowing < 0.9)))


def _grid(model: TraceModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (coordinates x points, twice) and weights, refined onto the posterior's bulk."""
    prior = model.priors
    free_low = prior.curvature_mean - _REACH * prior.curvature_sd
    free_high = prior.curvature_mean + _REACH * prior.curvature_sd
    extra_low = np.zeros_like(prior.subsampling_sd)
    extra_high = _REACH * prior.subsampling_sd
    for _ in range(_REFINEMENTS):
        free = np.linspace(free_low, free_high, _CURVATURE_POINTS, axis=-1)
        extra = np.linspace(extra_low, extra_high, _SUBSAMPLING_POINTS, axis=-1)
        weights = _weights(model, free, extra)
        free_low, free_high = _bulk(free, weights.sum(-1), None)
        extra_low, extra_high = _bulk(extra, weights.sum(-2), 0.0)
    free = np.linspace(free_low, free_high, _CURVATURE_POINTS, axis=-1)
    extra = np.linspace(extra_low, extra_high, _SUBSAMPLING_POINTS, axis=-1)
    return free, extra, _weights(model, free, extra)


def _weights(model: TraceModel, free: np.ndarray, extra: np.ndarray) -> np.ndarray:
    prior = model.priors
    curvature = prior.curvature(free)[..., :, None]
    variance = model.noise_variance[..., None, None] + extra[..., None, :] ** 2
    logs = log_evidence(model, curvature, variance)
    off = (free - prior.curvature_mean[..., None]) / prior.curvature_sd[..., None]
    logs = logs - 0.5 * (off**2)[..., :, None]
    logs = logs - 0.5 * ((extra / prior.subsampling_sd[..., None]) ** 2)[..., None, :]
    return np.exp(logs - logs.max((-2, -1), keepdims=True))


def _bulk(
    points: np.ndarray, weights: np.ndarray, floor: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Where the mass is: its mean plus and minus several sds, never less than a grid cell."""
    weights = weights / weights.sum(-1, keepdims=True)
    mean = (weights * points).sum(-1)
    sd = np.sqrt((weights * (points - mean[..., None]) ** 2).sum(-1))
    reach = np.maximum(_REACH * sd, 1.5 * (points[..., 1] - points[..., 0]))
    low, high = mean - reach, mean + reach
    return (low if floor is None else np.maximum(low, floor)), high
